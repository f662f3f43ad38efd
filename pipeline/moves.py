"""Moves: which replicas caught up, from where, how long it took, and which side's quota set the pace.

DataFrame → DataFrame. A *move* is one replica's time behind, from its first line behind to its first line in sync.
MoveRatio and MoveTime are KIP-73's. Invariant: a replica's moves do not overlap; one that fell silent while behind is
there too, as not finished.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from .lag import HELD_SECONDS
from .quotas import UNLIMITED, with_limit
from .rates import LEVELS, per_second

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

MOVE = ("source", "destination", "topic", "partition")
SATURATED, HELD_BACK = 0.9, 0.7
"""Of the quota, over KIP-73's window: a role that moves as much is held by it; one that moves somewhat less, too, if it
left anything out meanwhile. Moves begin slowly, and a fetch of a single partition waits and leaves nothing out."""
PACE_SECONDS = 11
MOSTLY = 0.5


def sightings(traffic: DataFrame) -> DataFrame:
    """Per move's link, partition and second: `behind`, `bytes`, `messages` still to go. Where both sidecars saw it,
    it is one; `seen_by` tells the role that is looked at."""
    leads = F.col("role") == "leader"
    broker, peer = F.col("broker").cast("string"), F.col("peer")
    linked = traffic.select(
        F.when(leads, broker).otherwise(peer).alias("source"),
        F.when(leads, peer).otherwise(broker).alias("destination"),
        "topic", "partition", "time", "role", "in_sync", "record_bytes", "fetch_offset", "high_watermark",
        "log_start_offset",
    )  # fmt: skip
    by_side = linked.groupBy(*MOVE, "time", "role").agg(
        (~F.bool_or("in_sync")).alias("behind"),
        F.sum("record_bytes").alias("bytes"),
        F.min("fetch_offset").alias("fetch_offset"),
        F.max("high_watermark").alias("high_watermark"),
        F.max("log_start_offset").alias("log_start_offset"),
    )
    # The follower's side is nearer to what arrived; min_by takes it, "follower" comes before "leader".
    facts = F.struct("role", "behind", "bytes", "fetch_offset", "high_watermark", "log_start_offset")
    once = by_side.groupBy(*MOVE, "time").agg(F.min_by(facts, "role").alias("seen"))
    return once.select(*MOVE, "time", "seen.*").withColumnRenamed("role", "seen_by")


def episodes(seen: DataFrame) -> DataFrame:
    """Number each replica's times behind; return its lines behind, and the line that ended each."""
    in_order = Window.partitionBy(*MOVE).orderBy("time")
    was_behind = F.coalesce(F.lag("behind").over(in_order), F.lit(False))
    silence = F.col("time") - F.lag("time").over(in_order) > HELD_SECONDS
    begins = F.col("behind") & (~was_behind | silence)
    numbered = seen.withColumn("was_behind", was_behind & ~F.coalesce(silence, F.lit(False))).withColumn(
        "number", F.sum(begins.cast("int")).over(in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow))
    )
    return numbered.where(F.col("behind") | F.col("was_behind"))


def moves(traffic: DataFrame, events: DataFrame) -> DataFrame:
    """One row per move: `began`, `seconds` (MoveTime), `finished`, `bytes`, `bytes_per_second`, `bound` and, of its
    seconds, the shares in which the leader's and the follower's quota set the pace."""
    found = episodes(sightings(traffic.where("throttled")))
    pace = saturation(traffic, events)
    at_source = pace.where("role = 'leader'").select(
        F.col("broker").cast("string").alias("source"), "time", F.col("saturated").alias("by_leader")
    )
    at_destination = pace.where("role = 'follower'").select(
        F.col("broker").cast("string").alias("destination"), "time", F.col("saturated").alias("by_follower")
    )
    behind = found.where("behind")
    crowd = F.approx_count_distinct
    out = behind.groupBy("source", "time").agg(crowd("destination").alias("destinations"))
    into = behind.groupBy("destination", "time").agg(crowd("source").alias("sources"))
    told = (
        found.join(at_source, ["source", "time"], "left")
        .join(at_destination, ["destination", "time"], "left")
        .join(out, ["source", "time"], "left")
        .join(into, ["destination", "time"], "left")
    )
    busy = F.col("behind")
    summed = told.groupBy(*MOVE, "number").agg(
        F.min("time").alias("began"),
        F.max("time").alias("ended"),
        F.bool_or(~F.col("behind")).alias("finished"),
        F.sum("bytes").alias("bytes"),
        F.first("seen_by").alias("seen_by"),
        F.avg(F.when(busy, F.coalesce(F.col("by_leader"), F.lit(False)).cast("int"))).alias("leader_share"),
        F.avg(F.when(busy, F.coalesce(F.col("by_follower"), F.lit(False)).cast("int"))).alias("follower_share"),
        F.avg(F.when(busy, F.col("destinations"))).alias("destinations"),
        F.avg(F.when(busy, F.col("sources"))).alias("sources"),
    )
    seconds = F.col("ended") - F.col("began") + F.when(F.col("finished"), 0).otherwise(1)
    return summed.select(
        *MOVE, "began", F.greatest(seconds, F.lit(1)).alias("seconds"), "finished", "bytes",
        (F.col("bytes") / F.greatest(seconds, F.lit(1))).alias("bytes_per_second"),
        _bound().alias("bound"), "leader_share", "follower_share", "seen_by",
    )  # fmt: skip


