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
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, Row, SparkSession

_OF_ITS_OWN = "Give each cluster journals and tables (--into) of its own; nothing was taken"


def account_of_copies(spark: SparkSession, copies: Sequence[Row], *, taken: int) -> DataFrame | None:
    """Return the account of files that have the name of one that was read whole; None if there are none."""
    runs = _runs(spark, [copy.path for copy in copies])
    # One that could not be read is looked at by the next run: of its lines none is missing.
    rows = [
        {"source": copy.source, "size_bytes": copy.size_bytes, "path": copy.path, "run": runs[copy.path],
         "state": "copy", "lines": 0, "quarantined": 0, "taken": taken}
        for copy in copies
        if copy.path in runs
    ]  # fmt: skip
    return spark.createDataFrame(rows, FILES) if rows else None


def require_one_cluster(files: DataFrame, known: DataFrame) -> None:
    """Raise InputError if files say two clusters, or one of them is of another run than a file of that name.

    files: their account. known: that of all files before.
    """
    accounts = known.withColumn("is_new", F.lit(False)).unionByName(files.withColumn("is_new", F.lit(True)))
    _require_same(accounts, "cluster", "")
    names = files.select(journal().alias("journal")).distinct()
    of_name = accounts.withColumn("journal", journal()).join(F.broadcast(names), on="journal", how="left_semi")
    _require_same(of_name, "run", ": two clusters, or two sidecars with one broker id", "journal")


def _require_same(accounts: DataFrame, what: str, why: str, *keys: str) -> None:
    """Raise InputError if of accounts with the same `keys` two say another cluster, or run. A known one is right."""
    each = accounts.where(F.col(what).isNotNull()).groupBy(*keys, what)
    told = F.struct("first", F.col(what).alias("name"))
    both = each.agg(F.min(F.struct("is_new", "path")).alias("first")).groupBy(*keys)
    for row in both.agg(F.sort_array(F.collect_list(told)).alias("told")).where("size(told) > 1").limit(1).collect():
        right, wrong = row.told[:2]
        raise InputError(
            f"{wrong.first.path}: expected lines of {what} {right.name} as in {right.first.path}, found those of {what}"
            f" {wrong.name}{why}. {_OF_ITS_OWN}"
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
