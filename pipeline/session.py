"""The Spark session, as every job wants it. Only entry points and tests make one.

Invariant: times are UTC whatever the machine thinks, and Delta Lake is there without network (`jars`).
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from .jars import jars

if TYPE_CHECKING:
    from collections.abc import Mapping

SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "true",
    # Of rows that are put together by replica and held (`CachedFrames`) a cluster would keep each of Spark's 200 parts,
    # however few they are, with a task for each: 1800 of them for a look of `stream` at two files.
    "spark.sql.optimizer.canChangeCachedPlanOutputPartitioning": "true",
    # ANSI off would turn a wrong cast into a null, and a null into a missing row.
    "spark.sql.ansi.enabled": "true",
    "spark.ui.enabled": "false",
    # What fails is told by whoever asked for it; a task's traceback besides is for those who ask for it: WARN, say.
    "spark.log.level": "FATAL",
    # Every column made in Python would look up its line and tell the JVM: most of what building a plan takes.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    # Spark makes this directory at its start, by itself in the working directory; no table is ever put there.
    "spark.sql.warehouse.dir": Path(tempfile.gettempdir()).as_uri(),
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # Delta's 50 are for logs of millions of files. A task for each costs more than what it has to do.
    "spark.databricks.delta.snapshotPartitions": "2",
    # Journal lines are much alike.
    "spark.sql.parquet.compression.codec": "zstd",
    # Rows that are shuffled are much alike: half of what lz4 leaves of them.
    "spark.io.compression.codec": "zstd",
    "spark.io.compression.zstd.level": "3",
}
ON_THIS_MACHINE = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Spark's 200 are made for a cluster: a report of a small journal takes a minute more with them than with 16.
    "spark.sql.shuffle.partitions": "16",
    # Spark's 10 000 tasks list directories on a cluster; Delta's VACUUM always takes as many.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",
}


def open_session(app: str, *, master: str | None = None, conf: Mapping[str, str] | None = None) -> SparkSession:
    """Return the session. `master`: None leaves it to spark-submit, and to all cores of this machine without one."""
    builder = SparkSession.builder.appName(app)
    settings = dict(SETTINGS)
    if not sys.stderr.isatty():
        # In a log of cron's each state of the bars of Spark's stages is a line.
        settings["spark.ui.showConsoleProgress"] = "false"
    if master is not None:
        # spark-submit has started the JVM already, with the jars that it was given.
        settings |= {"spark.jars": ",".join(jars())}
        builder = builder.master(master)
        if master.startswith("local"):
            settings |= ON_THIS_MACHINE
            # Workers of this machine need what the driver has: started by cron, PATH may have another Python.
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    for key, value in (settings | dict(conf or {})).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
