"""Tables are of one cluster: its brokers are told apart by their ids alone, and its journals' files by their names.

A journal file says the id of its cluster once a broker has told the sidecar. Two clusters whose ids are unknown, or two
sidecars with one broker id, may write files of the same name: each run of a sidecar has a name of its own, so that of
two such files the runs differ. Invariant: nothing is written of files of another cluster, and a file of another run is
never taken for a copy.
"""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from ..errors import InputError
from ..tables.file_accounts import journal
from ..tables.schema import FILES
from ..tables.storage import literal
from .decompress import lines

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, Row, SparkSession

    from ..tables.file_accounts import Copy

_OF_ITS_OWN = "Give each cluster journals and tables (--into) of its own; nothing was taken"


def checked_copies(spark: SparkSession, copies: Sequence[Copy], *, taken: int) -> DataFrame | None:
    """Return the account of files that have the name of one that was read whole; None if there are none. Raises
    InputError if one is of another run."""
    runs = _runs(spark, [copy.path for copy in copies])
    if not runs:
        return None
    rows = []
    # One that could not be read is looked at by the next run: of its lines none is missing.
    for copy in copies:
        if copy.path not in runs:
            continue
        run = runs[copy.path]
        _require_same(copy.path, run, copy.of, copy.run)
        told = {"source": copy.source, "size_bytes": copy.size_bytes, "path": copy.path, "run": run, "taken": taken}
        rows.append({**told, "state": "copy", "lines": 0, "quarantined": 0})
    return spark.createDataFrame(rows, FILES)


def require_one_cluster(files: DataFrame, known: DataFrame, runs: Mapping[str, str]) -> None:
    """Raise InputError if files that were read say two clusters, or two of them have one name and not one run.

    files: their account. known: that of all files before. runs: of paths that were read before the run that they had
    then.
    """
    first = F.min_by("path", F.struct(F.col("is_new"), F.col("path"))).alias("path")
    accounts = known.withColumn("is_new", F.lit(False)).unionByName(files.withColumn("is_new", F.lit(True)))
    clusters = accounts.where("cluster is not null").groupBy("cluster").agg(first, F.min("is_new").alias("is_new"))
    expected, row = (*clusters.orderBy("is_new", "path").limit(2).collect(), None, None)[:2]
    if expected is not None and row is not None:
        raise InputError(
            f"{row.path}: expected lines of cluster {expected.cluster} as in {expected.path}, found those of cluster"
            f" {row.cluster}. {_OF_ITS_OWN}"
        )
    told = F.struct("run", "path")
    several = files.where("run is not null").groupBy(journal().alias("journal")).agg(
        F.min(told).alias("one"), F.max(told).alias("other"), F.count_distinct("run").alias("runs")
    )  # fmt: skip
    for row in several.where("runs > 1").limit(1).collect():
        _require_same(row.other.path, row.other.run, row.one.path, row.one.run)
    if runs:
        for row in files.where(F.col("path").isin(list(runs))).select("path", "run").collect():
            _require_same(row.path, row.run, row.path, runs[row.path])


def _require_same(path: str, run: str | None, of: str, expected: str | None) -> None:
    if run is not None and expected is not None and run != expected:
        raise InputError(
            f"{path}: expected lines of run {expected} as in {of}, found those of run {run}: two clusters, or two"
            f" sidecars with one broker id. {_OF_ITS_OWN}"
        )


def _runs(spark: SparkSession, paths: Sequence[str]) -> dict[str, str | None]:
    """Return the run of each file that can be read."""
    if not paths:
        return {}
    try:
        files = spark.read.format("binaryFile").load([literal(path) for path in paths]).select("path", "content")
        return dict(files.rdd.map(_run).collect())
    except (PySparkException, Py4JJavaError):
        # One of these files cannot be read. Each is read alone to find out which.
        return {} if len(paths) == 1 else {path: run for one in paths for path, run in _runs(spark, [one]).items()}


def _run(file: Row) -> tuple[str, str | None]:
    """Return the run of a file's first line; None if it has none that can be read."""
    try:
        return file.path, json.loads(next(lines(bytes(file.content)))).get("run")
    except (StopIteration, ValueError, AttributeError, zlib.error, OverflowError):
        return file.path, None
