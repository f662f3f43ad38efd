"""Reports of incomplete data, in words: files that are not whole, lines set aside, clocks set.

DataFrames in, at most `MAX_LISTED` lines of text of each out. Invariant: what is left out for length is said.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from journal_schema import Kind

from .scope import moment_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame, Row

MAX_LISTED = 20
MAX_OF_A_LINE = 200
"""Characters."""
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
