"""Moves: which replicas caught up, from where, how long it took, and which side's quota set the pace.

DataFrame → DataFrame. A *move* is one replica's time behind, from its first second behind to its first in sync, told by
each end by its own clock (`ends`); what both tell of the same offsets is one move, and the end that saw more bytes
tells it. MoveRatio and MoveTime are KIP-73's. Invariant: a replica's moves do not overlap; one that fell silent while
behind is there too, as not finished; a move's bytes are those that its end's journal has of it, to the byte.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from journal_schema import LINE_SECONDS

from .ends import END, REPLICA, one_end, seconds_of_ends
from .lag import HELD_SECONDS
from .quotas import ROLE, UNLIMITED, with_limit
from .rates import LEVELS, per_second

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.window import WindowSpec

MOVE = REPLICA
SATURATED, HELD_BACK = 0.9, 0.7
"""Of the quota, over KIP-73's window: a role that moves as much is held by it; one that moves somewhat less, too, if it
left anything out meanwhile. Moves begin slowly, and a fetch of a single partition waits and leaves nothing out."""
PACE_SECONDS = 11
MOSTLY = 0.5
BITS = 60
"""Seconds of a minute: each is a bit of a number."""


def episodes(ends: DataFrame) -> DataFrame:
    """Number each end's times behind of a replica: its seconds behind and the one that ended each, with `active` (it
    is one of those behind), `caught_up`, and `moved`, the bytes that count.

    A replica counts as in sync on a connection on which nothing is known of it yet, so that its first answers are in a
    line in sync though it is behind: such a *contact* belongs to the move. It is told by what comes next, since its
    offsets are interpolated up to where it was in sync for good.
    """
    in_order = Window.partitionBy(*END).orderBy("time")
    told = ends.select("*", *_neighbours(in_order))
    new = F.col("gap").isNull() | (F.col("gap") > HELD_SECONDS)
    soon_behind = F.coalesce((F.col("next_gap") <= LINE_SECONDS) & F.col("next_behind"), F.lit(False))
    goes_back = soon_behind & (F.col("next_behind_offset") < F.col("sync_offset"))
    was_behind = F.coalesce(~new & F.col("before_behind"), F.lit(False))
    reconnects = was_behind & (F.col("sync_offset") < F.col("before_watermark"))
    unknown = new & (F.col("sync_offset") < F.col("sync_watermark"))
    contact = F.col("in_sync") & soon_behind & (goes_back | unknown | reconnects)
    caught_up = F.col("behind") & F.col("in_sync") & ~goes_back & (F.col("sync_offset") >= F.col("behind_watermark"))
    all_counts = contact | (F.col("in_sync") & (new | (was_behind & ~caught_up)))
    marked = told.select(
        *END, "time", "fetch_offset_before", "fetch_offset", "fetch_offset_reached", "high_watermark",
        (F.col("behind") | contact).alias("active"),
        F.coalesce(caught_up, F.lit(False)).alias("caught_up"),
        F.when(all_counts, F.col("bytes")).otherwise(F.col("behind_bytes")).alias("moved"),
        (F.col("gap") <= HELD_SECONDS).alias("follows"),
    )  # fmt: skip
    goes_on = F.col("active") & ~F.col("caught_up")
    was_open = F.coalesce(F.lag(goes_on).over(in_order) & F.col("follows"), F.lit(False))
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    opened = marked.withColumn("was_open", was_open)
    begins = F.col("active") & ~F.col("was_open")
    return opened.withColumn("number", F.sum(begins.cast("int")).over(so_far)).where("active or was_open")


def _neighbours(in_order: WindowSpec) -> tuple[Column, ...]:
    return (
        (F.col("time") - F.lag("time").over(in_order)).alias("gap"),
        F.lag("behind").over(in_order).alias("before_behind"),
        F.lag("behind_watermark").over(in_order).alias("before_watermark"),
        (F.lead("time").over(in_order) - F.col("time")).alias("next_gap"),
        F.lead("behind").over(in_order).alias("next_behind"),
        F.lead("behind_offset").over(in_order).alias("next_behind_offset"),
    )


def moves(traffic: DataFrame, events: DataFrame, link_seconds: DataFrame | None = None) -> DataFrame:
    """One row per move: `began`, `seconds` (MoveTime), `finished`, `bytes`, `bytes_per_second`, `bound` and, of its
    seconds, the shares in which the leader's and the follower's quota set the pace; `seen_by` is the end whose clock
    and bytes these are. Each side's share is by its own clock. `backlog_bytes` is what there was to bring when it
    began, and `written_bytes` what was written meanwhile.

    link_seconds: the table that is exact in every second; without it what `traffic` says of a second has to do.
    """
    rows = episodes(seconds_of_ends(traffic.where("throttled")))
    pace = saturation(traffic if link_seconds is None else link_seconds, events)
    return _told(_summed(rows).join(_paces(_minutes(rows), pace), on=[*END, "number"], how="left"))


def catch_ups(traffic: DataFrame) -> DataFrame:
    """The same moves without what set their pace, which is most of the work."""
    nobodys = {"held_share": F.lit(0.0), "destinations": F.lit(1.0), "sources": F.lit(1.0)}
    return _told(_summed(episodes(seconds_of_ends(traffic.where("throttled")))).withColumns(nobodys))


def _told(found: DataFrame) -> DataFrame:
    seen = _by_offsets(found).select(
        *MOVE, "began", "seconds", "finished", "bytes",
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
    # One that fell silent and went on later is a move again, which has the rest.
    goes_on = F.lead("began").over(Window.partitionBy(*MOVE).orderBy("began")).isNotNull()
    brought = F.greatest(F.col("bytes") - written, F.lit(0.0))
    backlog = F.when(F.col("finished") | goes_on, brought).otherwise(F.col("backlog") * each)
    told = seen.withColumns({"backlog_bytes": backlog, "written_bytes": written})
    return told.drop("messages", "backlog", "written")


def _summed(rows: DataFrame) -> DataFrame:
    """One row per end and time behind."""
    active = F.col("active")
    known = F.when(active & (F.col("high_watermark") >= 0), F.col("time"))
    summed = rows.groupBy(*END, "number").agg(
        F.min("time").alias("began"),
        F.max("time").alias("ended"),
        F.bool_or(F.col("caught_up") | ~active).alias("finished"),
        F.sum(F.when(active, F.col("moved"))).alias("bytes"),
        F.min("fetch_offset_before").alias("from_offset"),
        F.max("fetch_offset_reached").alias("to_offset"),
        F.min_by("high_watermark", known).alias("from_watermark"),
        F.max_by("high_watermark", known).alias("to_watermark"),
    )
    seconds = F.col("ended") - F.col("began") + F.when(F.col("finished"), 0).otherwise(1)
    return summed.withColumn("seconds", F.greatest(seconds, F.lit(1)))


def _minutes(rows: DataFrame) -> DataFrame:
    """One row per end, time behind and minute: `active`, a bit for each of its seconds. What is asked of ends together
    is asked of these: a sixtieth of the rows, exact to the second."""
    minute = F.floor(F.col("time") / BITS).alias("minute")
    return rows.where("active").groupBy(*END, "number", minute).agg(F.bit_or(_bit()).alias("active"))


def _bit() -> Column:
    second = F.pmod(F.col("time"), F.lit(BITS)).cast("int")
    return F.call_function("shiftleft", F.lit(1).cast("long"), second)


def _paces(minutes: DataFrame, pace: DataFrame) -> DataFrame:
    """Per end and time behind: `held_share` of its seconds, in which its own side's quota set the pace, and how many
    `destinations` its source and how many `sources` its destination had in the mean of them, this one among them."""
    held = pace.where("saturated").groupBy(*ROLE, F.floor(F.col("time") / BITS).alias("minute"))
    saturated = held.agg(F.bit_or(_bit()).alias("saturated")).withColumn("broker", F.col("broker").cast("string"))
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
    """Of a minute's active seconds the sum of how many links were active in each."""
    active = F.col("active")
    return F.aggregate(links, F.lit(0), lambda so_far, link: so_far + F.bit_count(active.bitwiseAND(link)))


