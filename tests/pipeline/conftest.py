"""One Spark session for all tests of the pipeline: starting one takes longer than most of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.pipeline.sessions import session_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    session = session_in(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """They share one session, so one process has to run them all. A timeout that interrupts a call into the JVM leaves
    the session unusable for every test after it: be patient with a busy machine."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.timeout(400))
