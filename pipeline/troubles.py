"""What was wrong with what an `ingest` was fed, in words: files that are not whole, lines set aside, clocks set.

DataFrames in, at most `MOST_TOLD` lines of text of each out. Invariant: what is left out for length is said.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from journal_schema import Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame, Row

MOST_TOLD = 20
NOT_WHOLE = {
    "torn": "ends before its last line says so (a kill -9, a full disk); its {lines} whole lines were read",
    "damaged": "has another number of lines than it says; the {lines} there are were read",
    "unreadable": "no gzip, or nothing in it that could be read",
}
"""States of a file, and what each means."""


def of_files(files: DataFrame) -> list[str]:
    """Of rows of the files table."""
    found = files.where(F.col("state").isin(list(NOT_WHOLE)))
    return _told(found, F.col("source"), lambda row: f"{row.source}: {NOT_WHOLE[row.state].format(lines=row.lines)}")


def of_lines(quarantine: DataFrame) -> list[str]:
    """Of rows of the quarantine table: one for each reason."""
    found = quarantine.groupBy("problem").agg(F.count("*").alias("lines"), F.min("source").alias("source"))
    return _told(
        found, F.desc("lines"), lambda row: f"{row.source}: {row.problem} (lines like that, in all files: {row.lines})"
    )


def of_clocks(lines: DataFrame) -> list[str]:
    """Of lines of a journal."""
    return _told(lines.where(F.col("kind") == Kind.CLOCK.value), F.col("time"), _clock)


def _clock(row: Row) -> str:
    when = datetime.fromtimestamp(row.time, UTC)
    return (
        f"broker {row.broker}: its clock was set by {row.seconds:+.0f} s at {when:%Y-%m-%dT%H:%M:%SZ};"
        " seconds it tells twice are told apart, none is lost"
    )


def _told(rows: DataFrame, order: Column, tell: Callable[[Row], str]) -> list[str]:
    found = rows.orderBy(order).limit(MOST_TOLD + 1).collect()
    texts = [tell(row) for row in found[:MOST_TOLD]]
    return [*texts, "… and more like these"] if len(found) > MOST_TOLD else texts
