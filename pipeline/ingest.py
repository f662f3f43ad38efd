"""Journals to tables: Parquet by date and broker, each line once, whatever was fed, how often, in which order.

Files that were read whole and have not changed since are not read again. Lines that are none are set aside with the
reason; so is nothing else. Invariant: the tables depend on the set of lines fed, not on how they were fed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from journal_schema import LINE_SECONDS, TRAFFIC_IDENTITY, Kind

from .errors import InputError
from .lines import parse
from .schema import EVENTS, LINE_KEY, PARTITION_COLUMNS, QUARANTINE
from .storage import begin, commit
from .tables import Tables
from .unfold import link_seconds, replica_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

FILES_NAMED = "journal-*.gz"
OPEN = ".open.ndjson.gz"


class Outcome(NamedTuple):
    """What one run did."""

    files: dict[str, int]
    """Files read, by state: whole, open, torn, damaged, unreadable."""
    lines: int
    quarantined: int
    skipped_files: int
    """Unchanged since they were read."""


def find_files(spark: SparkSession, sources: Sequence[str]) -> DataFrame:
    """Return `source`, `path`, `size_bytes` and `modified` of every journal file below `sources`.

    Raises InputError if a source is not there or may not be listed.
    """
    reader = spark.read.format("binaryFile").option("pathGlobFilter", FILES_NAMED).option("recursiveFileLookup", "true")
    try:
        found = reader.load(list(sources))
        return found.select(
            F.regexp_extract("path", r"([^/]+)$", 1).alias("source"),
            "path",
            F.col("length").alias("size_bytes"),
            F.col("modificationTime").alias("modified"),
        )
    except AnalysisException as error:
        raise InputError(f"{', '.join(sources)}: {_short(error)}") from error


def ingest(
    spark: SparkSession, sources: Sequence[str], target: str, *, tell: Callable[[str], None] = lambda _: None
) -> Outcome:
    """Read journals below `sources` into tables below `target`. Raises InputError; then nothing has changed."""
    tables = Tables(spark, target)
    found = find_files(spark, sources)
    stage = begin(tables.storage)
    fresh = _to_read(found, tables.files)
    paths = [row.path for row in fresh.select("path").collect()]
    skipped = found.count() - len(paths)
    if not paths:
        if not skipped:
            raise InputError(f"{', '.join(sources)}: no files called {FILES_NAMED} here")
        tell(f"nothing new: all {skipped} files were read before")
        return Outcome({}, 0, 0, skipped)
    tell(f"reading {len(paths)} files ({skipped} unchanged)")
    parsed_path = f"{stage}/parsed"
    parse(read_text(spark, paths)).write.parquet(parsed_path)
    parsed = spark.read.parquet(parsed_path)
    files = account(fresh, parsed)
    moves = []
    good, is_traffic = parsed.where(F.col("problem").isNull()), F.col("kind") == Kind.TRAFFIC.value
    lines = good.where(is_traffic).dropDuplicates(list(TRAFFIC_IDENTITY)).cache()
    for name, unfold in (("seconds", link_seconds), ("traffic", replica_seconds)):
        tell(f"writing {name}")
        moves += _stage_rows(tables, name, unfold(lines), touched=days_of(lines), stage=stage)
    lines.unpersist()
    tell("writing events")
    moves += _stage_events(tables, shaped(good.where(~is_traffic), EVENTS), stage=stage)
    bad = parsed.where(F.col("problem").isNotNull()).select(QUARANTINE.names)
    bad.write.partitionBy("source").parquet(f"{stage}/quarantine")
    moves += [(f"quarantine/{one}",) * 2 for one in _partitions(tables, f"{stage}/quarantine", depth=1)]
    kept = tables.files.join(files, "source", "left_anti")
    kept.unionByName(files).coalesce(1).write.parquet(f"{stage}/files")
    outcome = _outcome(
        spark.read.parquet(f"{stage}/files").join(fresh.select("source"), "source", "left_semi"), skipped
    )
    tell("putting the new partitions in place")
    commit(tables.storage, [*moves, ("files", "files")])
    return outcome


def read_text(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Return `value` and `source` of every line; a torn file's up to where it is torn."""
    reader = spark.read.option("ignoreCorruptFiles", "true")
    return reader.text(list(paths)).select("value", F.col("_metadata.file_name").alias("source"))


