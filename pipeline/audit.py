"""Was the bound kept: in every second, and in every eleven; how smoothly; and if not, when and why.

DataFrame → DataFrame. Windows slide by whole seconds, the journal's grain. What is allowed in a window is the sum of
its seconds' quotas times the promise. Invariant: a window is reported as over the bound if and only if it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import Window
from pyspark.sql import functions as F

from .quotas import ROLE, with_limit
from .rates import LEVELS, per_second

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


class Promise(NamedTuple):
    """What the bytes of any so many seconds may be, over the sum of their quotas."""

    seconds: int
    factor: float


STRICT_PROMISES = (Promise(1, 1.3), Promise(11, 1.05))
"""What the strict policy promises, but for one batch per connection where batches are larger than the gate."""


def seconds_with_quota(link_seconds: DataFrame, events: DataFrame) -> DataFrame:
    """Throttled bytes per broker, role and second, beside the quota in force; seconds without a finite one are left
    out, they cannot be broken."""
    seconds = with_limit(per_second(link_seconds, LEVELS["broker"]), events)
    return seconds.where(F.col("limit").isNotNull() & (F.col("limit") < float("inf")))


def windows(seconds: DataFrame, promise: Promise) -> DataFrame:
    """Every window of `promise.seconds` that ends in a second with a line: `from_time`, `time` (its last second),
    `bytes`, `in_sync_bytes`, `allowed`, `ratio` (over the quota), `over`."""
    sliding = Window.partitionBy(*ROLE).orderBy("time").rangeBetween(1 - promise.seconds, Window.currentRow)
    allowed = F.sum("limit").over(sliding)
    # Seconds without a line had the same quota: only those with one know it, so theirs stands for the others.
    quota_bytes = allowed * promise.seconds / F.count("*").over(sliding)
    rows = seconds.select(
        *ROLE,
        (F.col("time") - (promise.seconds - 1)).alias("from_time"),
        "time",
        "since",
        "enforce",
        F.lit(promise.seconds).alias("window_seconds"),
        F.sum("bytes").over(sliding).alias("bytes"),
        F.sum("in_sync_bytes").over(sliding).alias("in_sync_bytes"),
        quota_bytes.alias("quota_bytes"),
    )
    promised = F.col("quota_bytes") * promise.factor
    return rows.select(
        "*",
        promised.alias("allowed"),
        F.try_divide("bytes", "quota_bytes").alias("ratio"),
        (F.col("bytes") > promised).alias("over"),
    )


def violations(seconds: DataFrame, promises: tuple[Promise, ...] = STRICT_PROMISES) -> DataFrame:
    """The evidence: each window over its bound, with the cause."""
    found = windows(seconds, promises[0])
    for promise in promises[1:]:
        found = found.unionByName(windows(seconds, promise))
    return found.where("over").withColumn("cause", _cause()).drop("over", "since")


def incidents(over: DataFrame) -> DataFrame:
    """Windows over their bound that follow each other, as one: `first` and `last` second, the worst of them."""
    who = (*ROLE, "window_seconds", "cause")
    in_order = Window.partitionBy(*who).orderBy("time")
    begins = F.coalesce(F.col("time") - F.lag("time").over(in_order) > 1, F.lit(True))
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    numbered = over.withColumn("number", F.sum(begins.cast("int")).over(so_far))
    found = numbered.groupBy(*who, "number").agg(
        F.min("time").alias("first"),
        F.max("time").alias("last"),
        F.count("*").alias("windows"),
        F.max("ratio").alias("ratio"),
        F.max_by("bytes", "ratio").alias("bytes"),
        F.max_by("allowed", "ratio").alias("allowed"),
    )
    return found.drop("number")


def _cause() -> Column:
    """In-sync replicas are never held back (KIP-73), so that they alone may take more than the quota."""
    return (
        F.when(~F.col("enforce"), "observed only: the quota was not enforced")
        .when(F.col("in_sync_bytes") > F.col("allowed"), "in-sync traffic alone is more than is allowed")
        .when(
            F.col("bytes") - F.col("in_sync_bytes") <= F.col("allowed"),
            "in-sync traffic on top of catch-up within the bound",
        )
        .otherwise("catch-up over the bound")
    )


def summary(seconds: DataFrame, promises: tuple[Promise, ...] = STRICT_PROMISES) -> DataFrame:
    """One row per broker, role and quota in force: `mean_ratio`, `smoothness` (standard deviation of a second over the
    quota, while something was held back), and for each promise `worst_Ns`, `worst_Ns_at`, `over_Ns` (how often)."""
    period = (*ROLE, "since")
    held_back = F.when((F.col("omitted") > 0) & (F.col("bytes") > 0), F.col("bytes") / F.col("limit"))
    found = seconds.groupBy(*period).agg(
        F.max("limit").alias("limit"),
        F.first("enforce").alias("enforce"),
        F.count("*").alias("seconds"),
        F.sum("bytes").alias("bytes"),
        F.sum("in_sync_bytes").alias("in_sync_bytes"),
        F.avg(held_back).alias("mean_ratio"),
        F.stddev_samp(held_back).alias("smoothness"),
    )
    for promise in promises:
        name = f"{promise.seconds}s"
        worst = (
            windows(seconds, promise)
            .groupBy(*period)
            .agg(
                F.max("ratio").alias(f"worst_{name}"),
                F.max_by("time", "ratio").alias(f"worst_{name}_at"),
                F.sum(F.col("over").cast("int")).alias(f"over_{name}"),
            )
        )
        found = found.join(worst, list(period))
    over = [F.col(f"over_{promise.seconds}s") for promise in promises]
    return found.withColumn("kept", F.greatest(*over, F.lit(0)) == 0).orderBy(*period)
