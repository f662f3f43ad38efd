"""Rates inside a role's quota, as the journals' quota events tell them: which links each of them bounds.

A peer's rate bounds one link of a broker; a rack's rate bounds the links with all brokers that were known to be in it.
A model of links (`inside`) cannot hold to rates of topics, nor to who goes first, so these are told in words.
Invariant: nothing that the journals tell of is left out silently.

The audit (`with_bounds`) judges them in every second and in every eleven, like a role's quota: a rack's rate is told as
the quota of a role called ``leader, rack b``; its bytes are those of the links that it bounds. Rates of topics are left
out: journals have a link's bytes by the second exactly, but a topic's only as shapes. Which brokers a rack has may
change, and after a start none are known at first: each second is judged by the brokers that were known in it, and where
none are the rate bounds nothing. Invariant: the rows of the roles themselves do not change.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import Window
from pyspark.sql import functions as F

from journal_schema import Kind

from ..tables import accounted_bytes
from ..tables.schema import BOUNDS
from ..terminal import listed
from .quotas import ROLE, turn, with_period

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import Column, DataFrame

MAX_NAMED = 5
USUAL_PRIORITIES = "under-min-isr,under-replicated,moves"
_ENTRIES = "array<struct<key:string,value:struct<peers:array<string>,bytes_per_second:double>>>"


class Bound(NamedTuple):
    """The rate of what `broker` moves in `role` with any of `peers`. `name`: ``peer 102``, ``rack b``."""

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


def has_bounds(events: DataFrame) -> bool:
    """Return whether any quota, at any time, had rates inside it: then `with_bounds` adds rows."""
    said = events.where((F.col("kind") == Kind.QUOTA.value) & F.col("bounds").isNotNull())
    return not said.isEmpty()


def with_bounds(seconds: DataFrame, events: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Return rows of the seconds table and of events, with those of rates inside a quota added."""
    if not has_bounds(events):
        return seconds, events
    said = events.where(F.col("kind") == Kind.QUOTA.value)
    told = said.withColumn("told", F.from_json("bounds", BOUNDS)).withColumn("of", _entries())
    more_events = _events_of_rates(told, events.columns)
    return seconds.unionByName(_seconds_of_rates(seconds, told)), events.unionByName(more_events)


def _entries() -> Column:
    """Return for each rate its name, the brokers at the other end that it counts, and bytes per second."""
    peers = F.transform(
        F.map_entries("told.peers"), lambda one: _entry("peer ", one["key"], F.array(one["key"]), one["value"])
    )
    racks = F.transform(
        F.map_entries("told.racks"),
        lambda one: _entry(
            "rack ", one["key"], one["value"]["brokers"].cast("array<string>"), one["value"]["bytes_per_second"]
        ),
    )
    return F.concat(*(F.coalesce(each, F.array().cast(_ENTRIES)) for each in (peers, racks)))


def _entry(kind: str, name: Column, peers: Column, rate: Column) -> Column:
    bound = F.struct(peers.alias("peers"), rate.alias("bytes_per_second"))
    return F.struct(F.concat(F.lit(kind), name).alias("key"), bound.alias("value"))


def _called() -> Column:
    return F.concat_ws(", ", "role", "name").alias("role")


def _events_of_rates(told: DataFrame, columns: list[str]) -> DataFrame:
    """Return an event for each rate wherever its role's quota was told. It has no limit where that quota did not have
    the rate, or nobody was known whom it bounds."""
    names = told.select(*ROLE, F.explode("of.key").alias("name")).distinct()
    bound = F.try_element_at(F.map_from_entries("of"), F.col("name"))
    limit = F.when(F.size(bound["peers"]) > 0, bound["bytes_per_second"])
    each = told.join(F.broadcast(names), on=list(ROLE), how="inner")
    kept = [name for name in columns if name not in ("role", "bytes_per_second")]
    return each.select(*kept, _called(), limit.alias("bytes_per_second"))


def _seconds_of_rates(seconds: DataFrame, told: DataFrame) -> DataFrame:
    """Return the bytes that each rate's links moved, as their role's quota counts it.

    In the second in which a list of brokers changed, only those on both lists count: when in it the others were bound
    is not known.
    """
    counted = with_period(seconds.withColumn("counted", accounted_bytes()), _lists(told), F.col("time"))
    each = counted.withColumn("one", F.explode("period.now")).where(_has(F.col("one"), F.col("peer")))
    before = F.exists("period.before", lambda one: (one["name"] == F.col("one.name")) & _has(one, F.col("peer")))
    each = each.where((F.col("time") > F.col("period.since")) | F.coalesce(before, F.lit(True)))
    kept = [name for name in seconds.columns if name not in ("role", "record_bytes", "wire_bytes")]
    sizes = [F.col("counted").alias(name) for name in ("record_bytes", "wire_bytes")]
    return each.withColumn("name", F.col("one.name")).select(*kept, _called(), *sizes)


def _lists(told: DataFrame) -> DataFrame:
    """Return `broker`, `role`, `since`, `until` (null: to the end), and of each rate the name and the brokers that it
    counts: `now`, and `before` that (null: it is the first)."""
    named = F.transform("of", lambda one: F.struct(one["key"].alias("name"), one["value"]["peers"].alias("peers")))
    last = told.groupBy(*ROLE, "time").agg(F.max_by(named, turn()).alias("now"))
    in_order = Window.partitionBy(*ROLE).orderBy("time")
    before = F.lag("now").over(in_order).alias("before")
    changed = last.select("*", before).where(F.col("before").isNull() | (F.col("before") != F.col("now")))
    return changed.select(
        *ROLE, F.col("time").alias("since"), F.lead("time").over(in_order).alias("until"), "now", "before"
    )


def _has(one: Column, peer: Column) -> Column:
    return F.array_contains(one["peers"], peer)
