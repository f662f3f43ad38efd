"""New rows for the partitions of a table, written below the stage (`committing`), and their moves into place.

Knows no journal. Invariant: rows are added to a partition as files of their own. Only a partition that has many files
is written anew, and one that gets no rows is not even looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F

from .committing import Move
from .schema import LINE_KEY, PARTITION_COLUMNS

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable, Iterable, Sequence

    from pyspark.sql import DataFrame

    from .tables import Tables

MOST_FILES = 16
"""The most files of a partition. The next `ingest` that adds to it writes it anew, as few files."""


class Day(NamedTuple):
    """A partition of a table."""

    date: dt.date
    broker: int

    @property
    def directory(self) -> str:
        return f"date={self.date:%Y-%m-%d}/broker={self.broker}"


class Span(NamedTuple):
    """Seconds since 1970, both included."""

    first: int
    last: int


class Staging(NamedTuple):
    tables: Tables
    stage: str

    def rows(
        self, name: str, lines: DataFrame, unfold: Callable[[DataFrame], DataFrame], *, days: Iterable[Day], span: Span
    ) -> list[Move]:
        """Stage the rows that `unfold` makes of traffic lines, all of whose seconds are within `span` and `days`.

        A line that was read before is known by its key and is not unfolded: lines are compared, which are far fewer
        than rows.
        """
        there = self._there(name, days)
        before = self._before(name, there)
        if before is not None:
            lines = _without(lines, before.where(F.col("time").between(*span)))
        return self._added(name, unfold(lines), there)

    def events(self, rows: DataFrame, days: Iterable[Day]) -> list[Move]:
        """Stage rows that are compared as they are, those that are there already not once more."""
        there = self._there("events", days)
        before = self._before("events", there)
        new = rows if before is None else rows.subtract(before.select(rows.columns))
        return self._added("events", _together(new), there)

    def _there(self, name: str, days: Iterable[Day]) -> dict[str, int]:
        """How many files each of these partitions has."""
        found = self.tables.sizes(name, [day.directory for day in days])
        return {directory: len(sizes) for directory, sizes in found.items()}

    def _before(self, name: str, there: dict[str, int]) -> DataFrame | None:
        return self.tables.partitions(name, [directory for directory, files in there.items() if files])

    def _added(self, name: str, rows: DataFrame, there: dict[str, int]) -> list[Move]:
        """Write rows as files of their own; a partition that has many gets one in place of all of them."""
        crowded = {directory for directory, files in there.items() if files >= MOST_FILES}
        together = self.tables.partitions(name, sorted(crowded))
        if together is not None:
            rows = _together(together).unionByName(rows)
        self._write(name, rows)
        return [
            move
            for directory in self._below(self._staged(name), depth=len(PARTITION_COLUMNS))
            for move in (
                [_move(name, directory, takes_place=True)] if directory in crowded else self._files(name, directory)
            )
        ]

    def together(self, name: str, directories: Sequence[str]) -> list[Move]:
        """Stage these partitions of a table once more, each as one file, which takes the place of all it has."""
        self._write(name, self.tables.there(name, directories).repartition(*PARTITION_COLUMNS))
        return self.replaced(name, depth=len(PARTITION_COLUMNS))

    def replaced(self, name: str, *, depth: int) -> list[Move]:
        """What is staged of the table, `depth` directories deep: each takes the place of the one there."""
        return [_move(name, directory, takes_place=True) for directory in self._below(self._staged(name), depth=depth)]

    def _files(self, name: str, directory: str) -> list[Move]:
        files = self.tables.storage.files(f"{self._staged(name)}/{directory}")
        return [_move(name, f"{directory}/{file}") for file in files]

    def _staged(self, name: str) -> str:
        return f"{self.stage}/{name}"

    def _write(self, name: str, rows: DataFrame) -> None:
        ordered = rows.sortWithinPartitions(*PARTITION_COLUMNS, "time")
        ordered.write.partitionBy(*PARTITION_COLUMNS).parquet(self._staged(name))

    def _below(self, path: str, *, depth: int) -> list[str]:
        names = [name for name in self.tables.storage.directories(path) if "=" in name]
        if depth == 1:
            return names
        return [f"{name}/{below}" for name in names for below in self._below(f"{path}/{name}", depth=depth - 1)]


def _move(name: str, below: str, *, takes_place: bool = False) -> Move:
    return Move(f"{name}/{below}", f"{name}/{below}", takes_place)


def _without(lines: DataFrame, rows: DataFrame) -> DataFrame:
    """The lines of which there are no rows."""
    read = rows.select(*(F.col(key).alias(key.removeprefix("line_")) for key in LINE_KEY)).distinct()
    return lines.join(read, on=read.columns, how="left_anti").select(lines.columns)


def _together(rows: DataFrame) -> DataFrame:
    """A partition in few files, however many there were; one that is large in several."""
    return rows.hint("rebalance", *PARTITION_COLUMNS)
