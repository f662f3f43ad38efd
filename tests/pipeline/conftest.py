"""One Spark session for all tests of the pipeline: starting one takes longer than most of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pipeline.session import open_session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

# Compiled less, started sooner: tests run each plan once (measured: half the time).
FAST_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    place = tmp_path_factory.mktemp("spark")
    session = open_session(
        "tests",
        master="local[2]",
        conf={
            "spark.driver.extraJavaOptions": f"{FAST_START} -Dderby.system.home={place}",
            "spark.driver.memory": "1g",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": str(place / "warehouse"),
            "spark.ui.showConsoleProgress": "false",
            # Compiling a plan takes longer than running it over a handful of rows.
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        },
    )
    yield session
    session.stop()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A timeout that interrupts a call into the JVM leaves the session unusable for every test after it: be patient
    with a busy machine."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.timeout(400))
