"""Rates: bytes per second, and over KIP-73's window by the sidecar's own arithmetic.

DataFrame → DataFrame. Invariant: `kip73_rate` is what `admission.simple_rate.SimpleRate` gives if each second's bytes
are recorded at its beginning and the rate is measured at its end; a test holds the two equal.
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
            F.sum("record_bytes").alias("record_bytes"),
            F.sum("fetches").alias("fetches"),
            F.sum("omitted").alias("omitted"),
            *([overlap] if with_runs else []),
        )
    )


def windowed(seconds: DataFrame, by: Sequence[str], *, window_seconds: int = WINDOW_SECONDS) -> DataFrame:
    """Add `kip73_rate`, bytes per second over KIP-73's window at the end of each second that moved bytes.

    SimpleRate has one slot more than it has samples, and uses them in turns. A slot is as old as the second that it
    holds. A slot that has expired is set to zero and used anew, but it may still count as the oldest; so it happens
    again every `window_seconds`. The second right after such a restart goes into the same slot, not into the next one.
    """
    in_order = Window.partitionBy(*by).orderBy("time")
    gap = F.col("time") - F.lag("time").over(in_order)
    following = F.lead("time").over(in_order) - F.col("time")
    takes_next = F.when(gap % window_seconds == 0, 0).otherwise(1)
    slots = Window.partitionBy(*by).orderBy("slot").rangeBetween(-window_seconds, -1)
    moved = in_order.rangeBetween(2 - window_seconds, Window.currentRow)
    now = F.col("time") + 1
    return (
        seconds.where(F.col("bytes") > 0)
        .withColumn("slot", F.sum(takes_next).over(in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)))
        .withColumn("kept", F.when(following.isNull() | (following % window_seconds != 0), F.col("time")))
        .withColumn("starts", F.array_append(F.collect_list("kept").over(slots), F.col("time")))
        .withColumn("age", F.array_max(F.transform("starts", lambda start: (now - start) % window_seconds)))
        .withColumn("kip73_rate", F.sum("bytes").over(moved) / F.greatest("age", F.lit(1)))
        .drop("slot", "kept", "starts", "age")
    )
