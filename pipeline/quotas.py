"""The quota in force, second by second, as the journals' quota events tell it.

DataFrame → DataFrame. Events are told by the second: when in it a quota changed nobody knows. Invariant: such a second
has two quotas, the least and the most that held in it, and nobody is accused of what was allowed a moment before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from journal_schema import Kind

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ROLE = ("broker", "role")
UNLIMITED = float("inf")


def periods(events: DataFrame) -> DataFrame:
    """Return `broker`, `role`, `since`, `until` (seconds; null: to the end), `limit` (inf: none), `enforce`, `policy`,
    and `least` and `most` of what held in the second `since`.

    Files say the quota again at their head; what does not change anything starts no period.
    """
    said = events.where(F.col("kind") == Kind.QUOTA.value).select(
        *ROLE,
        "time",
        # Runs are named by when they started; what one was told comes after what it started with. A rate that was
        # chosen in the second of a change was chosen before it: the sidecar chooses again a second later.
        F.struct("run", "tick", _rank(F.col("reason")).alias("told")).alias("turn"),
        F.coalesce("bytes_per_second", F.lit(UNLIMITED)).alias("limit"),
        "enforce",
        "policy",
    )
    # The last word of a second counts.
    last = said.groupBy(*ROLE, "time").agg(
        F.max_by(F.struct("limit", "enforce", "policy"), "turn").alias("now"),
        F.min("limit").alias("least"),
        F.max("limit").alias("most"),
    )
    in_order = Window.partitionBy(*ROLE).orderBy("time")
    changed = last.withColumn("before", F.lag("now").over(in_order)).where(
        F.col("before").isNull() | (F.col("before") != F.col("now"))
    )
    return changed.select(
        *ROLE,
        F.col("time").alias("since"),
        F.lead("time").over(in_order).alias("until"),
        "now.*",
        F.least("least", "before.limit").alias("least"),
        F.greatest("most", "before.limit").alias("most"),
    )


def _rank(reason: Column) -> Column:
    return F.when(reason == "racks", 3).when(reason == "change", 2).when(reason == "rate", 1).otherwise(0)


def with_limit(seconds: DataFrame, events: DataFrame) -> DataFrame:
    """Add `quota`, `enforce` and `since` of the quota in force to rows with `broker`, `role` and `time`, and `limit`
    and `limit_low`, the most and the least that held in that second: they differ only where the quota changed.

    Seconds before the first word on a quota have null. Quotas are few, so they are broadcast.
    """
    found = periods(events)
    joined = seconds.alias("s").join(
        F.broadcast(found.alias("q")),
        (F.col("s.broker") == F.col("q.broker"))
        & (F.col("s.role") == F.col("q.role"))
        & (F.col("s.time") >= F.col("q.since"))
        & (F.col("q.until").isNull() | (F.col("s.time") < F.col("q.until"))),
        how="left",
    )
    changes = F.col("s.time") == F.col("q.since")
    return joined.select(
        "s.*",
        F.when(changes, F.col("q.most")).otherwise(F.col("q.limit")).alias("limit"),
        F.when(changes, F.col("q.least")).otherwise(F.col("q.limit")).alias("limit_low"),
        F.col("q.limit").alias("quota"),
        "q.enforce",
        "q.since",
    )
