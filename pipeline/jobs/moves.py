"""Moves: which replicas caught up, from where, how long it took, and which side's quota set the pace.

DataFrame → DataFrame. A *move* is one replica's time behind, from its first second behind to its first in sync. Each
end tells it by its own clock (`link_ends`). If both ends tell of the same offsets, that is one move, told by the end
that saw more bytes. MoveRatio and MoveTime are KIP-73's. Invariant: a replica's moves do not overlap. One that fell
silent while behind is there too, as not finished. A move's bytes are those that its end's journal has of it, to the
byte.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from ..tables.daily_summaries import read_summary
from .link_ends import END, REPLICA
from .quotas import ROLE, UNLIMITED, with_limit
from .rates import LEVELS, per_second
from .times_behind import BITS, SUMMARY, second_bit, whole

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from ..tables import Tables

SATURATED, HELD_BACK = 0.9, 0.7
"""Shares of the quota, over KIP-73's window. A role that moves the first share or more is held by its quota. One that
moves the second share or more is held, too, if it left anything out meanwhile. Moves begin slowly, and a fetch of a
single partition waits and leaves nothing out."""
PACE_SECONDS = 11
MOSTLY = 0.5


def times_behind(tables: Tables) -> DataFrame:
    """Return each end's times behind of each replica, without reading each second of the days that are kept."""
    return whole(read_summary(tables, SUMMARY))


def paced(behind: DataFrame, link_seconds: DataFrame, events: DataFrame) -> DataFrame:
    """Return one row per move: `began`, `seconds` (MoveTime), `finished`, `bytes`, `bytes_per_second`, `bound` and, of
    its seconds, the shares in which the leader's and the follower's quota set the pace; `seen_by` is the end whose
    clock and bytes these are. Each side's share is by its own clock. `backlog_bytes` is what there was to bring when it
    began, and `written_bytes` what was written meanwhile.

    behind: what `times_behind` returns, held, since it is read four times: for bytes, for minutes, and for who shared
    these at either end.
    """
    pace = saturation(link_seconds, events)
    return _told(behind.join(_paces(behind, pace), on=[*END, "number"], how="left"))


def unpaced(behind: DataFrame) -> DataFrame:
    """Return the same moves without what set their pace, which is most of the work."""
    nobodys = {"held_share": F.lit(0.0), "destinations": F.lit(1.0), "sources": F.lit(1.0)}
    return _told(behind.withColumns(nobodys))


def _told(found: DataFrame) -> DataFrame:
    seen = _by_offsets(found).select(
        *REPLICA, "began", "seconds", "finished", "bytes",
        (F.col("bytes") / F.col("seconds")).alias("bytes_per_second"),
        _bound().alias("bound"), "leader_share", "follower_share", F.col("role").alias("seen_by"),
        (F.col("to_offset") - F.col("from_offset")).alias("messages"),
        (F.col("from_watermark") - F.col("from_offset")).alias("backlog"),
        (F.col("to_watermark") - F.col("from_watermark")).alias("written"),
    )  # fmt: skip
    from_there = Window.partitionBy("source")
    average = F.try_divide(F.sum("bytes").over(from_there), F.sum("messages").over(from_there))
    each = F.coalesce(F.try_divide("bytes", "messages"), average, F.lit(0.0))
    written = F.greatest(F.col("written") * each, F.lit(0.0))
    # If a replica fell silent and went on later, that is a further move, and the rest of the backlog is its own.
    goes_on = F.lead("began").over(Window.partitionBy(*REPLICA).orderBy("began")).isNotNull()
    brought = F.greatest(F.col("bytes") - written, F.lit(0.0))
    backlog = F.when(F.col("finished") | goes_on, brought).otherwise(F.col("backlog") * each)
    told = seen.withColumns({"backlog_bytes": backlog, "written_bytes": written})
    return told.drop("messages", "backlog", "written")


def _paces(behind: DataFrame, pace: DataFrame) -> DataFrame:
    """Return per end and time behind `held_share`, the share of its seconds in which its own side's quota set the pace.
    Also how many `destinations` its source and how many `sources` its destination had on average, this one included.

    Ends are joined by the minute, which are a sixtieth of the rows. A minute has a bit for each of its seconds, so the
    result is exact to the second."""
    minutes = behind.select(*END, "number", F.inline("minutes"))
    held = pace.where("saturated").groupBy(*ROLE, F.floor(F.col("time") / BITS).alias("minute"))
    saturated = held.agg(F.bit_or(second_bit()).alias("saturated")).withColumn("broker", F.col("broker").cast("string"))
    links = minutes.groupBy("source", "destination", "role", "minute").agg(F.bit_or("active").alias("active"))
    out = links.groupBy("source", "role", "minute").agg(F.collect_list("active").alias("out"))
    into = links.groupBy("destination", "role", "minute").agg(F.collect_list("active").alias("into"))
    own = F.when(F.col("role") == "leader", F.col("source")).otherwise(F.col("destination"))
    told = (
        minutes.withColumn("broker", own)
        .join(saturated, on=["broker", "role", "minute"], how="left")
        .join(out, on=["source", "role", "minute"], how="left")
        .join(into, on=["destination", "role", "minute"], how="left")
    )
    seconds = F.sum(F.bit_count("active"))
    at_once = F.coalesce(F.bit_count(F.col("active").bitwiseAND(F.col("saturated"))), F.lit(0))
    return told.groupBy(*END, "number").agg(
        (F.sum(at_once) / seconds).alias("held_share"),
        (F.sum(_crowd("out")) / seconds).alias("destinations"),
        (F.sum(_crowd("into")) / seconds).alias("sources"),
    )


