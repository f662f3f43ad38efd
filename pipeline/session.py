"""The Spark session, as every job wants it. Only entry points and tests make one.

Invariant: times are UTC whatever the machine thinks, and partitions of a table are replaced one by one.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from collections.abc import Mapping

SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "true",
    # ANSI off would turn a wrong cast into a null, and a null into a missing row.
    "spark.sql.ansi.enabled": "true",
    "spark.ui.enabled": "false",
    # What fails is told by whoever asked for it; a task's traceback besides is for those who ask for it: WARN, say.
    "spark.log.level": "FATAL",
    # Every column made in Python would look up its line and tell the JVM: most of what building a plan takes.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
    # Rows that are shuffled are much alike: half of what lz4 leaves of them.
    "spark.io.compression.codec": "zstd",
    "spark.io.compression.zstd.level": "3",
}
ON_THIS_MACHINE = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Spark's 200 are made for a cluster: a report of a small journal takes a minute more with them than with 16.
    "spark.sql.shuffle.partitions": "16",
}
USED_ALL_THE_TIME = {
    "functions": ("col",),
    "PythonUtils": ("toSeq",),
    "PythonSQLUtils": ("unresolvedNamedLambdaVariable", "lambdaFunction"),
    "org.apache.spark.sql.functions": ("col", "lit", "when"),
}
"""Classes of the JVM, and members of them, that nearly every column needs."""


def open_session(app: str, *, master: str | None = None, conf: Mapping[str, str] | None = None) -> SparkSession:
    """Return the session. `master`: None leaves it to spark-submit, and to all cores of this machine without one."""
    builder = SparkSession.builder.appName(app)
    settings = SETTINGS | _bars()
    if master is not None:
        builder = builder.master(master)
        if master.startswith("local"):
            settings |= ON_THIS_MACHINE
    for key, value in (settings | dict(conf or {})).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    _find_once(session)
    return session


def _bars() -> dict[str, str]:
    """Spark draws bars of its stages wherever its shell would, and a log of cron's has each of their states."""
    return {} if sys.stderr.isatty() else {"spark.ui.showConsoleProgress": "false"}


def _find_once(session: SparkSession) -> None:
    """Py4J asks the JVM for a class, and for a member of one, at each use, and there a class is looked for in each
    imported package, in every jar: 0.5 to 2 ms, a tenth of what it takes to build and plan an audit."""
    jvm = session._jvm
    for name, members in USED_ALL_THE_TIME.items():
        found = getattr(jvm, name)
        for member in members:
            setattr(found, member, getattr(found, member))
        setattr(jvm, name, found)
