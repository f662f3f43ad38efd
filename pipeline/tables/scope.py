"""The scope of a job: seconds and brokers; what lies outside is not read.

The tables are kept by date, so that a scope is directories first, then files (the least and greatest `time` of each,
which Delta's log tells). Invariant: a scope says which rows are told of; what a window needs of the
seconds before it is read as well (`reaching_back`), and cut off again (`cut`).
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


class Scope(NamedTuple):
    since: int | None = None
    """The first second, since 1970; None: from the beginning."""
    until: int | None = None
    """The second after the last."""
    brokers: tuple[int, ...] = ()
    """Empty: all."""

    def reaching_back(self, seconds: int) -> Scope:
        return self if self.since is None else self._replace(since=self.since - seconds)

    def holds(self, first: int, until: int) -> bool:
        """True if all seconds from `first` to the one before `until` are within."""
        return (self.since is None or self.since <= first) and (self.until is None or until <= self.until)

    def cut(self, rows: DataFrame) -> DataFrame:
        """Return rows with `time`, and `broker` if they have one, that are within."""
        if self.since is not None:
            rows = rows.where(F.col("time") >= self.since)
        if self.until is not None:
            rows = rows.where(F.col("time") < self.until)
        if self.brokers and "broker" in rows.columns:
            rows = rows.where(F.col("broker").isin(list(self.brokers)))
        return rows

    def cut_table(self, rows: DataFrame) -> DataFrame:
        """Return the same of a table's rows, which are kept by `date`: of other dates not even a file is looked at."""
        if self.first_date is not None:
            rows = rows.where(F.col("date") >= F.lit(self.first_date))
        if self.last_date is not None:
            rows = rows.where(F.col("date") <= F.lit(self.last_date))
        return self.cut(rows)

    @property
    def first_date(self) -> dt.date | None:
        """The date (UTC) of the first second; None: there is none."""
        return None if self.since is None else _date(self.since)

    @property
    def last_date(self) -> dt.date | None:
        """The date (UTC) of the last second; None: there is none."""
        return None if self.until is None else _date(self.until - 1)

    def has_date(self, date: dt.date) -> bool:
        """Return whether seconds of that date (UTC) may be within."""
        first, last = self.first_date, self.last_date
        return (first is None or date >= first) and (last is None or date <= last)


def moment_text(seconds: float) -> str:
    """Return a moment as ``2026-11-21T03:10:12Z``."""
    return f"{dt.datetime.fromtimestamp(seconds, dt.UTC):%Y-%m-%dT%H:%M:%SZ}"


def began(day: dt.date) -> Column:
    """Return the first moment (UTC) of a day."""
    return F.lit(dt.datetime.combine(day, dt.time(), dt.UTC))


def _date(seconds: int) -> dt.date:
    return dt.datetime.fromtimestamp(seconds, dt.UTC).date()
