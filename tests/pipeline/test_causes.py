"""What went wrong in Java, or in Python on its behalf, as a line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from pipeline.causes import first_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_what_a_python_worker_failed_of_is_said(spark: SparkSession) -> None:
    def fails(_: int) -> int:
        raise ValueError("expected a quota, found none")

    with pytest.raises(PySparkException) as error:
        spark.range(1).select(F.udf(fails, "long", useArrow=False)("id")).collect()
    assert first_line(error.value) == "a Python worker failed: ValueError: expected a quota, found none"


def test_a_defect_of_spark_s_is_called_one() -> None:
    """A job that was stopped for ten minutes ended with this, raw."""
    raw = 'java.lang.NullPointerException: Cannot invoke "BlockManagerId.executorId()" because "idWithoutTopo" is null'
    told = first_line(PySparkException(message=f"{raw}\n\tat org.apache.spark.storage.BlockManagerId.apply"))
    assert told == f"Spark itself failed, as where it stood still for minutes: run it again ({raw})"


def test_a_wrong_query_is_its_first_line(spark: SparkSession) -> None:
    with pytest.raises(PySparkException) as error:
        spark.range(1).select("nothing").collect()
    assert first_line(error.value).startswith("[UNRESOLVED_COLUMN")