def _by_offsets(found: DataFrame) -> DataFrame:
    """Of times behind at both ends that are about the same offsets: those of the end that saw more bytes (else the
    follower's, which is nearer to what arrived), with `leader_share` and `follower_share`, each as that side saw it."""
    by_offset = Window.partitionBy(*MOVE).orderBy("from_offset", "to_offset", "role", "number")
    reached = F.max("to_offset").over(by_offset.rowsBetween(Window.unboundedPreceding, -1))
    apart = F.coalesce(F.col("from_offset") > reached, F.lit(True)).cast("int")
    so_far = by_offset.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    islands = found.withColumn("apart", apart).withColumn("island", F.sum("apart").over(so_far))
    island = Window.partitionBy(*MOVE, "island")
    seen = F.struct(
        F.sum("bytes").over(Window.partitionBy(*MOVE, "island", "role")).alias("bytes"),
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
        found.select("source", "topic", "partition").distinct()
        .join(sizes, on=["source", "topic", "partition"], how="left")
        .groupBy("source").agg(F.sum("size_bytes").alias("to_move_bytes"))
    )  # fmt: skip
    ratio = F.try_divide("to_move_bytes", "data_bytes").alias("move_ratio")
    joined = moved.join(data_to_move, on="source", how="left").join(held, on="source", how="left")
    return joined.select("source", "partitions", "to_move_bytes", "data_bytes", ratio, "moved_bytes", "move_seconds",
                         "finished").orderBy("source")  # fmt: skip


def partition_sizes(traffic: DataFrame) -> DataFrame:
    """Per source, topic and partition: `size_bytes`, messages in the leader's log by the bytes that a message took, and
    `last_seen`, the last second in which that broker was seen to lead it.

    A partition whose bytes per message were never seen has the average of all. What a message took is what was brought
    over the offsets that it was brought for: each offset counts once, and those that passed unseen do not.
    """
    seconds = one_end(traffic)
    in_order = Window.partitionBy(*MOVE).orderBy("time").rowsBetween(Window.unboundedPreceding, -1)
    from_there = F.greatest("fetch_offset_before", F.max("fetch_offset_reached").over(in_order))
    steps = seconds.withColumn("messages", F.greatest(F.col("fetch_offset_reached") - from_there, F.lit(0)))
    log = F.when(F.col("high_watermark") >= 0, F.col("high_watermark") - F.greatest("log_start_offset", F.lit(0)))
    partitions = steps.groupBy("source", "topic", "partition").agg(
        F.max_by(log, "time").alias("log_messages"),
        F.sum("bytes").alias("bytes"),
        F.sum("messages").alias("messages"),
        F.max("time").alias("last_seen"),
    )
    everywhere = partitions.where("messages > 0").agg(F.try_divide(F.sum("bytes"), F.sum("messages")).alias("average"))
    each = F.coalesce(F.try_divide("bytes", "messages"), "average")
    return partitions.crossJoin(F.broadcast(everywhere)).select(
        "source", "topic", "partition", each.alias("bytes_per_message"),
        (F.col("log_messages") * each).alias("size_bytes"), "last_seen",
    )  # fmt: skip
