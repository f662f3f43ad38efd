"""Daily summaries: results that jobs need of whole days, kept so that not every second of weeks is read again.

A day is kept with a fingerprint of the files of `lines` that it was made from, including those of the day before and
after. A reader takes the days whose fingerprint is still the same, and works out all others from `traffic`, which
always includes today. So when lines come late, nothing has to be told and nothing can be forgotten.

Invariant: what `read` returns is the same with everything kept, with a part of it, and with nothing.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F

from . import delta
from .schema import SUMMARIES, kept

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from . import Tables

DAY_SECONDS = 86_400
MARGIN_SECONDS = 90
"""The seconds before and after a second that may matter to what a summary says of it. It is more than twice the silence
after which a replica is gone (`lag.HELD_SECONDS`)."""
VERSION = "5"
"""A part of every fingerprint. When it changes, all days are worked out anew."""
_FILE = re.compile(r"date=(\d+-\d+-\d+)/(?:of=(\w+)/)?([^/]+)$")
_EPOCH = dt.date(1970, 1, 1)


class Summary(NamedTuple):
    """name: of its table.

    rows: makes of `traffic` rows with `time`. What it says of a second may depend only on rows of the same
    broker at most `MARGIN_SECONDS` away. by_day: makes of these the summary's rows with `broker` and `day` (days since
    1970). Each of its rows is made of one day's seconds alone.
    """

    name: str
    rows: Callable[[DataFrame], DataFrame]
    by_day: Callable[[DataFrame], DataFrame]

    def of(self, traffic: DataFrame, days: Iterable[dt.date] | None = None) -> DataFrame:
        """Work it out. days: those that are wanted; None: all."""
        rows = self.rows(traffic)
        if days is None:
            return self.by_day(rows)
        return self.by_day(rows.where(F.floor(F.col("time") / DAY_SECONDS).isin([*map(_number, days)])))

    @property
    def columns(self) -> list[str]:
        return ["broker", *SUMMARIES[self.name].names]


def read_summary(tables: Tables, summary: Summary) -> DataFrame:
    """Return the summary's rows with `broker`, of the scope: from what is kept of it, and else from `traffic`."""
    now, kept_days = fingerprints(_files(tables, "lines")), _kept(tables, summary)
    wanted = {day for day in now if tables.scope.has_date(day)}
    fresh = {
        day for day in wanted
        if kept_days.get(day) == now[day]
        and tables.scope.holds(_first(day) - MARGIN_SECONDS, _first(day) + DAY_SECONDS + MARGIN_SECONDS)
    }  # fmt: skip
    if not fresh:
        return summary.of(tables.traffic).select(summary.columns)
    rows = tables.table(summary.name).where(F.col("date").isin(sorted(fresh)))
    if tables.scope.brokers:
        rows = rows.where(F.col("broker").isin(list(tables.scope.brokers)))
    found = rows.where("role is not null").select(summary.columns)
    rest = wanted - fresh
    if not rest:
        return found
    return found.unionByName(summary.of(tables.scope.cut(_traffic(tables, rest)), rest).select(summary.columns))


def summarise(
    tables: Tables, summaries: Sequence[Summary], *, tell: Callable[[str], None] = lambda _: None
) -> dict[str, int]:
    """Work out what is not kept, or not of what there is now; return of each summary how many days that were. Raises
    InputError if there are no tables."""
    tables = tables.require().now()
    now = fingerprints(_files(tables, "lines"))
    done = {}
    for summary in summaries:
        kept_days = _kept(tables, summary)
        stale = {day: of for day, of in now.items() if kept_days.get(day) != of}
        done[summary.name] = len(stale)
        if stale:
            tell(f"{summary.name}: {len(stale)} days")
            _keep(tables, summary, stale)
    return done


def _keep(tables: Tables, summary: Summary, stale: Mapping[dt.date, str]) -> None:
    rows = summary.of(_traffic(tables, stale), stale)
    spark = tables.spark
    told = spark.createDataFrame(
        [(_number(day), day, of) for day, of in stale.items()], "day long, date date, of string"
    )
    # Each day gets a row without a role as well, so that a day in which there is nothing to tell counts as kept.
    marked = rows.unionByName(told.select("day"), allowMissingColumns=True)
    placed = marked.join(F.broadcast(told), on="day", how="inner").drop("day")
    schema, path = kept(SUMMARIES[summary.name]), tables.path(summary.name)
    delta.create(spark, path, schema, ("date", "of"))
    dates = ", ".join(f"'{day}'" for day in sorted(stale))
    delta.overwrite(path, lambda: placed.select(schema.names), f"date in ({dates})")


def fingerprints(files: Mapping[dt.date, Iterable[str]]) -> dict[dt.date, str]:
    """Return for each day a fingerprint of its files and of those of the day before and after."""
    found = {}
    for day in files:
        names = [sorted(files.get(day + dt.timedelta(days=beside), ())) for beside in (-1, 0, 1)]
        found[day] = hashlib.sha256(repr((VERSION, names)).encode()).hexdigest()[:16]
    return found


def _files(tables: Tables, name: str) -> dict[dt.date, list[str]]:
    """Return the names of the table's files by day; of a summary's its fingerprint is before each."""
    found = defaultdict(list)
    for path in tables.table(name).inputFiles():
        named = _FILE.search(path)
        if named is not None:
            date, of, file = named.groups()
            found[dt.date.fromisoformat(date)].append(file if of is None else of)
    return dict(found)


def _kept(tables: Tables, summary: Summary) -> dict[dt.date, str]:
    return {day: of for day, (of, *_) in _files(tables, summary.name).items()}


def _traffic(tables: Tables, days: Iterable[dt.date]) -> DataFrame:
    """Return the rows of these days, and of those beside them the margin."""
    near: Column = F.lit(False)
    for day in sorted(days):
        begins = _first(day)
        near |= F.col("time").between(begins - MARGIN_SECONDS, begins + DAY_SECONDS - 1 + MARGIN_SECONDS)
    first, last = min(days), max(days)
    around = tables.scope._replace(
        since=_first(first) - MARGIN_SECONDS, until=_first(last) + DAY_SECONDS + MARGIN_SECONDS
    )
    return tables.within(around).traffic.where(near)


def _first(day: dt.date) -> int:
    return _number(day) * DAY_SECONDS


def _number(day: dt.date) -> int:
    return (day - _EPOCH).days
