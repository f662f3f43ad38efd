"""What jobs need of a broker's day, worked out once and kept, so that not every second of weeks is read again.

    OUT/times_behind/date=2026-11-21/broker=101/of=5f0c.../part-0.parquet

A broker's day is kept with a fingerprint of the files of `traffic` that it was made from, including those of the day
before and after. A reader takes the days whose fingerprint is still the same, and works out all others from `traffic`,
which always includes today. So when lines come late, nothing has to be told and nothing can be forgotten.

Invariant: what `read` returns is the same with everything kept, with a part of it, and with nothing.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F

from .rewriting import rewriting
from .schema import SUMMARIES
from .staging import Day

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame

    from .committing import Move
    from .staging import Staging
    from .tables import Tables

DAY_SECONDS = 86_400
MARGIN_SECONDS = 90
"""How many seconds before and after a second may matter to what a summary says of it. It is more than twice the silence
after which a replica is gone (`lag.HELD_SECONDS`)."""
VERSION = "2"
"""A part of every fingerprint. When it changes, all days are worked out anew."""
_FILE = re.compile(r"date=(\d+-\d+-\d+)/broker=(-?\d+)/(?:of=(\w+)/)?([^/]+)$")
_EPOCH = dt.date(1970, 1, 1)


class Summary(NamedTuple):
    """name: of its table.

    rows: makes of `traffic` rows with `broker` and `time`. What it says of a second may depend only on rows of the same
    broker at most `MARGIN_SECONDS` away. by_day: makes of these the summary's rows with `broker` and `day` (days since
    1970). Each of its rows is made of one day's seconds alone.
    """

    name: str
    rows: Callable[[DataFrame], DataFrame]
    by_day: Callable[[DataFrame], DataFrame]

    def of(self, traffic: DataFrame, days: Iterable[Day] | None = None) -> DataFrame:
        """Work it out. days: those that are wanted; None: all."""
        rows = self.rows(traffic)
        if days is None:
            return self.by_day(rows)
        wanted = rows.sparkSession.createDataFrame(
            [(_number(day), day.broker) for day in days], "day long, broker long"
        )
        dated = rows.withColumn("day", F.floor(F.col("time") / DAY_SECONDS))
        return self.by_day(dated.join(F.broadcast(wanted), on=["day", "broker"], how="left_semi").drop("day"))

    @property
    def columns(self) -> list[str]:
        return ["broker", *SUMMARIES[self.name].names]


def read(tables: Tables, summary: Summary) -> DataFrame:
    """Return the summary's rows with `broker`, of the scope: from what is kept of it, and else from `traffic`."""
    if not tables.storage.exists(tables.storage.under(summary.name)):
        return summary.of(tables.traffic).select(summary.columns)
    return tables.settled(lambda: _read(tables, summary))


def _read(tables: Tables, summary: Summary) -> DataFrame:
    near = tables.within(tables.scope.wider(DAY_SECONDS))
    now, kept = fingerprints(_files(near, "traffic")), _kept(tables, summary)
    fresh = {day for day, of in kept.items() if now.get(day) == of and _is_whole(tables, day)}
    rest = {day for day in now if tables.scope.dates([day.directory.partition("/")[0]])} - fresh
    if not fresh:
        return summary.of(tables.traffic).select(summary.columns)
    rows = tables.there(summary.name, _directories(tables, fresh, kept))
    found = rows.where("role is not null").select(summary.columns)
    if not rest:
        return found
    return found.unionByName(summary.of(_traffic(tables, rest, now), rest).select(summary.columns))


def summarise(
    tables: Tables, summaries: Sequence[Summary], *, tell: Callable[[str], None] = lambda _: None
) -> dict[str, int]:
    """Work out what is not kept, or not of what there is now, as one commit; return of each summary how many days of
    brokers that were. Raises InputError if there are no tables."""
    with rewriting(tables, tell=tell) as (staging, moves):
        now = fingerprints(_files(tables, "traffic"))
        done = {}
        for summary in summaries:
            kept = _kept(tables, summary)
            stale = {day: of for day, of in now.items() if kept.get(day) != of}
            done[summary.name] = len(stale)
            if stale:
                tell(f"{summary.name}: {len(stale)} days of brokers")
                moves.extend(_stage(staging, summary, stale, now))
    return done


