"""Rates of peers and racks for the audit: each is judged like a role's quota, beside the roles' own.

DataFrame → DataFrame. A role's quota is judged in every second and in every eleven, and so are these rates. A rack's
rate is told as the quota of a role called ``leader, rack b``; its bytes are those of the links that it bounds. Rates of
topics are left out: journals have a link's bytes by the second exactly, but a topic's only as shapes. Which brokers a
rack has may change, and after a start none are known at first: each second is judged by the brokers that were known in
it, and where none are the rate bounds nothing. Invariant: the rows of the roles themselves do not change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from journal_schema import Kind

from ..tables import accounted_bytes
from ..tables.schema import BOUNDS
from .quotas import ROLE, turn, with_period

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ENTRIES = "array<struct<key:string,value:struct<peers:array<string>,bytes_per_second:double>>>"


def with_bounds(seconds: DataFrame, events: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Return rows of the seconds table and of events, with those of rates inside a quota added."""
    said = events.where(F.col("kind") == Kind.QUOTA.value)
    if said.where(F.col("bounds").isNotNull()).isEmpty():
        return seconds, events
    told = said.withColumn("told", F.from_json("bounds", BOUNDS)).withColumn("of", _entries())
    return seconds.unionByName(_seconds(seconds, told)), events.unionByName(_events(told, events.columns))


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
    return F.concat(*(F.coalesce(each, F.array().cast(ENTRIES)) for each in (peers, racks)))


def _entry(kind: str, name: Column, peers: Column, rate: Column) -> Column:
    bound = F.struct(peers.alias("peers"), rate.alias("bytes_per_second"))
    return F.struct(F.concat(F.lit(kind), name).alias("key"), bound.alias("value"))


def _called() -> Column:
    return F.concat_ws(", ", "role", "name").alias("role")


def _events(told: DataFrame, columns: list[str]) -> DataFrame:
    """Return an event for each rate wherever its role's quota was told. It has no limit where that quota did not have
    the rate, or nobody was known whom it bounds."""
    names = told.select(*ROLE, F.explode("of.key").alias("name")).distinct()
    bound = F.try_element_at(F.map_from_entries("of"), F.col("name"))
    limit = F.when(F.size(bound["peers"]) > 0, bound["bytes_per_second"])
    each = told.withColumn("bytes_per_second", F.lit(None)).join(F.broadcast(names), on=list(ROLE), how="inner")
    kept = [name for name in columns if name not in ("role", "bytes_per_second")]
    return each.select(*kept, _called(), limit.alias("bytes_per_second"))


def _seconds(seconds: DataFrame, told: DataFrame) -> DataFrame:
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