def shaped(parsed: DataFrame, schema: StructType) -> DataFrame:
    """Lines that are rows as they are, each once."""
    dated = parsed.withColumn("date", F.to_date(F.timestamp_seconds("time")))
    return dated.select(schema.names).distinct()


def account(listed: DataFrame, parsed: DataFrame) -> DataFrame:
    """Return the files table's rows of the files in `listed`: how much of each was read, and whether that was all."""
    closing = F.when((F.col("kind") == Kind.FILE_CLOSED.value) & F.col("problem").isNull(), F.col("lines"))
    counted = parsed.groupBy("source").agg(
        F.count("*").alias("read"),
        F.count("problem").cast("int").alias("quarantined"),
        F.max(closing).alias("announced"),
    )
    state = (
        F.when(F.col("read") == 0, "unreadable")
        .when(F.col("announced").isNull(), F.when(F.col("source").endswith(OPEN), "open").otherwise("torn"))
        .when(F.col("announced") + 1 == F.col("read"), "whole")
        .otherwise("damaged")
    )
    return (
        # A copy of a file under another directory has the same name and the same lines.
        listed.dropDuplicates(["source"])
        .join(counted, "source", "left")
        .na.fill(0, ["read", "quarantined"])
        .select("source", "size_bytes", "modified", state.alias("state"), F.col("read").alias("lines"), "quarantined")
    )


def _to_read(found: DataFrame, known: DataFrame) -> DataFrame:
    """What was read before and has not changed, and had nothing set aside, is not read again."""
    done = known.where((F.col("quarantined") == 0) & (F.col("state") != "unreadable"))
    return found.join(F.broadcast(done), ["source", "size_bytes", "modified"], "left_anti")


def days_of(lines: DataFrame) -> DataFrame:
    """Return `date` and `broker` of the partitions that the lines' rows may be in: told without unfolding them."""
    ends = (F.col("time"), F.col("time") + (LINE_SECONDS - 1))
    dates = F.array(*(F.to_date(F.timestamp_seconds(end)) for end in ends))
    return lines.select(F.explode(dates).alias("date"), "broker").distinct()


def _stage_rows(tables: Tables, name: str, rows: DataFrame, *, touched: DataFrame, stage: str) -> list[tuple[str, str]]:
    """Write the partitions `touched`, with what is in them already and `rows`, below the stage; return the moves.

    A line read twice is known by its key: rows are never compared with rows.
    """
    before = _before(tables, name, touched)
    fresh = rows.join(before.select(*LINE_KEY).distinct(), list(LINE_KEY), "left_anti").select(rows.columns)
    return _stage(tables, name, before.unionByName(fresh), stage=stage)


def _stage_events(tables: Tables, rows: DataFrame, *, stage: str) -> list[tuple[str, str]]:
    """The same of rows that are compared as they are."""
    before = _before(tables, "events", rows.select(*PARTITION_COLUMNS).distinct())
    return _stage(tables, "events", before.unionByName(rows).distinct(), stage=stage)


def _before(tables: Tables, name: str, touched: DataFrame) -> DataFrame:
    return tables.read(name).join(F.broadcast(touched), list(PARTITION_COLUMNS), "left_semi")


def _stage(tables: Tables, name: str, merged: DataFrame, *, stage: str) -> list[tuple[str, str]]:
    (
        merged.hint("rebalance", *PARTITION_COLUMNS)
        .sortWithinPartitions(*PARTITION_COLUMNS, "time")
        .write.partitionBy(*PARTITION_COLUMNS)
        .parquet(f"{stage}/{name}")
    )
    return [(f"{name}/{one}",) * 2 for one in _partitions(tables, f"{stage}/{name}", depth=2)]


def _partitions(tables: Tables, path: str, *, depth: int) -> list[str]:
    names = [name for name in tables.storage.directories(path) if "=" in name]
    if depth == 1:
        return names
    return [f"{name}/{below}" for name in names for below in _partitions(tables, f"{path}/{name}", depth=depth - 1)]


def _outcome(files: DataFrame, skipped: int) -> Outcome:
    by_state = files.groupBy("state").agg(
        F.count("*").alias("files"), F.sum("lines").alias("lines"), F.sum("quarantined").alias("quarantined")
    )
    rows = by_state.collect()
    return Outcome(
        files={row.state: row.files for row in rows},
        lines=sum(row.lines for row in rows),
        quarantined=sum(row.quarantined for row in rows),
        skipped_files=skipped,
    )


def _short(error: AnalysisException) -> str:
    return str(error).splitlines()[0]
