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


def windows(seconds: DataFrame, *promises: Promise) -> DataFrame:
    """Every window of each promise's seconds that ends in a second with a line: `window_seconds`, `from_time`, `time`
    (its last second), `bytes`, `in_sync_bytes`, `quota_bytes`, `allowed`, `ratio` (over the quota), `over`."""
    each = F.array(*(F.col(_name(promise)) for promise in promises))
    return _judged(seconds, promises).select(*ROLE, "time", "since", "enforce", F.inline(each))


def _judged(seconds: DataFrame, promises: tuple[Promise, ...]) -> DataFrame:
    """Add the window of each promise that ends there, as a column. One shuffle for all of them."""
    return seconds.select("*", *(_window(promise).alias(_name(promise)) for promise in promises))


def _name(promise: Promise) -> str:
    return f"{promise.seconds}s"


def _window(promise: Promise) -> Column:
    sliding = Window.partitionBy(*ROLE).orderBy("time").rangeBetween(1 - promise.seconds, Window.currentRow)
    moved = F.sum("bytes").over(sliding)
    # Seconds without a line had the same quota: only those with one know it, so theirs stands for the others.
    quota = F.sum("limit").over(sliding) * promise.seconds / F.count("*").over(sliding)
    promised = quota * promise.factor
    return F.struct(
        F.lit(promise.seconds).alias("window_seconds"),
        (F.col("time") - (promise.seconds - 1)).alias("from_time"),
        moved.alias("bytes"),
        F.sum("in_sync_bytes").over(sliding).alias("in_sync_bytes"),
        quota.alias("quota_bytes"),
        promised.alias("allowed"),
        F.try_divide(moved, quota).alias("ratio"),
        (moved > promised).alias("over"),
    )


def violations(seconds: DataFrame, promises: tuple[Promise, ...] = STRICT_PROMISES) -> DataFrame:
    """The evidence: each window over its bound, with the cause."""
    return windows(seconds, *promises).where("over").withColumn("cause", _cause()).drop("over", "since")


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
    held_back = F.when((F.col("omitted") > 0) & (F.col("bytes") > 0), F.col("bytes") / F.col("limit"))
    found = (
        _judged(seconds, promises)
        .groupBy(*ROLE, "since")
        .agg(
            F.max("limit").alias("limit"),
            F.first("enforce").alias("enforce"),
            F.count("*").alias("seconds"),
            F.sum("bytes").alias("bytes"),
            F.sum("in_sync_bytes").alias("in_sync_bytes"),
            F.avg(held_back).alias("mean_ratio"),
            F.stddev_samp(held_back).alias("smoothness"),
            *(column for promise in promises for column in _worst(_name(promise))),
        )
    )
    over = [F.col(f"over_{_name(promise)}") for promise in promises]
    return found.withColumn("kept", F.greatest(*over, F.lit(0)) == 0).orderBy(*ROLE, "since")


def _worst(name: str) -> tuple[Column, ...]:
    ratio = F.col(f"{name}.ratio")
    return (
        F.max(ratio).alias(f"worst_{name}"),
        F.max_by("time", ratio).alias(f"worst_{name}_at"),
        F.sum(F.col(f"{name}.over").cast("int")).alias(f"over_{name}"),
    )
