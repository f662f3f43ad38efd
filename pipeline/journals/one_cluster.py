"""Tables are of one cluster: its brokers are told apart by their ids alone, and its journals' files by their names.

Two clusters with equal ids, or two sidecars that were given one, may write files of the same name. Each run of a
sidecar has a name of its own, so that of two such files the runs differ. Invariant: a file of another run is never
taken for a copy, and nothing of it is written.
"""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING

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


def checked_copies(spark: SparkSession, copies: Sequence[Copy], *, taken: int) -> DataFrame | None:
    """Return the account of files that have the name of one that was read whole; None if there are none. Raises
    InputError if one is of another run."""
    if not copies:
        return None
    files = spark.read.format("binaryFile").load([literal(copy.path) for copy in copies]).select("path", "content")
    runs = dict(files.rdd.map(_run).collect())
    rows = []
    for copy in copies:
        run = runs.get(copy.path)
        _require_same(copy.path, run, copy.of, copy.run)
        rows.append((copy.source, copy.size_bytes, copy.path, run, taken))
    told = spark.createDataFrame(rows, "source string, size_bytes long, path string, run string, taken long")
    told = told.withColumns({"state": F.lit("copy"), "lines": F.lit(0), "quarantined": F.lit(0)})
    absent = {name: F.lit(None) for name in ("modified", "why")}
    return told.withColumns(absent).select([F.col(field.name).cast(field.dataType) for field in FILES])


def require_one_cluster(files: DataFrame, runs: Mapping[str, str]) -> None:
    """Raise InputError if two files that were read have one name and not one run. files: their account. runs: of paths
    that were read before the run that they had then."""
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
            " sidecars with one broker id. Give each cluster journals and tables (--into) of its own; nothing was taken"
        )


def _run(file: Row) -> tuple[str, str | None]:
    """Return the run of a file's first line; None if it has none that can be read."""
    try:
        return file.path, json.loads(next(lines(bytes(file.content)))).get("run")
    except (StopIteration, ValueError, AttributeError, zlib.error, OverflowError):
        return file.path, None