def _bound() -> Column:
    """Whose quota set the pace, and whether others had a part of it."""
    by_leader = (F.col("leader_share") >= MOSTLY) & (F.col("leader_share") >= F.col("follower_share"))
    by_follower = F.col("follower_share") >= MOSTLY
    shared_out, shared_in = F.col("destinations") >= 1 + MOSTLY, F.col("sources") >= 1 + MOSTLY
    return (
        F.when(by_leader & shared_out, "leader")
        .when(by_follower & shared_in, "follower")
        .when(by_leader | by_follower, "independent")
        .otherwise("no quota")
    )


def saturation(traffic: DataFrame, events: DataFrame) -> DataFrame:
    """Per broker, role and second: whether the quota sets the pace."""
    in_order = Window.partitionBy("broker", "role").orderBy("time")
    seconds = with_limit(per_second(traffic, LEVELS["broker"]), events)
    # In the second in which a quota is raised it cannot set the pace yet.
    seconds = seconds.withColumn("limit", F.least("limit", F.lag("limit").over(in_order)))
    # What was allowed while there was no quota says nothing of the pace under the one that came.
    limited = F.col("limit") < UNLIMITED
    recent = in_order.rangeBetween(1 - PACE_SECONDS, Window.currentRow)
    under_quota, limit = F.when(limited, F.col("bytes")), F.when(limited, F.col("limit"))
    bytes_moved, quota = F.sum(under_quota).over(recent), F.sum(limit).over(recent)
    moved = bytes_moved / quota
    held_back = F.sum("omitted").over(recent) > 0
    # Under kip73 a fetch is several seconds' worth: three of four that fit are all that it can do.
    no_room = bytes_moved + F.max(under_quota).over(recent) > quota
    saturated = limited & ((moved >= SATURATED) | ((moved >= HELD_BACK) & (held_back | no_room)))
    return seconds.select("broker", "role", "time", F.coalesce(saturated, F.lit(False)).alias("saturated"))


def by_source(found: DataFrame, sizes: DataFrame) -> DataFrame:
    """Per source: MoveRatio (data to move over data on the source), MoveTime (until its last move was finished).

    Data on the source is what the journals know of: partitions whose replicas fetched through the sidecars.
    """
    held = sizes.groupBy("source").agg(F.sum("size_bytes").alias("data_bytes"))
    moved = found.groupBy("source").agg(
        F.sum("bytes").alias("moved_bytes"),
        F.countDistinct("topic", "partition").alias("partitions"),
        (F.max(F.col("began") + F.col("seconds")) - F.min("began")).alias("move_seconds"),
        F.bool_and("finished").alias("finished"),
    )
    data_to_move = (
        found.select("source", "topic", "partition").distinct().join(sizes, ["source", "topic", "partition"], "left")
        .groupBy("source").agg(F.sum("size_bytes").alias("to_move_bytes"))
    )  # fmt: skip
    ratio = F.try_divide("to_move_bytes", "data_bytes").alias("move_ratio")
    joined = moved.join(data_to_move, "source", "left").join(held, "source", "left")
    return joined.select("source", "partitions", "to_move_bytes", "data_bytes", ratio, "moved_bytes", "move_seconds",
                         "finished").orderBy("source")  # fmt: skip


def partition_sizes(traffic: DataFrame) -> DataFrame:
    """Per source, topic and partition: `size_bytes`, messages in the leader's log by the bytes that a message took.

    A partition whose bytes per message were never seen has the average of all.
    """
    links = sightings(traffic)
    in_order = Window.partitionBy(*MOVE).orderBy("time")
    steps = links.withColumn(
        "messages", F.greatest(F.lead("fetch_offset").over(in_order) - F.col("fetch_offset"), F.lit(0))
    )
    partitions = steps.groupBy("source", "topic", "partition").agg(
        F.max_by(F.col("high_watermark") - F.col("log_start_offset"), "time").alias("log_messages"),
        F.sum(F.when(F.col("messages") > 0, F.col("bytes"))).alias("bytes"),
        F.sum(F.when(F.col("bytes") > 0, F.col("messages"))).alias("messages"),
    )
    everywhere = Window.partitionBy()
    average = F.try_divide(F.sum("bytes").over(everywhere), F.sum("messages").over(everywhere))
    each = F.coalesce(F.try_divide("bytes", "messages"), average)
    return partitions.select(
        "source", "topic", "partition", each.alias("bytes_per_message"),
        (F.col("log_messages") * each).alias("size_bytes"),
    )  # fmt: skip
