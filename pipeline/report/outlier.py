"""A broker that something was the matter with: its rates as leader and as follower, its lags, and why it stalled.

DataFrame in, values out, of the brokers that are named.
"""

from __future__ import annotations

from bisect import bisect_right
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F

from ..jobs import lag
from ..jobs.quotas import ROLE, periods
from ..model.pace import End

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, Row

    from ..questions.will_it_finish import RoleEnd
    from ..tables import Tables

MAX_CAUSES = 6
MAX_QUOTAS = 1000
"""The most quotas of a side that are drawn one by one. A rate that sets itself may change 20 000 times a day."""


Quota = tuple[int, float]
"""The time since when, and bytes per second; infinity: none."""


class Point(NamedTuple):
    """One bucket of time of a broker's role.

    bytes: None if nothing moved under a quota. lag_bytes: the most; None if nobody spoke, or nobody knows how large the
    messages are.
    """

    time: int
    bytes: int | None
    worst: float | None
    """The most bytes of one second."""
    lag_bytes: float | None


class LagEnd(NamedTuple):
    """The lag at the last second, and when it ends."""

    time: int
    lag_bytes: float | None
    """The lag in bytes; None: the size of the messages is unknown."""
    end: End
    messages: int = 0


class Side(NamedTuple):
    """A broker as leader, or as follower. quotas: each a change, from the one on that held at the first point."""

    role: str
    points: tuple[Point, ...]
    quotas: tuple[Quota, ...]
    end: LagEnd | None


class Outlier(NamedTuple):
    broker: int
    sides: tuple[Side, ...]
    broken: int
    """Windows over their bound."""
    stalls: tuple[Row, ...]
    """The stalls by role and cause: `seconds`, `first`."""


def told(
    tables: Tables, by_bucket: DataFrame, progress: DataFrame, brokers: Sequence[int],
    roles: Mapping[tuple[str, str], RoleEnd],
) -> tuple[Outlier, ...]:  # fmt: skip
    """Work out each of these brokers, in their order. roles: what `will_it_finish.by_role` says."""
    if not brokers:
        return ()
    own = F.col("broker").isin(list(brokers))
    rows = by_bucket.where(own).orderBy(*ROLE, "bucket").collect()
    quotas = periods(tables.events).where(own).orderBy("since").select(*ROLE, "since", "limit").collect()
    before = tables.reaching_back(lag.LOOKS_BACK_SECONDS)
    stalls = lag.stalls(progress.where(own), before.seconds.where(own), before.events.where(own))
    causes = lag.stalls_by_cause(stalls, tables.scope).collect()
    found = []
    for broker in brokers:
        points, said, why = ([row for row in each if row.broker == broker] for each in (rows, quotas, causes))
        over = sum(row.broken or 0 for row in points)
        found.append(Outlier(broker, tuple(sides(points, said, roles)), over, tuple(why[:MAX_CAUSES])))
    return tuple(found)


def sides(rows: list[Row], quotas: list[Row], roles: Mapping[tuple[str, str], RoleEnd]) -> list[Side]:
    """Return a broker's facts, from its rows of `buckets` in their order, its quotas, and how each role goes on."""
    found = []
    for role in ("leader", "follower"):
        own = [row for row in rows if row.role == role]
        if not own:
            continue
        starts = [row.bucket for row in own]
        said = thinned(within([(one.since, one.limit) for one in quotas if one.role == role], starts[0]), starts)
        last = next((row for row in reversed(own) if row.lag is not None), None)
        end = None
        if last is not None and last.lag > 0:
            state = roles.get((str(last.broker), role))
            end = LagEnd(last.last_second, last.lag_bytes, state.end if state else End(None, None, None), last.lag)
        points = tuple(
            Point(
                row.bucket, row.bytes, None if row.worst_bytes is None else float(row.worst_bytes),
                # Whoever is behind for less than a bucket is not behind at its end; a projection begins there, though.
                row.lag_bytes if end is not None and row is last else row.most_lag_bytes,
            )
            for row in own
        )  # fmt: skip
        found.append(Side(role, points, tuple(said), end))
    return found


def within(quotas: Sequence[Quota], first: int) -> list[Quota]:
    """Return the quotas that held from the second `first` on: of those before it, the last one alone."""
    before = [one for one in quotas if one[0] <= first]
    return [*before[-1:], *quotas[len(before) :]]


def thinned(quotas: Sequence[Quota], starts: Sequence[int]) -> Sequence[Quota]:
    """Return all of them, if they are not too many.

    If they are, the largest and the last one of those that began between one point and the next, whose seconds are
    `starts`.
    """
    if len(quotas) <= MAX_QUOTAS:
        return quotas
    together: dict[int, list[Quota]] = {}
    for one in quotas:
        together.setdefault(bisect_right(starts, one[0]), []).append(one)
    return [one for some in together.values() for one in sorted({max(some, key=itemgetter(1)), some[-1]})]
