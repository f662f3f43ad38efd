"""The audit of the bound: in every second, and in every eleven; how smoothly; and if it was broken, when and why.

DataFrame → DataFrame. Windows slide by whole seconds, the journal's grain. What is allowed in a window is the sum of
its seconds' quotas times the promise. In the second of a change the quota was one and then the other: a window with it
is over the bound if it is by the larger one, kept if it is by the smaller one, and undecided between them. Invariant: a
window is reported as over the bound only if it is, and as kept only if it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import Window
from pyspark.sql import functions as F

from .quotas import ROLE, UNLIMITED, periods, with_limit
from .rates import LEVELS, per_second

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


MINUTE_SECONDS = 60


class Promise(NamedTuple):
    """The most bytes of any so many seconds, over the sum of their quotas."""

    seconds: int
    factor: float

    @property
    def name(self) -> str:
        """``1s``, ``11s``, as columns have it."""
        return f"{self.seconds}s"


PROMISES = SECOND, ELEVEN = Promise(1, 1.3), Promise(11, 1.05)
"""The promises of the strict policy, but for one batch per connection where batches are larger than the gate."""


def seconds_with_quota(link_seconds: DataFrame, events: DataFrame) -> DataFrame:
    """Return throttled bytes per broker, role and second, beside the quota in force, and `changes`, which windows need;
    seconds that end without a finite quota are left out, they cannot be broken. In the second in which the first one
    began, or began to be enforced, `limit` is inf."""
    seconds = with_limit(per_second(link_seconds, LEVELS["broker"], with_runs=True), events)
    return _with_changes(seconds.where(F.col("quota") < UNLIMITED), periods(events))


def _with_changes(limited: DataFrame, found: DataFrame) -> DataFrame:
    """Add `changes`: the quotas that held in the last eleven seconds up to a row's, or ended where these begin, in
    their order; null where one held in all of them.

    A rate that sets itself changes every few seconds: with all quotas of its role, a day's rows would be 119 GB. The
    last seconds have a part of two quotas only if one began in them. So each quota is looked up in the minutes after it
    began and after it ended.
    """
    reach = ELEVEN.seconds - 1
    first = F.col("time") - reach
    touched = F.array(F.col("since"), F.coalesce("until", "since"))
    minutes = F.flatten(F.transform(touched, lambda at: F.sequence(_minute(at), _minute(at + reach))))
    each = F.struct("since", "until", "limit", "least", "most", "enforce")
    of_minute = found.select(*ROLE, each.alias("one"), F.explode(F.array_distinct(minutes)).alias("_minute"))
    nearby = of_minute.groupBy(*ROLE, "_minute").agg(F.sort_array(F.collect_list("one")).alias("changes"))
    joined = limited.withColumn("_minute", _minute(F.col("time"))).join(
        F.broadcast(nearby), on=[*ROLE, "_minute"], how="left"
    )
    within = F.filter(
        "changes", lambda one: (one["since"] <= F.col("time")) & (one["until"].isNull() | (one["until"] >= first))
    )
    return joined.withColumn("changes", F.when(F.col("since") >= first, within)).drop("_minute")


def _minute(second: Column) -> Column:
    return F.floor(second / MINUTE_SECONDS)


def windows(seconds: DataFrame) -> DataFrame:
    """Return every window of each promise's seconds that ends in a second with a line: `window_seconds`, `from_time`,
    `time` (its last second), `bytes`, `in_sync_bytes`, `quota_bytes` and `allowed` (null: in one of its seconds no
    quota held), `ratio` (over the quota; null as well, and where bytes moved under a quota of 0), `over`, `undecided`,
    `runs_overlap` (in one of its seconds two runs of the sidecar were at work)."""
    each = F.array(*(F.col(promise.name) for promise in PROMISES))
    return judged(seconds).select(*ROLE, "time", "since", "enforce", F.inline(each))


def judged(seconds: DataFrame) -> DataFrame:
    """Add the window of each promise that ends there, as a column called `1s`, `11s`. One shuffle for all of them."""
    parts = {f"_{one.name}_{what}": column for one in PROMISES for what, column in _parts(one).items()}
    return seconds.withColumns(parts).withColumns({one.name: _window(one) for one in PROMISES}).drop(*parts)


def verdicts(seconds: DataFrame) -> DataFrame:
    """Return rows of `judged` without `changes`, and of each window only what sums over them need, so that they can be
    cached."""
    names = ("ratio", "over", "undecided")
    kept = {one.name: F.struct(*(F.col(one.name)[name].alias(name) for name in names)) for one in PROMISES}
    return judged(seconds).drop("changes").withColumns(kept)


def _parts(promise: Promise) -> dict[str, Column]:
    """Return the columns by which a window is judged.

    Columns of their own, since each is used several times: written out at each use, an audit of small tables took a
    fifth more of the processor's time.
    """
    sliding = Window.partitionBy(*ROLE).orderBy("time").rangeBetween(1 - promise.seconds, Window.currentRow)
    return {
        "moved": F.sum("bytes").over(sliding),
        "in_sync": F.sum("in_sync_bytes").over(sliding),
        "runs_overlap": F.bool_or("runs_overlap").over(sliding),
        "low": _quota_of_window(promise.seconds, "least"),
        "quota": _quota_of_window(promise.seconds, "most"),
        "burst": _burst_of_changes(promise),
    }


def _window(promise: Promise) -> Column:
    moved, in_sync, runs_overlap, low, quota, burst = (
        F.col(f"_{promise.name}_{what}") for what in ("moved", "in_sync", "runs_overlap", "low", "quota", "burst")
    )
    promised = quota * promise.factor + burst
    # Whatever moved in a window without a bound, it was no part of one: 0.000 would say that nothing did.
    bounded = quota < UNLIMITED
    return F.struct(
        F.lit(promise.seconds).alias("window_seconds"),
        (F.col("time") - (promise.seconds - 1)).alias("from_time"),
        moved.alias("bytes"),
        in_sync.alias("in_sync_bytes"),
        F.when(bounded, quota).alias("quota_bytes"),
        F.when(bounded, promised).alias("allowed"),
        F.when(bounded, F.when(moved == 0, 0.0).otherwise(F.try_divide(moved, quota))).alias("ratio"),
        (moved > promised).alias("over"),
        ((moved <= promised) & (moved > low * promise.factor)).alias("undecided"),
        runs_overlap.alias("runs_overlap"),
    )


def _burst_of_changes(promise: Promise) -> Column:
    """Return how many bytes more a window may have because quotas changed in it.

    A quota that has just begun brings its burst at once. The promise for one second allows for that. The tighter
    promise for eleven seconds does so only if the quota held in all of them, so a window in which it began is allowed
    the difference.
    """
    more = SECOND.factor - promise.factor
    first = F.col("time") - (promise.seconds - 1)

    def of_period(change: Column) -> Column:
        begins = change["since"].between(first, F.col("time")) & (change["since"] > F.col("changes")[0]["since"])
        return F.when(begins, change["most"] * more).otherwise(0.0)

    added = F.aggregate("changes", F.lit(0.0), lambda so_far, change: so_far + of_period(change))
    return F.when(first > F.col("since"), 0.0).otherwise(added)


def _quota_of_window(seconds: int, of_change: str) -> Column:
    """Return the sum of the quotas of the last `seconds` seconds up to this one, seconds without traffic included.

    For the second of a change it takes the `least` or the `most` quota that held in it, as `of_change` says. Which
    quota held before the first one that the journal tells of is unknown; that first one is taken for it.
    """
    first = F.col("time") - (seconds - 1)
    nothing = F.lit(0.0)

    def of_period(change: Column) -> Column:
        # Before the quota was enforced nothing was promised.
        limit, changing = (
            F.when(F.col("enforce") & ~change["enforce"], UNLIMITED).otherwise(change[name])
            for name in ("limit", of_change)
        )
        ends = F.least(F.coalesce(change["until"] - 1, F.col("time")), F.col("time"))
        whole = ends - F.greatest(change["since"] + 1, first) + 1
        at_change = change["since"].between(first, F.col("time"))
        return F.when(whole > 0, whole * limit).otherwise(nothing) + F.when(at_change, changing).otherwise(nothing)

    before = F.col("changes")[0]["since"] - first
    unknown = F.when(before > 0, before * F.col("changes")[0]["limit"]).otherwise(nothing)
    added = F.aggregate("changes", unknown, lambda so_far, change: so_far + of_period(change))
    return F.when(first > F.col("since"), seconds * F.col("limit")).otherwise(added)


def violations(seconds: DataFrame) -> DataFrame:
    """Return the evidence: each window over its bound, with the cause."""
    over = windows(seconds).where("over").withColumn("cause", _cause())
    return over.drop("over", "undecided", "runs_overlap", "since")


def incidents(over: DataFrame) -> DataFrame:
    """Return one row for each run of consecutive windows over their bound: its `first` and `last` second, how many
    windows it has, and the figures of the worst of them."""
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
        F.max_by("bytes", F.struct("ratio", "time")).alias("bytes"),
        F.max_by("allowed", F.struct("ratio", "time")).alias("allowed"),
    )
    return found.drop("number")


def _cause() -> Column:
    """Return why a window is over its bound.

    Replicas in sync are never held back (KIP-73), so their traffic alone may be more than the quota, and that is no
    fault of the throttle.
    """
    return (
        F.when(~F.col("enforce"), "observed only: the quota was not enforced")
        .when(F.col("runs_overlap"), "two runs of this broker's sidecar at once, each with the quota for itself")
        .when(F.col("in_sync_bytes") > F.col("allowed"), "in-sync traffic alone is more than is allowed")
        .when(
            F.col("bytes") - F.col("in_sync_bytes") <= F.col("allowed"),
            "in-sync traffic on top of catch-up within the bound",
        )
        .otherwise("catch-up over the bound")
    )


def summary(seconds: DataFrame, *, since: int | None = None) -> DataFrame:
    """Return one row per broker, role and quota in force: `mean_ratio` and `smoothness` (mean and standard deviation of
    a second over the quota, while something was held back; null if the quota is 0), for each promise `worst_Ns`,
    `worst_Ns_at`, `over_Ns` and `undecided_Ns` (how often), `overlap_seconds` (in which two runs were at work), `kept`
    (null if the quota was not enforced), `verdict`.

    since: the first second whose windows count; those before it are there for the windows alone.
    """
    return summed_up(judged(seconds), since=since)


def summed_up(windowed: DataFrame, *, since: int | None = None) -> DataFrame:
    """Return `summary` of rows of `judged`, or of `verdicts`."""
    steady = F.col("limit") == F.col("limit_low")
    ratio = F.try_divide("bytes", "limit")
    held_back = F.when((F.col("omitted") > 0) & (F.col("bytes") > 0) & steady, ratio)
    found = (
        (windowed if since is None else windowed.where(F.col("time") >= since))
        .groupBy(*ROLE, "since")
        .agg(
            F.max("quota").alias("limit"),
            F.bool_and("enforce").alias("enforce"),
            F.count("*").alias("seconds"),
            F.sum("bytes").alias("bytes"),
            F.sum("in_sync_bytes").alias("in_sync_bytes"),
            F.avg(held_back).alias("mean_ratio"),
            F.stddev_samp(held_back).alias("smoothness"),
            *(column for promise in PROMISES for column in _worst(promise.name)),
            F.sum(F.col("runs_overlap").cast("int")).alias("overlap_seconds"),
        )
    )
    over, undecided = (F.greatest(f"{what}_1s", f"{what}_11s", F.lit(0)) > 0 for what in ("over", "undecided"))
    verdict = (
        F.when(~F.col("enforce"), "observed only").when(over, "broken")
        .when(undecided, "kept, but where the quota changed").otherwise("kept")
    )  # fmt: skip
    return found.withColumns({"kept": F.when(F.col("enforce"), ~over), "verdict": verdict}).orderBy(*ROLE, "since")


def _worst(name: str) -> tuple[Column, ...]:
    ratio = F.col(f"{name}.ratio")
    return (
        F.max(ratio).alias(f"worst_{name}"),
        F.max_by("time", ratio).alias(f"worst_{name}_at"),
        F.sum(F.col(f"{name}.over").cast("int")).alias(f"over_{name}"),
        F.sum(F.col(f"{name}.undecided").cast("int")).alias(f"undecided_{name}"),
    )
