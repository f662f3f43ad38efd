"""The lag of replicas: SumReplicaLag over time, progress, when it ends, and why it does not.

DataFrame → DataFrame. A partition has lines only when there is news, so its lag is carried on until its next line, for
at most `HELD_SECONDS`: a replica that is behind has news every second. Invariant: at any time the sum is over what each
replica's last line said. A grid of partitions times seconds is never built.
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
    from pyspark.sql.window import WindowSpec

    from ..tables import Tables

HELD_SECONDS = 30
"""A replica that was behind and is silent for longer than this is gone: its connection, its leader, or the replica
itself."""
TREND_SECONDS = 60
LOOKS_BACK_SECONDS = TREND_SECONDS + HELD_SECONDS
"""The seconds before a second whose lines its lag and its trend may depend on: the trend's seconds, and the lag carried
into them."""
MIN_TREND_SECONDS = 10
Z_95 = 1.96


def per_replica(traffic: DataFrame) -> DataFrame:
    """Return one row per replica and second with a line: `lag` in messages, and what it was before, 0 if it was gone.

    A follower's replica is the same whichever leader it fetches from; a leader has one per follower.
    """
    keyed = traffic.withColumn("replica", F.when(F.col("role") == "leader", F.col("peer")).otherwise(""))
    key = (*ROLE, "replica", "topic", "partition")
    # Rows are shuffled once, by replica, so that a second and those around it are in one place.
    keyed = keyed.select(*key, "time", "fetch_offset", "high_watermark", "in_sync", "record_bytes").repartition(*key)
    # In the second in which a replica catches up it has two lines; the one with the higher offset is the later one.
    seconds = keyed.groupBy(*key, "time").agg(
        F.max("fetch_offset").alias("fetch_offset"),
        F.max("high_watermark").alias("high_watermark"),
        F.bool_or("in_sync").alias("in_sync"),
        F.sum("record_bytes").alias("record_bytes"),
    )
    lag = F.when(F.col("in_sync") | (F.col("high_watermark") < 0), 0).otherwise(
        F.greatest(F.col("high_watermark") - F.col("fetch_offset"), F.lit(0))
    )
    in_order = Window.partitionBy(*key).orderBy("time")
    return seconds.withColumn("lag", lag).select(
        *key, "time", "in_sync", "record_bytes", "fetch_offset", "high_watermark", "lag",
        *(F.lag(name).over(in_order).alias(f"{name}_before")
          for name in ("time", "lag", "fetch_offset", "high_watermark")),
        F.lead("time").over(in_order).alias("time_after"),
    )  # fmt: skip


def sum_replica_lag(replicas: DataFrame) -> DataFrame:
    """Return per broker, role and second with any news `lag` (messages, summed), `behind` (replicas), and of that
    second `moved` and `written` (messages), `record_bytes`, `lost` (replicas behind that fell silent)."""
    return added_up(_steps(replicas))


def steps_by_day(replicas: DataFrame) -> DataFrame:
    """Return per broker, role, second and `day` of the lines that say so by how much `lag` and `behind` change, and the
    rest as `sum_replica_lag` says it. A replica may fall silent on the day after its last line."""
    return _summed(_steps(replicas), "day")


def added_up(steps: DataFrame) -> DataFrame:
    """Return `sum_replica_lag` from its steps, in however many rows those of a second are."""
    so_far = Window.partitionBy(*ROLE).orderBy("time").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return _summed(steps).select(
        *ROLE, "time", F.sum("lag").over(so_far).alias("lag"), F.sum("behind").over(so_far).alias("behind"),
        "moved", "written", "record_bytes", "lost",
    )  # fmt: skip


def _summed(steps: DataFrame, *more: str) -> DataFrame:
    names = ("lag", "behind", "moved", "written", "record_bytes", "lost")
    return steps.groupBy(*ROLE, *more, "time").agg(*(F.sum(name).alias(name) for name in names))


def _steps(replicas: DataFrame) -> DataFrame:
    was_held = F.col("time") - F.col("time_before") <= HELD_SECONDS
    before = F.when(was_held, F.col("lag_before")).otherwise(0)
    # After a silence, what passed unseen has no bytes from which the size of a message could be told, so it is not
    # counted.
    was_behind = was_held & (F.col("lag_before") > 0)
    step = F.struct(
        "time",
        (F.col("lag") - F.coalesce(before, F.lit(0))).alias("lag"),
        ((F.col("lag") > 0).cast("int") - F.coalesce((before > 0).cast("int"), F.lit(0))).alias("behind"),
        F.when(was_behind, _growth("fetch_offset")).otherwise(0).alias("moved"),
        F.when(was_behind, _growth("high_watermark")).otherwise(0).alias("written"),
        F.when(F.col("in_sync"), 0).otherwise(F.col("record_bytes")).alias("record_bytes"),
        F.lit(0).alias("lost"),
    )
    falls_silent = (F.col("lag") > 0) & (
        F.col("time_after").isNull() | (F.col("time_after") - F.col("time") > HELD_SECONDS)
    )
    end = F.struct(
        (F.col("time") + HELD_SECONDS).alias("time"),
        (-F.col("lag")).alias("lag"),
        F.lit(-1).alias("behind"),
        *(F.lit(0).cast("long").alias(name) for name in ("moved", "written", "record_bytes")),
        F.lit(1).alias("lost"),
    )
    day = F.floor(F.col("time") / DAY_SECONDS).alias("day")
    return replicas.select(*ROLE, day, F.inline(F.when(falls_silent, F.array(step, end)).otherwise(F.array(step))))


def _growth(name: str) -> Column:
    return F.greatest(F.coalesce(F.col(name) - F.col(f"{name}_before"), F.lit(0)), F.lit(0))


def progress(lag: DataFrame, events: DataFrame | None = None) -> DataFrame:
    """Add `done` (0 to 1: messages moved since nothing lagged, as a share of these and the lag) and `remaining_bytes`.
    Add from the last minute `drain` (messages per second by which the lag shrinks; null: not known yet),
    `drain_error` (its standard error; null with two rows), and `eta_seconds`, `eta_low`, `eta_high` (95 %). If `drain`
    is known and `eta_seconds` is null, it never ends at this rate.

    Where replicas are lost, `done` and the three times are null: the lag did not become less by their catching up.

    events: have the quotas, so that a trend from before a change of quota says nothing of what comes after it.
    """
    before = Window.partitionBy(*ROLE).orderBy("time").rowsBetween(Window.unboundedPreceding, -1)
    so_far = (
        Window.partitionBy(*ROLE, "episode").orderBy("time").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    steady = Window.partitionBy(*ROLE, "episode", "quota_since").orderBy("time")
    recent = steady.rangeBetween(1 - TREND_SECONDS, Window.currentRow)
    moved, moved_bytes = F.sum("moved").over(so_far), F.sum("record_bytes").over(so_far)
    caught_up = F.sum((F.col("lag") == 0).cast("int")).over(before)
    with_trend = (
        _since_change(lag, events)
        .withColumn("episode", F.coalesce(caught_up, F.lit(0)))
        .select(
            "*",
            F.when(F.col("lost") == 0, F.try_divide(moved, moved + F.col("lag"))).alias("done"),
            (F.col("lag") * F.try_divide(moved_bytes, moved)).alias("remaining_bytes"),
            F.when(
                F.col("time") - F.min("time").over(recent) >= MIN_TREND_SECONDS,
                0.0 - F.regr_slope("lag", "time").over(recent),
            ).alias("drain"),
            _slope_error(recent).alias("drain_error"),
        )
    )
    return with_trend.select(
        *lag.columns, "done", "remaining_bytes", "drain", "drain_error",
        _eta(F.col("drain")).alias("eta_seconds"),
        _eta(F.col("drain") + Z_95 * F.col("drain_error")).alias("eta_low"),
        _eta(F.col("drain") - Z_95 * F.col("drain_error")).alias("eta_high"),
    )  # fmt: skip


def _since_change(lag: DataFrame, events: DataFrame | None) -> DataFrame:
    """Add `quota_since`: when the quota became what it is. The second of the change belongs to what was before."""
    if events is None:
        return lag.withColumn("quota_since", F.lit(None).cast("long"))
    held = with_period(lag, periods(events), F.col("time") - 1)
    return held.select(*lag.columns, F.col("period.since").alias("quota_since"))


def _slope_error(recent: WindowSpec) -> Column:
    """Return the standard error of a least-squares slope: sqrt((Syy - Sxy²/Sxx) / (n - 2) / Sxx)."""
    xx, yy = F.regr_sxx("lag", "time").over(recent), F.regr_syy("lag", "time").over(recent)
    xy = F.regr_sxy("lag", "time").over(recent)
    degrees = F.regr_count("lag", "time").over(recent) - 2
    residual = F.greatest(yy - F.try_divide(xy * xy, xx), F.lit(0.0))
    return F.when(degrees > 0, F.sqrt(F.try_divide(F.try_divide(residual, degrees), xx)))


def _eta(drain: Column) -> Column:
    left = F.when(F.col("lag") == 0, 0.0).when(drain > 0, F.col("lag") / drain)
    return F.when(F.col("lost") == 0, left)


def stalls(progress_rows: DataFrame, link_seconds: DataFrame, events: DataFrame) -> DataFrame:
    """Return the seconds in which replicas are behind and the lag does not shrink, with the cause."""
    throttled = with_limit(per_second(link_seconds, LEVELS["broker"]), events)
    recent = Window.partitionBy(*ROLE).orderBy("time").rangeBetween(1 - TREND_SECONDS, Window.currentRow)
    inflow = throttled.select(
        *ROLE, "time", "limit", "enforce",
        F.avg("bytes").over(recent).alias("rate"),
        F.sum("omitted").over(recent).alias("omitted"),
        F.sum("fetches").over(recent).alias("fetches"),
        F.avg("in_sync_bytes").over(recent).alias("in_sync_rate"),
    )  # fmt: skip
    fell_behind = F.col("behind") - F.min("behind").over(recent)
    known = progress_rows.withColumn("fell_behind", fell_behind)
    stalled = known.where((F.col("lag") > 0) & (F.col("drain") <= 0)).select(
        *ROLE, "time", "lag", "behind", "drain", "fell_behind",
        F.sum("written").over(recent).alias("written"), F.sum("record_bytes").over(recent).alias("recent_bytes"),
        F.sum("moved").over(recent).alias("recent_moved"),
    )  # fmt: skip
    found = stalled.join(inflow, on=[*ROLE, "time"], how="left").withColumn("cause", _cause())
    return found.drop("enforce", "fetches", "fell_behind")


def _cause() -> Column:
    """Return the cause of a stall, or that nothing in the journals explains it."""
    held_back = F.coalesce(F.col("omitted") > 0, F.lit(False))
    moves, outrun = F.col("recent_moved") > 0, F.col("written") >= F.col("recent_moved")
    return (
        F.when(F.col("enforce") & (F.col("limit") == 0), "the quota is 0")
        .when(held_back & (F.col("in_sync_rate") >= 0.9 * F.col("limit")), "in-sync traffic takes the whole quota")
        .when(held_back & moves & outrun, "the quota is no more than what producers write")
        .when(moves & outrun, "producers write more than the link brings")
        .when(moves & (F.col("fell_behind") > 0), "more replicas fell behind meanwhile")
        .when(held_back & ~moves, "held back, and nothing moves")
        .when(~moves & (F.col("fetches") > 0), "asked for, and nothing comes: the other side withholds it")
        .when(~moves, "nobody asks for it")
        .otherwise("the journals do not say why")
    )


SUMMARY = Summary("lag_steps", lambda traffic: per_replica(traffic.where("throttled")), steps_by_day)


def of_tables(tables: Tables) -> DataFrame:
    """Return `progress` of throttled replicas, without reading each second of the days that are kept."""
    return progress(added_up(read_summary(tables, SUMMARY)), tables.events)


def stalls_by_cause(found: DataFrame) -> DataFrame:
    """Return per broker, role and cause how many `seconds` of `stalls` there are, and the `first`."""
    rows = found.groupBy(*ROLE, "cause").agg(F.count("*").alias("seconds"), F.min("time").alias("first"))
    return rows.orderBy(F.desc("seconds"), *ROLE, "cause")
