"""The lag of replicas: SumReplicaLag over time, in messages and in bytes, how fast it shrinks, and why it does not.

DataFrame → DataFrame; when it ends `questions.will_it_finish` says. A partition has lines only when there is news, so
its lag is carried on until its next line, for at most `HELD_SECONDS`: a replica that is behind has news every second.
Invariant: at any time the sum is over what each replica's last line said; one that 64 bits do not hold is null, not an
error. A grid of partitions times seconds is never built.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from ..tables.daily_summaries import DAY_SECONDS, Summary, read_summary
from .quotas import ROLE, periods, with_limit, with_period
from .rates import LEVELS, per_second

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from ..tables import Tables
    from ..tables.scope import Scope

STATE, OF_SECOND = ("lag", "lag_bytes", "behind", "unsized"), ("record_bytes", "written_bytes", "lost")
"""Columns of what holds from a second on, and of what happened in it."""
MIN_SECONDS = 10
"""The least seconds since a change from which on a pace is known."""
MOST = 1 << 53
"""The most bytes that a replica is said to lack: the largest number that a line may have (`parse_lines`)."""
HELD_SECONDS = 30
"""A replica that was behind and is silent for longer than this is gone: its connection, its leader, or the replica
itself."""
PACE_SECONDS = 60
"""The seconds over which a pace and the size of messages reach back, if nothing changed."""
LOOKS_BACK_SECONDS = PACE_SECONDS + HELD_SECONDS
"""The seconds before a second whose lines its lag and its pace may depend on: the pace's seconds, and the lag carried
into them."""


def per_replica(traffic: DataFrame) -> DataFrame:
    """Return one row per replica and second with a line: `lag` in messages, the `size` of one (null: not known), and
    what was before.

    A follower's replica is the same whichever leader it fetches from; a leader has one per follower.
    """
    follower = F.when(F.col("role") == "leader", F.col("peer")).otherwise("")
    # By a number rows are compared and sorted in half the time; of 10^5 replicas two share one once in 10^9 clusters.
    replica = F.xxhash64(*ROLE, follower, "topic", "partition").alias("replica")
    offsets = ("fetch_offset_before", "fetch_offset", "high_watermark")
    # Rows are shuffled once, by replica, so that a second and those around it are in one place.
    keyed = traffic.select(replica, *ROLE, "time", *offsets, "in_sync", "record_bytes").repartition("replica")
    # In the second in which a replica catches up it has two lines; the one with the higher offset is the later one.
    seconds = keyed.groupBy("replica", *ROLE, "time").agg(
        F.max("fetch_offset").alias("fetch_offset"),
        F.max("high_watermark").alias("high_watermark"),
        F.bool_or("in_sync").alias("in_sync"),
        F.try_sum("record_bytes").alias("record_bytes"),
        F.try_sum(F.greatest(F.col("fetch_offset") - F.col("fetch_offset_before"), F.lit(0))).alias("messages"),
    )
    lag = F.when(F.col("in_sync") | (F.col("high_watermark") < 0), 0).otherwise(
        F.greatest(F.col("high_watermark") - F.col("fetch_offset"), F.lit(0))
    )
    in_order = Window.partitionBy("replica").orderBy("time")
    # A frame that slides is added up anew for each row, one that grows is not.
    so_far = in_order.rangeBetween(Window.unboundedPreceding, Window.currentRow)
    before = in_order.rangeBetween(Window.unboundedPreceding, -PACE_SECONDS)

    def recent(column: Column) -> Column:
        return F.try_sum(column).over(so_far) - F.coalesce(F.try_sum(column).over(before), F.lit(0))

    # A second has few messages, if they are large: its own quotient would be a guess.
    moved = F.when(F.col("messages") > 0, F.col("record_bytes")).otherwise(0)
    size = F.try_divide(recent(moved), recent(F.col("messages")))
    sized = seconds.withColumns({"lag": lag, "size": F.when(size > 0, size)})
    last = ("time", "lag", "lag_bytes", "high_watermark")
    return sized.withColumn("lag_bytes", _bytes(F.col("lag"))).select(
        *ROLE, "time", "in_sync", "record_bytes", "high_watermark", "lag", "size", "lag_bytes",
        *(F.lag(name).over(in_order).alias(f"{name}_before") for name in last),
        F.lead("time").over(in_order).alias("time_after"),
    )  # fmt: skip


def sum_replica_lag(replicas: DataFrame) -> DataFrame:
    """Return per broker, role and second with any news `lag` (messages, summed), `lag_bytes`, `behind` (replicas),
    `unsized` (those of which no message was seen, so that they are not in `lag_bytes`), and of that second
    `record_bytes` and `written_bytes` (brought to, and written to, replicas behind), `lost` (those that fell silent).
    """
    return added_up(_steps(replicas))


def steps_by_day(replicas: DataFrame) -> DataFrame:
    """Return per broker, role, second and `day` of the lines that say so by how much each of `STATE` changes, and the
    rest as `sum_replica_lag` says it. A replica may fall silent on the day after its last line."""
    return _summed(_steps(replicas), "day")


def added_up(steps: DataFrame) -> DataFrame:
    """Return `sum_replica_lag` from its steps, in however many rows those of a second are."""
    so_far = Window.partitionBy(*ROLE).orderBy("time").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    state = (F.try_sum(name).over(so_far).alias(name) for name in STATE)
    return _summed(steps).select(*ROLE, "time", *state, *OF_SECOND)


def _summed(steps: DataFrame, *more: str) -> DataFrame:
    return steps.groupBy(*ROLE, *more, "time").agg(*(F.try_sum(name).alias(name) for name in (*STATE, *OF_SECOND)))


def _steps(replicas: DataFrame) -> DataFrame:
    was_held = F.col("time") - F.col("time_before") <= HELD_SECONDS
    before = F.when(was_held, F.coalesce("lag_before", F.lit(0))).otherwise(0)
    before_bytes = F.when(was_held, F.col("lag_bytes_before"))
    was_unsized = was_held & (F.col("lag_before") > 0) & F.col("lag_bytes_before").isNull()
    is_behind, unsized = F.col("lag") > 0, (F.col("lag") > 0) & F.col("lag_bytes").isNull()
    # What was written in a silence belongs to no second.
    grown = F.greatest(F.col("high_watermark") - F.col("high_watermark_before"), F.lit(0))
    nothing = F.lit(0).cast("long")
    step = F.struct(
        "time",
        (F.col("lag") - before).alias("lag"),
        (F.coalesce("lag_bytes", nothing) - F.coalesce(before_bytes, nothing)).alias("lag_bytes"),
        (is_behind.cast("int") - (before > 0).cast("int")).alias("behind"),
        (unsized.cast("int") - F.coalesce(was_unsized, F.lit(False)).cast("int")).alias("unsized"),
        F.when(F.col("in_sync"), 0).otherwise(F.col("record_bytes")).alias("record_bytes"),
        F.coalesce(F.when(before > 0, _bytes(grown)), nothing).alias("written_bytes"),
        F.lit(0).alias("lost"),
    )
    falls_silent = is_behind & (F.col("time_after").isNull() | (F.col("time_after") - F.col("time") > HELD_SECONDS))
    end = F.struct(
        (F.col("time") + HELD_SECONDS).alias("time"), (-F.col("lag")).alias("lag"),
        (-F.coalesce("lag_bytes", nothing)).alias("lag_bytes"), F.lit(-1).alias("behind"),
        (-unsized.cast("int")).alias("unsized"), nothing.alias("record_bytes"), nothing.alias("written_bytes"),
        F.lit(1).alias("lost"),
    )  # fmt: skip
    day = F.floor(F.col("time") / DAY_SECONDS).alias("day")
    return replicas.select(*ROLE, day, F.inline(F.when(falls_silent, F.array(step, end)).otherwise(F.array(step))))


def _bytes(messages: Column) -> Column:
    """Return so many messages in whole bytes, 0 for none; null if the size of one is not known, `MOST` at most."""
    product = F.round(messages * F.col("size"))
    return F.when(messages == 0, 0).when(product < MOST, product).when(product >= MOST, MOST).cast("long")


def progress(lag: DataFrame, events: DataFrame | None = None) -> DataFrame:
    """Add `remaining_bytes` (null: not known of all replicas), `done` (0 to 1: bytes brought since nothing lagged, as a
    share of these and those remaining; null where replicas are lost), `pace`: the bytes per second by which it comes
    nearer, since the quota changed or something began to lag, in the last minute; null within ten seconds of that; and
    `since`: the second of these seconds before which it was nearest.

    events: have the quotas.
    """
    before = Window.partitionBy(*ROLE).orderBy("time").rowsBetween(Window.unboundedPreceding, -1)
    so_far = (
        Window.partitionBy(*ROLE, "episode").orderBy("time").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    since_change = Window.partitionBy(*ROLE, "episode", "quota_since").orderBy("time")
    recent = since_change.rangeBetween(1 - PACE_SECONDS, Window.currentRow)
    moved, remaining = F.try_sum("record_bytes").over(so_far), F.when(F.col("unsized") == 0, F.col("lag_bytes"))
    caught_up = F.try_sum((F.col("lag") == 0).cast("int")).over(before)
    gain = F.col("record_bytes") - F.col("written_bytes")
    net = F.try_sum(gain).over(recent)
    seconds = F.col("time") - F.min("time").over(recent)
    # How far it had come before this second, of which only differences count: as a double it never overflows.
    come = F.coalesce(
        F.sum(gain.cast("double")).over(since_change.rowsBetween(Window.unboundedPreceding, -1)), F.lit(0.0)
    )
    # Of seconds with the same the first.
    nearest = F.max(F.struct("come", (-F.col("time")).alias("before"))).over(recent)
    told = _since_change(lag, events).withColumn("episode", F.coalesce(caught_up, F.lit(0))).withColumn("come", come)
    return told.select(
        *lag.columns,
        F.when(F.col("lost") == 0, F.try_divide(moved, F.try_add(moved, remaining))).alias("done"),
        remaining.alias("remaining_bytes"),
        F.when(seconds >= MIN_SECONDS, net / (seconds + 1)).alias("pace"),
        (-nearest["before"]).alias("since"),
    ).drop("lag_bytes", "unsized")


def _since_change(lag: DataFrame, events: DataFrame | None) -> DataFrame:
    """Add `quota_since`: when the quota became what it is. The second of the change belongs to what was before."""
    if events is None:
        return lag.withColumn("quota_since", F.lit(None).cast("long"))
    held = with_period(lag, periods(events), F.col("time") - 1)
    return held.select(*lag.columns, F.col("period.since").alias("quota_since"))


def stalls(progress_rows: DataFrame, link_seconds: DataFrame, events: DataFrame) -> DataFrame:
    """Return the seconds in which replicas are behind and came no nearer over the seconds of their pace, with the
    cause, and `since` when. A stall is seen late, up to `PACE_SECONDS` after it began: all seconds from `since` on are
    of it (`stalls_by_cause`)."""
    throttled = with_limit(per_second(link_seconds, LEVELS["broker"]), events)
    recent = Window.partitionBy(*ROLE).orderBy("time").rangeBetween(1 - PACE_SECONDS, Window.currentRow)
    inflow = throttled.select(
        *ROLE, "time", "limit", "enforce",
        F.avg("bytes").over(recent).alias("rate"),
        F.sum("omitted").over(recent).alias("omitted"),
        F.sum("fetches").over(recent).alias("fetches"),
        F.avg("in_sync_bytes").over(recent).alias("in_sync_rate"),
    )  # fmt: skip
    stalled, told = (F.col("lag") > 0) & (F.col("pace") <= 0), ("lag", "behind", "pace", "since")
    # What came while it came nearer says nothing about why it does not.
    no_nearer = progress_rows.where(stalled | (F.col("since") < F.col("time"))).select(
        *ROLE, "time", *told, stalled.alias("stalled"),
        *(F.sum(name).over(recent).alias(f"recent_{name}") for name in ("record_bytes", "written_bytes")),
    )  # fmt: skip
    found = (
        no_nearer.where("stalled")
        .drop("stalled")
        .join(inflow, on=[*ROLE, "time"], how="left")
        .withColumn("cause", _cause())
    )
    return found.drop("enforce", "fetches")


def _cause() -> Column:
    """Return the cause of a stall, or that nothing in the journals explains it."""
    held_back, moves = F.coalesce(F.col("omitted") > 0, F.lit(False)), F.col("recent_record_bytes") > 0
    return (
        F.when(F.col("enforce") & (F.col("limit") == 0), "the quota is 0")
        .when(held_back & (F.col("in_sync_rate") >= 0.9 * F.col("limit")), "in-sync traffic takes the whole quota")
        .when(held_back & moves, "the quota is no more than what producers write")
        .when(moves, "producers write more than the link brings")
        .when(held_back, "held back, and nothing moves")
        .when(F.col("fetches") > 0, "asked for, and nothing comes: the other side withholds it")
        .otherwise("nobody asks for it")
    )


SUMMARY = Summary("lag_seconds", lambda traffic: per_replica(traffic.where("throttled")), steps_by_day)


def of_tables(tables: Tables) -> DataFrame:
    """Return `progress` of throttled replicas, without reading each second of the days that are kept."""
    return progress(added_up(read_summary(tables, SUMMARY)), tables.events)


def stalls_by_cause(found: DataFrame, scope: Scope) -> DataFrame:
    """Return per broker, role and cause how many `seconds` within the scope are of `stalls`, and the `first`.

    found: has the stalled seconds after the scope as well, as far as those within it are to be known (`PACE_SECONDS`).
    A second that two causes could claim is of the one that was seen first.
    """
    in_order = Window.partitionBy(*ROLE).orderBy("time")
    # `since` never goes back from one row to the next, so that these seconds are all that no earlier row has told.
    first = F.greatest(F.col("since"), F.lag("time").over(in_order) + 1)
    last = F.col("time")
    if scope.since is not None:
        first = F.greatest(first, F.lit(scope.since))
    if scope.until is not None:
        last = F.least(last, F.lit(scope.until - 1))
    spans = found.select(*ROLE, "cause", first.alias("first"), last.alias("last")).where("first <= last")
    rows = spans.groupBy(*ROLE, "cause").agg(
        F.sum(F.col("last") - F.col("first") + 1).alias("seconds"), F.min("first").alias("first")
    )
    return rows.orderBy(F.desc("seconds"), *ROLE, "cause")
