"""Durations under other quotas by the fluid model: of the recorded moves, with the model's error, and of scenarios.

From the tables to a few values: the model (`fluid`) is run at the driver, on a row per link and wave, however long the
recording. For the curve every quota in force is scaled by the same factor, so that brokers with quotas of their own
keep their proportions.

Invariant: the recorded result stands beside the model's answer for the same quotas, always.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from ..jobs.inner_rates import Inside, inside
from ..jobs.moves import paced, times_behind
from ..jobs.quotas import UNLIMITED, periods
from ..jobs.rates import inflow
from ..tables import CachedFrames
from .broker_pairs import Pair, pairs
from .fluid import LINE_BYTES_PER_SECOND, Change, Stream, finish_times

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from ..jobs.inner_rates import Bound
    from ..tables import Tables
    from .fluid import Quotas

FACTORS = tuple(2.0 ** (step / 2) for step in range(-6, 7))
"""The factors of the quotas, from an eighth to eight."""
Period = tuple[float, float, float]
"""(since, until, bytes per second; infinity: none)."""
MAX_FACTOR = 1024.0
EXACT = 1.0001
"""Two factors count as the same if the larger is no more than this times the smaller."""


class WhatIf(NamedTuple):
    """A scenario as it was asked for: one quota for all leaders and one for all followers. None: no quota."""

    name: str
    leader_bytes_per_second: float | None
    follower_bytes_per_second: float | None

    def quotas(self, links: Iterable[Stream]) -> Quotas:
        found: Quotas = {}
        for link in links:
            if self.leader_bytes_per_second is not None:
                found[link.source, "leader"] = self.leader_bytes_per_second
            if self.follower_bytes_per_second is not None:
                found[link.destination, "follower"] = self.follower_bytes_per_second
        return found


class Recorded(NamedTuple):
    """The recorded moves that are to be scaled, and the time that they took.

    streams: one of each pair, in their order; `starts` in seconds since 1970.
    quotas: of each broker and role that had one, in the mean of the time in which it had something to move.
    inflow: broker to what it takes in in sync, bytes per second in all but its busiest minutes.
    changes: of quotas while something moved, as they were in force; none if each had one alone.
    inside: rates of peers and racks inside the quotas, which are not scaled with them.
    """

    streams: tuple[Stream, ...]
    quotas: Quotas
    pairs: tuple[Pair, ...]
    inflow: dict[str, float]
    changes: tuple[Change, ...] = ()
    inside: Inside = Inside()

    @property
    def scaled(self) -> Quotas:
        """The part of `quotas` under which something moved: of the others nothing says what another one would have
        brought."""
        moving = {(one.source, "leader") for one in self.streams} | {
            (one.destination, "follower") for one in self.streams
        }
        return {key: limit for key, limit in self.quotas.items() if key in moving}

    @property
    def finished(self) -> bool:
        return bool(self.pairs) and not any(pair.unfinished for pair in self.pairs)

    @property
    def seconds(self) -> float:
        """The seconds in which moves were under way."""
        return busy((pair.began, pair.ended) for pair in self.pairs)

    @property
    def share_held(self) -> float:
        """The part of the moves' time in which a quota set the pace; each link counts by its bytes."""
        whole = sum(pair.bytes for pair in self.pairs)
        return sum(pair.share_held * pair.bytes for pair in self.pairs) / whole if whole else 0.0

    def seconds_at(self, factor: float) -> float:
        """Return the model's time for all of it at so many times the quotas; infinity if it never ends.

        factor: infinity is without quotas, also where one is 0.
        """
        scaled = {} if math.isinf(factor) else {key: limit * factor for key, limit in self.quotas.items()}
        return self._took(self._ends(scaled, ()))

    @property
    def seconds_modelled(self) -> float:
        """The time that all of it takes by the model with the quotas as they were in force; infinity if it never
        ends."""
        return self._took(self.finishes())

    def finishes(self) -> list[float | None]:
        """Return when each stream has caught up by the model with the quotas as they were in force."""
        return self._ends(self.quotas, self.changes)

    def _ends(self, quotas: Quotas, changes: Sequence[Change]) -> list[float | None]:
        line = LINE_BYTES_PER_SECOND
        return finish_times(
            self.streams, quotas, changes=changes, bounds=self.inside.bounds, line_bytes_per_second=line
        )  # fmt: skip

    def _took(self, ends: Sequence[float | None]) -> float:
        if None in ends:
            return math.inf
        return busy((one.starts, end or 0.0) for one, end in zip(self.streams, ends, strict=True))

    @property
    def error(self) -> float | None:
        """The error of the model: how much longer its answer for the recorded quotas is than the recorded time, as a
        part of that time. None if the recorded moves did not end, or took less than a second."""
        if not self.finished or self.seconds < 1:
            return None
        return self.seconds_modelled / self.seconds - 1

    def factor_for(self, seconds: float) -> float | None:
        """Return the least factor with which all of it takes at most `seconds`; None if `MAX_FACTOR` is too little."""
        if self.seconds_at(MAX_FACTOR) > seconds:
            return None
        low, high = 1 / MAX_FACTOR, MAX_FACTOR
        while high / low > EXACT:
            middle = math.sqrt(low * high)
            low, high = (low, middle) if self.seconds_at(middle) <= seconds else (middle, high)
        return high


