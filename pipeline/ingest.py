"""Journals to tables: Parquet by date and broker, each line once, whatever was fed, how often, in which order.

Files that were read whole and have not changed since are not read again. Lines that are none are set aside with the
reason; so is nothing else. Invariant: the tables depend on the set of lines fed, not on how they were fed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from journal_schema import TRAFFIC_IDENTITY, Kind

from .errors import InputError
from .lines import EARLIEST_SECONDS, LATEST_SECONDS, PARSED, parse
from .schema import EVENTS, QUARANTINE
from .staging import Day, Span, Staging
from .storage import begin, commit
from .tables import Tables
from .troubles import of_clocks, of_files, of_lines
from .unfold import link_seconds, replica_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from .staging import Move

FILES_NAMED = "journal-*.gz"
OPEN = ".open.ndjson.gz"
FILE = ["source", "size_bytes", "modified"]
"""What tells whether a file is as it was."""


class Outcome(NamedTuple):
    """What one run did."""

    files: dict[str, int]
    """Files read, by state: whole, open, torn, damaged, unreadable."""
    lines: int
    quarantined: int
    skipped_files: int
    """Unchanged since they were read."""
    troubles: tuple[str, ...] = ()
    """What was wrong with what was read, to be printed."""


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
    done = _done(tables.files)
    paths, skipped = _to_read(found, done)
    if not paths:
        if not skipped:
            raise InputError(f"{', '.join(sources)}: no files called {FILES_NAMED} here")
        tell(f"nothing new: all {skipped} files were read before")
        return Outcome({}, 0, 0, skipped)
    tell(f"reading {len(paths)} files ({skipped} unchanged)")
    tables.storage.make_directory(stage)
    parse(read_text(spark, paths)).write.parquet(f"{stage}/parsed")
    parsed = spark.read.schema(PARSED).parquet(f"{stage}/parsed")
    good, bad = parsed.where(F.col("problem").isNull()), parsed.where(F.col("problem").isNotNull())
    read = account(found.join(F.broadcast(done), FILE, "left_anti"), parsed).coalesce(1).cache()
    outcome = _outcome(read, skipped)
    staging = Staging(tables, stage)
    moves = _stage_lines(spark, staging, good, tell)
    told = [*of_clocks(good), *of_files(read)]
    if outcome.quarantined:
        told += of_lines(bad)
        bad.select(QUARANTINE.names).write.partitionBy("source").parquet(f"{stage}/quarantine")
        moves += staging.replaced("quarantine", depth=1)
    kept = tables.files.join(read, "source", "left_anti")
    kept.unionByName(read).coalesce(1).write.parquet(f"{stage}/files")
    read.unpersist()
    tell("putting the new partitions in place")
    commit(tables.storage, [*moves, ("files", "files")])
    return outcome._replace(troubles=tuple(told))


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


def _done(known: DataFrame) -> DataFrame:
    """What was read before and had nothing set aside: it is not read again, unless it has changed."""
    return known.where((F.col("quarantined") == 0) & (F.col("state") != "unreadable")).select(*FILE)


def _to_read(found: DataFrame, done: DataFrame) -> tuple[list[str], int]:
    """Return the paths that are to be read, and how many files need not be."""
    marked = found.join(F.broadcast(done.withColumn("done", F.lit(True))), FILE, "left")
    new = F.when(F.col("done").isNull(), F.col("path"))
    (row,) = marked.agg(F.collect_list(new).alias("paths"), F.count("done").alias("skipped")).collect()
    return row.paths, row.skipped


def _stage_lines(spark: SparkSession, staging: Staging, good: DataFrame, tell: Callable[[str], None]) -> list[Move]:
    """Stage the rows of all lines. Whatever is shuffled is shuffled as lines: their rows are many times as many."""
    is_traffic = F.col("kind") == Kind.TRAFFIC.value
    days, span = _days(good, is_traffic)
    moves: list[Move] = []
    if days[True]:
        path = f"{staging.stage}/lines"
        once = good.where(is_traffic).dropDuplicates(list(TRAFFIC_IDENTITY))
        once.hint("rebalance", "broker").write.parquet(path)
        lines = spark.read.schema(PARSED).parquet(path)
        for name, unfold in (("seconds", link_seconds), ("traffic", replica_seconds)):
            tell(f"writing {name}")
            moves += staging.rows(name, lines, unfold, days=days[True], span=span)
    tell("writing events")
    return moves + staging.events(shaped(good.where(~is_traffic), EVENTS), days[False])


def _days(good: DataFrame, is_traffic: Column) -> tuple[dict[bool, list[Day]], Span]:
    """Return the partitions that the rows of traffic lines, and of all others, are in, and the span of all their
    seconds: told without unfolding them."""
    last = F.col("time") + F.when(is_traffic, F.size("second_fetches") - 1).otherwise(0)
    dates = F.array(*(F.to_date(F.timestamp_seconds(end)) for end in (F.col("time"), last)))
    each = good.select(
        is_traffic.alias("traffic"), F.explode(dates).alias("date"), "broker", "time", last.alias("last")
    )
    rows = each.groupBy("traffic", "date", "broker").agg(F.min("time").alias("first"), F.max("last").alias("last"))
    found: dict[bool, list[Day]] = {True: [], False: []}
    first_of_all, last_of_all = LATEST_SECONDS, EARLIEST_SECONDS
    for row in rows.collect():
        found[row.traffic].append(Day(row.date, row.broker))
        first_of_all, last_of_all = min(first_of_all, row.first), max(last_of_all, row.last)
    return found, Span(first_of_all, last_of_all)


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
