"""Rates inside a role's quota, as the journals' quota events tell them: which links each of them bounds.

A peer's rate bounds one link of a broker; a rack's rate bounds the links with all brokers that were known to be in it.
A model of links cannot hold to rates of topics, nor to who goes first, so these are told in words. Invariant: nothing
that the journals tell of is left out silently.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import functions as F

from journal_schema import Kind

from ..tables.schema import BOUNDS
from ..terminal import listed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

MAX_NAMED = 5
USUAL_PRIORITIES = "under-min-isr,under-replicated,moves"


class Bound(NamedTuple):
    """One rate: of what `broker` moves in `role` with any of `peers`. `name`: ``peer 102``, ``rack b``."""

    broker: str
    role: str
    name: str
    peers: frozenset[str]
    bytes_per_second: float

    def holds_for(self, source: str, destination: str) -> bool:
        own, other = (source, destination) if self.role == "leader" else (destination, source)
        return own == self.broker and other in self.peers


class Inside(NamedTuple):
    """bounds: those that held last, of every broker and role. left_out: what a model of links cannot hold to, a
    sentence for all brokers that it is true of."""

    bounds: tuple[Bound, ...] = ()
    left_out: tuple[str, ...] = ()

    def in_words(self) -> str:
        """Return ``peer 102 of broker 101 as leader, …``; empty if there are none."""
        return listed((f"{one.name} of broker {one.broker} as {one.role}" for one in self.bounds), MAX_NAMED)


def inside(events: DataFrame) -> Inside:
    """Collect one row per broker and role; rates that were only observed bound nothing."""
    said = events.where(F.col("kind") == Kind.QUOTA.value)
    last = F.max_by(F.struct("bounds", "priorities", "enforce"), F.struct("time", "run", "tick"))
    rows = said.groupBy("broker", "role").agg(
        last.alias("now"), F.countDistinct(F.coalesce("bounds", F.lit(""))).alias("different")
    )
    bounds: list[Bound] = []
    left_out: dict[str, list[str]] = defaultdict(list)
    for row in rows.withColumn("told", F.from_json("now.bounds", BOUNDS)).orderBy("broker", "role").collect():
        who = f"broker {row.broker} as {row.role}"
        told = row.told.asDict(recursive=True) if row.told is not None and row.now.enforce else {}
        bounds += _bounds(str(row.broker), row.role, told)
        for what in _left_out(told, row.now.priorities, row.different):
            left_out[what].append(who)
    return Inside(tuple(bounds), tuple(f"{listed(roles, MAX_NAMED)} {what}" for what, roles in left_out.items()))


def _bounds(broker: str, role: str, told: dict[str, Any]) -> Iterator[Bound]:
    for peer, rate in (told.get("peers") or {}).items():
        yield Bound(broker, role, f"peer {peer}", frozenset([peer]), rate)
    for rack, said in (told.get("racks") or {}).items():
        yield Bound(broker, role, f"rack {rack}", frozenset(map(str, said["brokers"])), said["bytes_per_second"])


def _left_out(told: dict[str, Any], priorities: str | None, different: int) -> Iterator[str]:
    topics = sorted(told.get("topics") or ())
    if topics:
        named = listed(topics, MAX_NAMED)
        yield f"had rates of topics ({named}): links are modelled, not topics, so what is of these may be slower"
    if different > 1:
        yield "had other rates inside the quota at other times: those that held last are taken for all the time"
    if priorities is not None and priorities != USUAL_PRIORITIES:
        yield f"had some go first ({priorities}): in the model all go alike, which changes whose end is when"
