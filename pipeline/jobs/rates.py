"""Rates: bytes per second, over KIP-73's window by the sidecar's own arithmetic, and the inflow of brokers in sync.

DataFrame → DataFrame. Only what the journals saw is in it. Invariant: `kip73_rate` is what
`admission.simple_rate.SimpleRate` gives if each second's bytes are recorded at its beginning and the rate is measured
at its end; a test holds the two equal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from ..tables import accounted_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

WINDOW_SECONDS = 11
"""replication.quota.window.num samples of a second, Kafka's default."""
LEVELS = {
    "broker": ("broker", "role"),
    "peer": ("broker", "role", "peer"),
    "topic": ("broker", "role", "topic"),
    "partition": ("broker", "role", "topic", "partition"),
}
OF_LINKS = ("broker", "peer")
"""Levels that the seconds table has, exactly."""
BUSIEST = 0.95
"""The share of minutes that an inflow is not exceeded in: a quota has to hold in all but the busiest few."""


def per_second(
    rows: DataFrame, by: Sequence[str], *, throttled_only: bool = True, with_runs: bool = False
) -> DataFrame:
    """Sum up rows of the traffic or of the seconds table `by` those columns and `time`: `bytes` (as the role's quota
    counts them), `in_sync_bytes`, `record_bytes`, `fetches`, `omitted`. A second without a row has none here.

    with_runs: add `runs_overlap`, whether more than one run of a sidecar tells of that second.
    """
    counted = accounted_bytes()
    overlap = (F.min("run") != F.max("run")).alias("runs_overlap")
    return (
        (rows.where("throttled") if throttled_only else rows)
        .groupBy(*by, "time")
        .agg(
            F.sum(counted).alias("bytes"),
            F.sum(F.when(F.col("in_sync"), counted).otherwise(0)).alias("in_sync_bytes"),
            *(F.sum(name).alias(name) for name in ("record_bytes", "fetches", "omitted")),
            *([overlap] if with_runs else []),
        )
    )


def windowed(seconds: DataFrame, by: Sequence[str]) -> DataFrame:
    """Add `kip73_rate`, bytes per second over KIP-73's window at the end of each second that moved bytes.

    SimpleRate has one slot more than it has samples, and uses them in turns. A slot is as old as the second that it
    holds. A slot that has expired is set to zero and used anew, but it may still count as the oldest; so it happens
    again every `WINDOW_SECONDS`. The second right after such a restart goes into the same slot, not into the next one.
    """
    in_order = Window.partitionBy(*by).orderBy("time")
    gap = F.col("time") - F.lag("time").over(in_order)
    following = F.lead("time").over(in_order) - F.col("time")
    takes_next = F.when(gap % WINDOW_SECONDS == 0, 0).otherwise(1)
    slots = Window.partitionBy(*by).orderBy("slot").rangeBetween(-WINDOW_SECONDS, -1)
    moved = in_order.rangeBetween(2 - WINDOW_SECONDS, Window.currentRow)
    now = F.col("time") + 1
    return (
        seconds.where(F.col("bytes") > 0)
        .withColumn("slot", F.sum(takes_next).over(in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)))
        .withColumn("kept", F.when(following.isNull() | (following % WINDOW_SECONDS != 0), F.col("time")))
        .withColumn("starts", F.array_append(F.collect_list("kept").over(slots), F.col("time")))
        .withColumn("age", F.array_max(F.transform("starts", lambda start: (now - start) % WINDOW_SECONDS)))
        .withColumn("kip73_rate", F.sum("bytes").over(moved) / F.greatest("age", F.lit(1)))
        .drop("slot", "kept", "starts", "age")
    )


def inflow(traffic: DataFrame) -> DataFrame:
    """Return per broker `inflow_bytes_per_second`, what it fetched while in sync, in all but its busiest minutes: below
    it no quota lets catching up end (KIP-73).

    Minutes are counted from the first second in which it fetched anything to the last such second. The last minute
    counts with the length that it has, and one in which nothing came as nothing: rows do not tell an idle broker from a
    sidecar that did not run.

    traffic: rows of the traffic or, exact in every second, of the seconds table.
    """
    of_broker = Window.partitionBy("broker")
    fetched = _fetched(traffic).withColumns(
        {"first": F.min("time").over(of_broker), "last": F.max("time").over(of_broker)}
    )
    minute = F.floor((F.col("time") - F.col("first")) / 60)
    in_all = F.max("last") - F.max("first") + 1
    length = F.least(F.lit(60), in_all - 60 * F.col("minute"))
    minutes = (
        fetched.withColumn("minute", minute)
        .groupBy("broker", "minute")
        .agg((F.sum("bytes") / length).alias("rate"), F.ceil(in_all / 60).alias("in_all"))
    )
    one = F.struct("rate", F.lit(1).cast("long").alias("minutes"))
    silent = F.struct(F.lit(0.0).alias("rate"), (F.max("in_all") - F.count("*")).alias("minutes"))
    told = minutes.groupBy("broker").agg(F.array_append(F.collect_list(one), silent).alias("rates"))
    each = told.select("broker", F.inline("rates")).where("minutes > 0")
    return each.groupBy("broker").agg(
        F.percentile("rate", F.lit(BUSIEST), F.col("minutes")).alias("inflow_bytes_per_second")
    )


def _fetched(traffic: DataFrame) -> DataFrame:
    """Return per broker and second the `bytes` that it fetched in sync: as its own sidecar tells, or, where that
    records no fetches, as the sidecars of its leaders do, as far as these are there."""
    leads = F.col("role") == "leader"
    fetcher = F.when(leads, F.expr("try_cast(peer as bigint)")).otherwise(F.col("broker"))
    size = F.when(F.col("in_sync"), F.col("record_bytes")).otherwise(0)
    seconds = traffic.groupBy(fetcher.alias("broker"), (~leads).alias("own"), "time").agg(F.sum(size).alias("bytes"))
    best = F.max("own").over(Window.partitionBy("broker"))
    known = seconds.where("broker is not null").withColumn("best", best)
    return known.where(F.col("own") == F.col("best"))
