from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pipeline.session import USED_ALL_THE_TIME

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("name", USED_ALL_THE_TIME)
def test_what_every_column_needs_of_the_jvm_is_looked_for_once(spark: SparkSession, name: str) -> None:
    found = getattr(spark._jvm, name)
    assert found is getattr(spark._jvm, name)
    for member in USED_ALL_THE_TIME[name]:
        assert getattr(found, member) is getattr(found, member)
