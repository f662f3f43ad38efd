"""The Spark session of tests: made to start soon, not to run long."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.session import open_session

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

# Compiled less, started sooner: tests run each plan once (measured: half the time). The 48 MB that such a JVM keeps for
# compiled code are full after a minute: from then on everything was interpreted.
FAST_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"


def session_in(place: Path) -> SparkSession:
    """A session that leaves what it writes in `place`."""
    return open_session(
        "tests",
        master="local[2]",
        conf={
            "spark.driver.extraJavaOptions": f"{FAST_START} -Dderby.system.home={place}",
            "spark.driver.memory": "1g",
            "spark.sql.shuffle.partitions": "1",
            "spark.ui.showConsoleProgress": "false",
            # Nothing here is large enough to be worth a second look while it runs; the jobs of tests/system have it.
            "spark.sql.adaptive.enabled": "false",
            # Compiling a plan takes longer than running it over a handful of rows.
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
            # Without Hadoop's native library each file and each checksum of one starts a chmod: 85 of them an ingest.
            "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
            "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
            "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
        },
    )