def busy(intervals: Iterable[tuple[float, float]]) -> float:
    """Return the length of what they cover together: weeks between two migrations are no part of either."""
    return sum(ended - began for began, ended in _together(intervals))


def _together(intervals: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Join those that touch each other, in their order."""
    found: list[tuple[float, float]] = []
    for began, ended in sorted(intervals):
        if found and began <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], ended))
        else:
            found.append((began, ended))
    return found


def recorded(tables: Tables, found_moves: DataFrame | None = None) -> Recorded:
    """Work it out: a row per pair of brokers and one per quota.

    found_moves: the moves of these tables, `moves.paced` or `moves.unpaced`, if somebody has them.
    """
    events = tables.events
    with CachedFrames() as held:
        if found_moves is None:
            found_moves = paced(held.once(times_behind(tables)), tables.seconds, events)
        links = tuple(pairs(found_moves))
    said = defaultdict(list)
    for row in periods(events).orderBy("since").collect():
        limit = row.limit if row.enforce else UNLIMITED
        said[str(row.broker), row.role].append((row.since, row.until or math.inf, limit))
    quotas, changes = in_force(said, links)
    taken_in = {str(row.broker): row.inflow_bytes_per_second for row in inflow(tables.seconds).collect()}
    return Recorded(tuple(link.stream for link in links), quotas, links, taken_in, changes, inside(events))


def in_force(
    said: Mapping[tuple[str, str], Sequence[Period]], links: Sequence[Pair]
) -> tuple[Quotas, tuple[Change, ...]]:
    """Return each role's quota in the mean of the time in which it had something to move, and the changes in it.

    said: of each broker and role the periods of its quotas, in their order.
    """
    quotas: Quotas = {}
    changes = []
    for key, told in said.items():
        moving = _moving(key, links)
        parts = [
            (min(until, ended) - max(since, began), limit)
            for since, until, limit in told
            for began, ended in moving
            if min(until, ended) > max(since, began)
        ]
        finite = [(length, limit) for length, limit in parts if limit < UNLIMITED]
        if finite:
            quotas[key] = sum(length * limit for length, limit in finite) / sum(length for length, _ in finite)
            if len({limit for _, limit in parts}) > 1:
                first, last = moving[0][0], moving[-1][1]
                changes += [
                    Change(max(since, first), *key, limit)
                    for since, until, limit in told
                    if until > first and since < last
                ]
    return quotas, tuple(sorted(changes))


def _moving(key: tuple[str, str], links: Sequence[Pair]) -> list[tuple[float, float]]:
    """Return from when to when a broker's role had something to move; of one that had not, when any role had."""
    broker, role = key
    own = [link for link in links if broker == (link.source if role == "leader" else link.destination)] or links
    return _together((link.began, link.ended) for link in own) or [(0.0, math.inf)]


def fluid(
    spark: SparkSession,
    links: Sequence[Stream],
    what_ifs: Sequence[WhatIf],
    *,
    line_bytes_per_second: float,
    bounds: Sequence[Bound] = (),
) -> DataFrame:
    """Return one row per scenario and link: when it `began`, in seconds since the first link, and the `seconds` until
    it had caught up; null: never."""
    zero = min((link.starts for link in links), default=0.0)
    rows = []
    for one in what_ifs:
        found = finish_times(links, one.quotas(links), bounds=bounds, line_bytes_per_second=line_bytes_per_second)
        rows += [
            (one.name, link.source, link.destination, link.starts - zero, end and end - link.starts)
            for link, end in zip(links, found, strict=True)
        ]
    schema = "name string, source string, destination string, began double, seconds double"
    return spark.createDataFrame(rows, schema)