def _stage(staging: Staging, summary: Summary, stale: Mapping[Day, str], now: Mapping[Day, str]) -> list[Move]:
    tables = staging.tables
    rows = summary.of(_traffic(tables, stale, now), stale)
    spark = rows.sparkSession
    told = spark.createDataFrame(
        [(_number(day), day.broker, day.date, of) for day, of in stale.items()],
        "day long, broker long, date date, of string",
    )
    # Each day gets a row without a role as well, so that a day in which there is nothing to tell counts as kept.
    marked = rows.unionByName(told.select("day", "broker"), allowMissingColumns=True)
    placed = marked.join(F.broadcast(told), on=["day", "broker"], how="inner").drop("day")
    ordered = placed.hint("rebalance", "date", "broker").sortWithinPartitions("date", "broker", *summary.columns[1:3])
    ordered.write.partitionBy("date", "broker", "of").parquet(f"{staging.stage}/{summary.name}")
    return staging.replaced(summary.name, depth=2)


def fingerprints(files: Mapping[Day, Iterable[str]]) -> dict[Day, str]:
    """Return for each broker's day a fingerprint of its files and of those of the day before and after."""
    found = {}
    for day in files:
        names = [sorted(files.get(one, ())) for one in (_beside(day, -1), day, _beside(day, 1))]
        found[day] = hashlib.sha256(repr((VERSION, names)).encode()).hexdigest()[:16]
    return found


def _files(tables: Tables, name: str) -> dict[Day, list[str]]:
    """The names of the table's files by day and broker; of a summary's its fingerprint is before each."""
    listed = tables.partitions(name, tables.directories(name))
    found = defaultdict(list)
    for path in listed.inputFiles() if listed is not None else ():
        told = _FILE.search(path)
        if told is not None:
            date, broker, of, file = told.groups()
            found[Day(dt.date.fromisoformat(date), int(broker))].append(file if of is None else of)
    return dict(found)


def _kept(tables: Tables, summary: Summary) -> dict[Day, str]:
    return {day: of for day, (of, *_) in _files(tables, summary.name).items()}


def _traffic(tables: Tables, days: Iterable[Day], now: Iterable[Day]) -> DataFrame:
    """The rows of these days, and of those beside them the margin."""
    wanted = set(days)
    beside = {one for day in wanted for one in (_beside(day, -1), _beside(day, 1))} & set(now) - wanted
    rows = tables.scope.cut(tables.there("traffic", _directories(tables, wanted, now)))
    if not beside:
        return rows
    margin = F.lit(False)
    for date in {day.date for day in beside}:
        first = _first(Day(date, 0))
        last = first + DAY_SECONDS - 1
        margin |= F.col("time").between(first, first + MARGIN_SECONDS - 1)
        margin |= F.col("time").between(last - MARGIN_SECONDS + 1, last)
    around = tables.scope.cut(tables.there("traffic", _directories(tables, beside, now)))
    return rows.unionByName(around.where(margin))


def _directories(tables: Tables, days: Iterable[Day], there: Iterable[Day]) -> list[str]:
    """Return directories to read: a date's own if all brokers of that date are wanted, which are tens of paths instead
    of tens of thousands; else those of the brokers."""
    wanted = sorted(days)
    if tables.scope.brokers:
        return [day.directory for day in wanted]
    not_wanted = {day.date for day in set(there).difference(wanted)}
    whole = {day.directory.partition("/")[0] for day in wanted if day.date not in not_wanted}
    return sorted(whole) + [day.directory for day in wanted if day.date in not_wanted]


def _is_whole(tables: Tables, day: Day) -> bool:
    first = _first(day)
    return tables.scope.holds(first - MARGIN_SECONDS, first + DAY_SECONDS + MARGIN_SECONDS)


def _first(day: Day) -> int:
    return _number(day) * DAY_SECONDS


def _number(day: Day) -> int:
    return (day.date - _EPOCH).days


def _beside(day: Day, days: int) -> Day:
    return day._replace(date=day.date + dt.timedelta(days=days))
