"""Journals to tables: Parquet by date and broker, each line once, whatever was fed, how often, in which order.

Files that were read whole are not read again (`accounts`). A line that is no line of a journal is set aside with the
reason; nothing else is set aside. Invariant: the tables depend on the set of lines fed, not on how they were fed.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from journal_schema import TRAFFIC_IDENTITY, Kind

from .accounts import account, best, journal, to_read
from .committing import Move, begin, commit, remove_replaced
from .errors import InputError
from .lines import AHEAD_SECONDS, EARLIEST_SECONDS, LATEST_SECONDS, PARSED, may_be_understood
from .paths import literal
from .reading import read
from .schema import EVENTS, QUARANTINE
from .sole_writer import sole_writer
from .staging import Day, Span, Staging
from .tables import Tables
from .troubles import of_clocks, of_files, of_lines
from .unfold import link_seconds, replica_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from .storage import Storage

FILES_NAMED = "journal-*.gz"


class Outcome(NamedTuple):
    """What one run did."""

    files: dict[str, int]
    """Files read, by state: whole, open, torn, damaged, corrupt, unreadable, unread, gone."""
    lines: int
    quarantined: int
    skipped_files: int
    """Unchanged since they were read, or copies of others."""
    troubles: tuple[str, ...] = ()
    """What was wrong with what was read, to be printed."""

    @property
    def is_complete(self) -> bool:
        """Whether nothing is missing of what was fed."""
        return not self.quarantined and self.files.keys() <= {"whole", "open"}


def find_files(spark: SparkSession, storage: Storage, sources: Sequence[str]) -> DataFrame:
    """Return `source`, `path`, `size_bytes` and `modified` of every journal file below `sources`, each of which is a
    path, or a pattern if no file has that very name.

    Raises InputError if a source is not there or may not be listed.
    """
    patterns = [pattern for source in sources for pattern in _patterns(storage, source)]
    reader = spark.read.format("binaryFile").option("pathGlobFilter", FILES_NAMED).option("recursiveFileLookup", "true")
    # Each file is looked at again when it is accounted for: one that is still open may have been closed by then, which
    # is another name, and `journal.keep` removes the oldest.
    reader = reader.option("ignoreMissingFiles", "true")
    try:
        return listed(reader.load(patterns))
    except AnalysisException as error:
        raise InputError(f"{', '.join(sources)}: {str(error).splitlines()[0]}") from error


def _patterns(storage: Storage, source: str) -> list[str]:
    found = storage.matching(source)
    if not found:
        raise InputError(f"{source}: no such file or directory")
    return [literal(path) for path in found]


def listed(files: DataFrame) -> DataFrame:
    """Files as Spark lists them, in the names of the files table."""
    return files.select(
        F.regexp_extract("path", r"([^/]+)$", 1).alias("source"),
        "path",
        F.col("length").alias("size_bytes"),
        F.col("modificationTime").alias("modified"),
    )


def ingest(
    spark: SparkSession,
    sources: Sequence[str],
    target: str,
    *,
    tell: Callable[[str], None] = lambda _: None,
    now: float | None = None,
) -> Outcome:
    """Read journals below `sources` into tables below `target`, alone: another writer of them is waited for.

    now: seconds since 1970, by which lines of the future are told, and when the commit is. Raises InputError; then
    nothing has changed.
    """
    tables = Tables(spark, target)
    found = find_files(spark, tables.storage, sources)
    outcome = take(spark, found, tables, tell=tell, now=now)
    if not outcome.files and not outcome.skipped_files:
        raise InputError(f"{', '.join(sources)}: no files called {FILES_NAMED} here")
    return outcome


def take(
    spark: SparkSession,
    found: DataFrame,
    tables: Tables,
    *,
    tell: Callable[[str], None] = lambda _: None,
    now: float | None = None,
) -> Outcome:
    """Read these files (as `find_files` returns them) into tables: what `ingest` does once, and `stream` again and
    again."""
    tables.require_layout()
    with sole_writer(tables.storage, tell=tell) as turn:
        stage = begin(turn)
        tables.take_over(now=now)
        remove_replaced(turn, now=now)
        understood = tables.quarantine.where(may_be_understood(_latest_seconds(now))).select("source").distinct()
        paths, skipped = to_read(found, tables.files, understood)
        if not paths:
            if skipped:
                tell(f"nothing new: all {skipped} files were read before")
            return Outcome({}, 0, 0, skipped)
        tell(f"reading {len(paths)} files ({skipped} unchanged)")
        tables.storage.make_directory(stage)
        moves, outcome = _stage(spark, found, paths, Staging(tables, stage), tell=tell, now=now)
        tell("putting the new partitions in place")
        commit(turn, moves, now=now)
        return outcome._replace(skipped_files=skipped)


def _stage(
    spark: SparkSession,
    found: DataFrame,
    paths: Sequence[str],
    staging: Staging,
    *,
    tell: Callable[[str], None],
    now: float | None,
) -> tuple[list[Move], Outcome]:
    tables, stage = staging.tables, staging.stage
    parsed, verdicts = read(spark, paths, stage, latest_seconds=_latest_seconds(now))
    verdicts = {path: (_gone(tables, path, state), why) for path, (state, why) in verdicts.items()}
    given = spark.createDataFrame([(path,) for path in paths], "path string")
    files = account(found.join(F.broadcast(given), on="path", how="left_semi"), parsed, verdicts).coalesce(1).cache()
    good, bad = parsed.where(F.col("problem").isNull()), parsed.where(F.col("problem").isNotNull())
    outcome = _outcome(files)
    moves = _stage_lines(spark, staging, good, tell)
    told = [*of_clocks(good), *of_files(files)]
    if outcome.quarantined:
        told += of_lines(bad)
        named = bad.withColumn("source", F.regexp_extract("source", r"([^/]+)$", 1)).withColumn("source", journal())
        named.select(QUARANTINE.names).write.partitionBy("source").parquet(f"{stage}/quarantine")
        moves += staging.replaced("quarantine", depth=1)
    best(tables.files, files).coalesce(1).write.parquet(f"{stage}/files")
    files.unpersist()
    return [*moves, Move("files", "files", takes_place=True)], outcome._replace(troubles=tuple(told))


def _latest_seconds(now: float | None) -> int:
    """A line that says that it is later is of a clock that is wrong."""
    return min(int(time.time() if now is None else now) + AHEAD_SECONDS, LATEST_SECONDS)


def _gone(tables: Tables, path: str, state: str) -> str:
    return "gone" if state == "unread" and not tables.storage.exists(path) else state


def shaped(parsed: DataFrame, schema: StructType) -> DataFrame:
    """Lines that are rows as they are, each once."""
    dated = parsed.withColumn("date", F.to_date(F.timestamp_seconds("time")))
    return dated.select(schema.names).distinct()


def _stage_lines(spark: SparkSession, staging: Staging, good: DataFrame, tell: Callable[[str], None]) -> list[Move]:
    """Stage the rows of all lines. Whatever is shuffled is shuffled as lines: their rows are many times as many."""
    is_traffic = F.col("kind") == Kind.TRAFFIC.value
    days, span = _days(good, is_traffic)
    moves: list[Move] = []
    if days[True]:
        path = f"{staging.stage}/lines"
        once = good.where(is_traffic).dropDuplicates(list(TRAFFIC_IDENTITY))
        once.hint("rebalance", "broker").write.parquet(path)
        lines = spark.read.schema(PARSED).parquet(literal(path))
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


def _outcome(files: DataFrame) -> Outcome:
    by_state = files.groupBy("state").agg(
        F.count("*").alias("files"), F.sum("lines").alias("lines"), F.sum("quarantined").alias("quarantined")
    )
    rows = by_state.collect()
    return Outcome(
        files={row.state: row.files for row in rows},
        lines=sum(row.lines for row in rows),
        quarantined=sum(row.quarantined for row in rows),
        skipped_files=0,
    )
