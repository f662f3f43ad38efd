"""Reports of incomplete data, in words: files that are not whole, lines set aside, clocks set.

DataFrames in, at most `MAX_LISTED` lines of text of each out. Invariant: what is left out for length is said.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from journal_schema import LINE_SECONDS, Kind

from ..terminal import listed
from .scope import Scope, moment_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import Column, DataFrame, Row

    from .tables import Tables

MAX_LISTED = 20
MAX_OF_A_LINE = 200
"""Characters."""
MAX_BROKERS = 5
QUEUED_SECONDS = 32 * LINE_SECONDS
"""By so much a line that says that others were dropped may be earlier than these: it is written with the first batch
that waits for the disk, and what does not fit behind the last one is dropped."""
BATCH_SECONDS = 2 * LINE_SECONDS
"""The most by which the lines written with such a line are earlier than it."""
NOT_WHOLE = {
    "torn": "torn: it ends before its last line says so (a kill -9, a full disk); its {lines} whole lines were read",
    "damaged": "damaged: it has another number of lines than it says; the {lines} there are were read",
    "corrupt": "corrupt: a byte of it has changed ({why}); none of its lines were taken: feed a good copy",
    "unreadable": "unreadable: no gzip ({why})",
    "unread": "not read: {why}, again and again; nothing of it was taken, the next run tries again",
    "gone": "not read: it was removed meanwhile ({why}): `journal.keep` of its sidecar may be too small",
}
"""States of a file, and what each means."""


def of_files(files: DataFrame) -> list[str]:
    """Report on rows of the files table."""
    found = files.where(F.col("state").isin(list(NOT_WHOLE)))
    return _told(
        found,
        F.col("path"),
        lambda row: f"{_short(row.path)}: {NOT_WHOLE[row.state].format(lines=row.lines, why=row.why)}",
    )


def of_tables(files: DataFrame) -> list[str]:
    """Report what an answer from these tables lacks, from all rows of the files table."""
    counts = files.groupBy("state").agg(F.count("*").alias("files"), F.sum("quarantined").alias("lines")).collect()
    states = {row.state: row.files for row in counts}
    missing = [f"{states[state]} {state}" for state in NOT_WHOLE if state in states]
    lines = sum(row.lines for row in counts)
    if lines:
        missing.append(f"{lines} lines set aside")
    return [f"not complete: of {sum(states.values())} journal files {', '.join(missing)}"] if missing else []


def of_dropped(tables: Tables) -> list[str]:
    """Report lines of the tables' scope that sidecars say they dropped, which are in no file: by broker, in one text.

    A sidecar says so once it writes again. So the first such line after the scope counts as well, if nothing else was
    written in between.
    """
    scope = tables.scope
    said = scope.reaching_back(QUEUED_SECONDS)._replace(until=None).cut_table(tables.table("events"))
    later = F.lit(False) if scope.until is None else F.col("time") >= scope.until
    dropped = said.where(F.col("kind") == Kind.DROPPED.value).withColumn("later", later)
    lines = F.when(F.col("later"), F.min_by("lines", "time")).otherwise(F.sum("lines")).alias("lines")
    last = F.when(~F.col("later"), F.max("time"))
    each = dropped.groupBy("broker", "later").agg(lines, F.min("time").alias("first"), last.alias("last"))
    rows = each.orderBy("broker", "later").collect()
    spoken = _spoken(tables, {row.broker: row.first for row in rows if row.later})
    told = [
        f"{row.lines:,} of broker {row.broker}, as told {_when(row.first, row.last)}"
        for row in rows if not row.later or row.broker not in spoken
    ]  # fmt: skip
    return [f"not complete: sidecars dropped lines of their journals: {listed(told, MAX_BROKERS)}"] if told else []


def _spoken(tables: Tables, told: Mapping[int, int]) -> set[int]:
    """Return the brokers of which something is recorded after the scope and before what was `told` at these seconds."""
    if not told:
        return set()
    after = Scope(since=tables.scope.until, until=max(told.values()), brokers=tuple(told))
    firsts = after.cut_table(tables.table("lines")).groupBy("broker").agg(F.min("time").alias("first")).collect()
    return {row.broker for row in firsts if row.first < told[row.broker] - BATCH_SECONDS}


def _when(first: int, last: int | None) -> str:
    return f"at {moment_text(first)}" if last in (None, first) else f"from {moment_text(first)} to {moment_text(last)}"


def of_lines(lines: DataFrame) -> list[str]:
    """Report lines that were set aside: one for each reason, with the beginning of a line that has it."""
    one = F.min(F.struct("source", F.substring("value", 1, MAX_OF_A_LINE + 1).alias("value")))
    found = lines.groupBy("problem").agg(F.count("*").alias("lines"), one.alias("one"))
    return _told(found, F.desc("lines"), _line)


def _line(row: Row) -> str:
    beginning = row.one.value[:MAX_OF_A_LINE] + ("…" if len(row.one.value) > MAX_OF_A_LINE else "")
    return f"{_short(row.one.source)}: {row.problem} (lines like that, in all files: {row.lines}): {beginning}"


def _short(path: str) -> str:
    return path.removeprefix("file:")


def of_clocks(lines: DataFrame) -> list[str]:
    """Report clocks that were set, from lines of a journal."""
    return _told(lines.where(F.col("kind") == Kind.CLOCK.value), F.col("time"), _clock)


def _clock(row: Row) -> str:
    return (
        f"broker {row.broker}: its clock was set by {row.seconds:+.0f} s at {moment_text(row.time)};"
        " seconds it tells twice are told apart, none is lost"
    )


def _told(rows: DataFrame, order: Column, tell: Callable[[Row], str]) -> list[str]:
    found = rows.orderBy(order).limit(MAX_LISTED + 1).collect()
    return shortened([tell(row) for row in found])


def shortened(texts: list[str]) -> list[str]:
    """Return the first of them, and whether there are more."""
    return [*texts[:MAX_LISTED], "… and more like these"] if len(texts) > MAX_LISTED else texts
