"""The quota in force, second by second, as the journals' quota events tell it.

DataFrame → DataFrame. Events are told by the second: nobody knows when within a second a quota changed. Invariant: the
second of a change has two quotas, the least and the most that held in it, and nobody is accused of what was allowed a
moment before.
"""

from __future__ import annotations

import functools
import operator
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from journal_schema import Kind

from ..tables.daily_summaries import DAY_SECONDS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ROLE = ("broker", "role")
UNLIMITED = float("inf")


def periods(events: DataFrame) -> DataFrame:
    """Return `broker`, `role`, `since`, `until` (seconds; null: to the end), `limit` (inf: none), `enforce`, `policy`,
    and `least` and `most` of what held in the second `since`; `most` is inf where it was not enforced in all of it.

    Each journal file says the quota again at its head. An event that changes nothing starts no period.
    """
    said = events.where(F.col("kind") == Kind.QUOTA.value).select(
        *ROLE,
        "time",
        turn().alias("turn"),
        F.coalesce("bytes_per_second", F.lit(UNLIMITED)).alias("limit"),
        "enforce",
        "policy",
    )
    # The last event of a second counts.
    last = said.groupBy(*ROLE, "time").agg(
        F.max_by(F.struct("limit", "enforce", "policy"), "turn").alias("now"),
        F.min("limit").alias("least"),
        F.max("limit").alias("most"),
        F.bool_and("enforce").alias("enforced"),
    )
    in_order = Window.partitionBy(*ROLE).orderBy("time")
    changed = last.withColumn("before", F.lag("now").over(in_order)).where(
        F.col("before").isNull() | (F.col("before") != F.col("now"))
    )
    # What was only observed promised nothing, so any number of bytes was allowed before it was enforced.
    enforced = F.col("enforced") & F.coalesce("before.enforce", F.lit(True))
    most = F.greatest("most", "before.limit")
    return changed.select(
        *ROLE,
        F.col("time").alias("since"),
        F.lead("time").over(in_order).alias("until"),
        "now.*",
        F.least("least", "before.limit").alias("least"),
        F.when(F.col("now.enforce") & ~enforced, UNLIMITED).otherwise(most).alias("most"),
    )


def turn() -> Column:
    """Return the order of quota events within a second.

    A run is named by its start. Within a run, what it started with comes first. A rate that was chosen in the second of
    a change was chosen before it, since the sidecar chooses again only a second later. A rate that was chosen in
    between, because followers were too late, came after the second's own.
    """
    in_order = F.array(*map(F.lit, ("rate", "pressed", "change", "racks")))
    return F.struct("run", "tick", F.array_position(in_order, F.col("reason")).alias("told"))


def with_limit(seconds: DataFrame, events: DataFrame) -> DataFrame:
    """Add `quota`, `enforce` and `since` of the quota in force to rows with `broker`, `role` and `time`, and `limit`
    and `limit_low`, the most and the least that held in that second: they differ only where the quota changed, or began
    to be enforced.

    Seconds before the first word on a quota have null.
    """
    held = with_period(seconds, periods(events), F.col("time"))
    changes = F.col("time") == F.col("period.since")
    return held.select(
        *seconds.columns,
        F.when(changes, F.col("period.most")).otherwise(F.col("period.limit")).alias("limit"),
        F.when(changes, F.col("period.least")).otherwise(F.col("period.limit")).alias("limit_low"),
        F.col("period.limit").alias("quota"),
        "period.enforce",
        "period.since",
    )


def with_period(rows: DataFrame, found: DataFrame, when: Column) -> DataFrame:
    """Add `period`, the one of `periods` that holds at the second `when`, to rows with `broker` and `role`; null before
    the first.

    Quotas are few, so they are broadcast. But a rate that sets itself changes all day long: so a row is compared only
    with the periods of its own day, and with the last one, which has no end.
    """
    period = F.struct(*found.columns).alias("period")
    days = F.sequence(_day(F.col("since")), _day(F.col("until") - 1))
    ended = found.where(F.col("until").isNotNull()).select(*ROLE, period, F.explode(days).alias("_day"))
    last = found.where(F.col("until").isNull()).select(*ROLE, period)
    keyed = rows.withColumns({"_when": when, "_day": _day(when)})
    within = (F.col("_when") >= F.col("e.period.since")) & (F.col("_when") < F.col("e.period.until"))
    goes_on = F.when(F.col("_when") >= F.col("l.period.since"), F.col("l.period"))
    return (
        keyed.alias("k")
        .join(F.broadcast(ended.alias("e")), on=_same("k", "e", *ROLE, "_day") & within, how="left")
        .join(F.broadcast(last.alias("l")), on=_same("k", "l", *ROLE), how="left")
        .select(*(f"k.{name}" for name in rows.columns), F.coalesce("e.period", goes_on).alias("period"))
    )


def _day(second: Column) -> Column:
    return F.floor(second / DAY_SECONDS)


def _same(one: str, other: str, *names: str) -> Column:
    pairs = [F.col(f"{one}.{name}") == F.col(f"{other}.{name}") for name in names]
    return functools.reduce(operator.and_, pairs)
