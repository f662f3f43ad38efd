"""Rates of peers and racks for the audit: each is judged like a role's quota, beside the roles' own.

DataFrame → DataFrame. A role's quota is judged in every second and in every eleven, and so are these rates. A rack's
rate is told as the quota of a role called ``leader, rack b``; its bytes are those of the links that it bounds. Rates of
topics are left out: journals have a link's bytes by the second exactly, but a topic's only as shapes. Invariant: the
rows of the roles themselves do not change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from journal_schema import Kind

from .quotas import ROLE
from .schema import BOUNDS
from .tables import accounted_bytes

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ENTRIES = "array<struct<key:string,value:struct<peers:array<string>,bytes_per_second:double>>>"


def with_bounds(seconds: DataFrame, events: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Return rows of the seconds table and of events, with those of rates inside a quota added."""
    said = events.where(F.col("kind") == Kind.QUOTA.value)
    if said.where(F.col("bounds").isNotNull()).isEmpty():
        return seconds, events
    told = said.withColumn("told", F.from_json("bounds", BOUNDS)).withColumn("of", _by_name())
    names = (
        told.select(*ROLE, F.explode("of").alias("name", "bound"))
        .groupBy(*ROLE, "name")
        .agg(F.array_distinct(F.flatten(F.collect_list("bound.peers"))).alias("peers"))
    )
    return seconds.unionByName(_seconds(seconds, names)), events.unionByName(_events(told, names, events.columns))


def _by_name() -> Column:
    """A map: for each rate, by its name, the brokers at the other end that it counts, and bytes per second."""
    peers = F.transform(
        F.map_entries("told.peers"), lambda one: _entry("peer ", one["key"], F.array(one["key"]), one["value"])
    )
    racks = F.transform(
        F.map_entries("told.racks"),
        lambda one: _entry(
            "rack ", one["key"], one["value"]["brokers"].cast("array<string>"), one["value"]["bytes_per_second"]
        ),
    )
    return F.map_from_entries(F.concat(*(F.coalesce(each, F.array().cast(ENTRIES)) for each in (peers, racks))))


def _entry(kind: str, name: Column, peers: Column, rate: Column) -> Column:
    bound = F.struct(peers.alias("peers"), rate.alias("bytes_per_second"))
    return F.struct(F.concat(F.lit(kind), name).alias("key"), bound.alias("value"))


def _called() -> Column:
    return F.concat_ws(", ", "role", "name").alias("role")


def _events(told: DataFrame, names: DataFrame, columns: list[str]) -> DataFrame:
    """Add an event for each rate wherever its role's quota was told. It has no limit where that quota did not have the
    rate."""
    limit = F.try_element_at("of", F.col("name"))["bytes_per_second"]
    each = told.withColumn("bytes_per_second", F.lit(None)).join(F.broadcast(names), on=list(ROLE), how="inner")
    kept = [name for name in columns if name not in ("role", "bytes_per_second")]
    return each.select(*kept, _called(), limit.alias("bytes_per_second"))


def _seconds(seconds: DataFrame, names: DataFrame) -> DataFrame:
    """What each rate's links moved, as their role's quota counts it."""
    counted = seconds.withColumn("counted", accounted_bytes())
    each = counted.join(F.broadcast(names), on=list(ROLE), how="inner").where(F.array_contains("peers", F.col("peer")))
    kept = [name for name in seconds.columns if name not in ("role", "record_bytes", "wire_bytes")]
    sizes = [F.col("counted").alias(name) for name in ("record_bytes", "wire_bytes")]
    return each.select(*kept, _called(), *sizes)
