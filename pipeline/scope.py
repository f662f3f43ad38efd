"""Which seconds, of which brokers, a job is about: what lies outside is not read.

The tables are kept by date and broker, and within a file by time, so that a scope is directories first, then row
groups (Parquet's least and greatest `time`). Invariant: a scope says which rows are told of; what a window needs of the
seconds before it is read as well (`reaching_back`), and cut off again (`cut`).
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame


class Scope(NamedTuple):
    since: int | None = None
    """The first second, since 1970; None: from the beginning."""
    until: int | None = None
    """The second after the last."""
    brokers: tuple[int, ...] = ()
    """Empty: all."""
    as_of: int | None = None
    """The tables as they were in that second, since 1970; None: as they are."""

    @property
    def is_everything(self) -> bool:
        return self == Scope()

    def reaching_back(self, seconds: int) -> Scope:
        return self if self.since is None else self._replace(since=self.since - seconds)

    def wider(self, seconds: int) -> Scope:
        until = None if self.until is None else self.until + seconds
        return self.reaching_back(seconds)._replace(until=until)

    def holds(self, first: int, until: int) -> bool:
        """Whether all seconds from `first` to the one before `until` are within."""
        return (self.since is None or self.since <= first) and (self.until is None or until <= self.until)

    def from_the_beginning(self) -> Scope:
        return self._replace(since=None)

    def cut(self, rows: DataFrame) -> DataFrame:
        """Rows with `time`, and `broker` if they have one, that are within."""
        if self.since is not None:
            rows = rows.where(F.col("time") >= self.since)
        if self.until is not None:
            rows = rows.where(F.col("time") < self.until)
        if self.brokers and "broker" in rows.columns:
            rows = rows.where(F.col("broker").isin(list(self.brokers)))
        return rows

    def dates(self, directories: Iterable[str]) -> list[str]:
        """Of directories called ``date=2026-11-21`` those that may have rows within."""
        first, last = (None if at is None else f"date={_date(at)}" for at in (self.since, _before(self.until)))
        return [one for one in directories if (first is None or one >= first) and (last is None or one <= last)]


def moment_text(seconds: float) -> str:
    """``2026-11-21T03:10:12Z``."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _before(until: int | None) -> int | None:
    return None if until is None else until - 1


def _date(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d}"