def _crowd(links: str) -> Column:
    """Sum up, over a minute's active seconds, how many links were active in each of them."""
    active = F.col("active")
    return F.aggregate(links, F.lit(0), lambda so_far, link: so_far + F.bit_count(active.bitwiseAND(link)))


def _by_offsets(found: DataFrame) -> DataFrame:
    """Match times behind of both ends that are about the same offsets. Of each match those of the end that saw more
    bytes stay (else the follower's, which is nearer to what arrived), with `leader_share` and `follower_share` as each
    side saw it."""
    by_offset = Window.partitionBy(*REPLICA).orderBy("from_offset", "to_offset", "role", "number")
    reached = F.max("to_offset").over(by_offset.rowsBetween(Window.unboundedPreceding, -1))
    apart = F.coalesce(F.col("from_offset") > reached, F.lit(True)).cast("int")
    so_far = by_offset.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    islands = found.withColumn("apart", apart).withColumn("island", F.sum("apart").over(so_far))
    island = Window.partitionBy(*REPLICA, "island")
    seen = F.struct(
        F.sum("bytes").over(Window.partitionBy(*REPLICA, "island", "role")).alias("bytes"),
        (F.col("role") == "follower").alias("follows"),
    )
    leads, follows = F.col("role") == "leader", F.col("role") == "follower"

    def by_side(side: Column, name: str) -> Column:
        weight = F.sum(F.when(side, F.col("seconds"))).over(island)
        return F.sum(F.when(side, F.col(name) * F.col("seconds"))).over(island) / weight

    told = islands.withColumn("seen", seen).select(
        "*",
        F.max("seen").over(island).alias("most"),
        by_side(leads, "held_share").alias("at_leader"),
        by_side(follows, "held_share").alias("at_follower"),
        by_side(leads, "destinations").alias("at_leader_destinations"),
        by_side(follows, "sources").alias("at_follower_sources"),
    )
    own, nothing = F.col("held_share"), F.lit(0.0)
    return told.where(F.col("seen") == F.col("most")).withColumns(
        {
            "leader_share": F.when(leads, own).otherwise(F.coalesce("at_leader", nothing)),
            "follower_share": F.when(follows, own).otherwise(F.coalesce("at_follower", nothing)),
            "destinations": F.coalesce("at_leader_destinations", "destinations"),
            "sources": F.coalesce("at_follower_sources", "sources"),
        }
    )


def _bound() -> Column:
    """Return whose quota set the pace, and whether others had a part of it."""
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
    """Return per broker, role and second whether the quota sets the pace."""
    in_order = Window.partitionBy("broker", "role").orderBy("time")
    seconds = with_limit(per_second(traffic, LEVELS["broker"]), events)
    # A quota that is only observed holds nobody up: to the pace it is none.
    seconds = seconds.withColumn("limit", F.when(F.col("enforce"), F.col("limit")).otherwise(UNLIMITED))
    # In the second in which a quota is raised, the higher one does not set the pace yet: the lower one counts.
    seconds = seconds.withColumn("limit", F.least("limit", F.lag("limit").over(in_order)))
    # Seconds without a quota are left out: what moved in them says nothing of the pace under the quota that came.
    limited = F.col("limit") < UNLIMITED
    recent = in_order.rangeBetween(1 - PACE_SECONDS, Window.currentRow)
    under_quota, limit = F.when(limited, F.col("bytes")), F.when(limited, F.col("limit"))
    bytes_moved, quota = F.sum(under_quota).over(recent), F.sum(limit).over(recent)

    def moved(share: float) -> Column:
        # Not by a division: a quota may be 0, and then it sets the pace, too.
        return bytes_moved >= share * quota

    held_back = F.sum("omitted").over(recent) > 0
    # Under kip73 one fetch brings several seconds' worth. If another one as large would not fit, the quota sets the
    # pace.
    no_room = bytes_moved + F.max(under_quota).over(recent) > quota
    saturated = limited & (moved(SATURATED) | (moved(HELD_BACK) & (held_back | no_room)))
    return seconds.select("broker", "role", "time", F.coalesce(saturated, F.lit(False)).alias("saturated"))


def by_source(found: DataFrame, sizes: DataFrame) -> DataFrame:
    """Return per source MoveRatio (data to move over data on the source) and MoveTime (until its last move was
    finished).

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
        found.select("source", "topic", "partition").distinct()
        .join(sizes, on=["source", "topic", "partition"], how="left")
        .groupBy("source").agg(F.sum("size_bytes").alias("to_move_bytes"))
    )  # fmt: skip
    ratio = F.try_divide("to_move_bytes", "data_bytes").alias("move_ratio")
    joined = moved.join(data_to_move, on="source", how="left").join(held, on="source", how="left")
    return joined.select("source", "partitions", "to_move_bytes", "data_bytes", ratio, "moved_bytes", "move_seconds",
                         "finished").orderBy("source")  # fmt: skip
