"""The quota in force, second by second, as the journals' quota events tell it.

DataFrame → DataFrame. Invariant: in the second in which a quota changed the larger of the two is in force: nobody is
accused of what was allowed a moment before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from journal_schema import Kind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROLE = ("broker", "role")
UNLIMITED = float("inf")


def periods(events: DataFrame) -> DataFrame:
    """Return `broker`, `role`, `since`, `until` (seconds; null: to the end), `limit` (inf: none), `enforce`, `policy`.

    Files say the quota again at their head; what does not change anything starts no period.
    """
    said = events.where(F.col("kind") == Kind.QUOTA.value).select(
        *ROLE,
        "time",
        # Runs are named by when they started; what one was told comes after what it started with.
        F.struct("run", "tick", (F.col("reason") == "change").alias("told")).alias("turn"),
        F.coalesce("bytes_per_second", F.lit(UNLIMITED)).alias("limit"),
        "enforce",
        "policy",
    )
    # The last word of a second counts.
    last = said.groupBy(*ROLE, "time").agg(F.max_by(F.struct("limit", "enforce", "policy"), "turn").alias("now"))
    in_order = Window.partitionBy(*ROLE).orderBy("time")
    changed = last.withColumn("before", F.lag("now").over(in_order)).where(
        F.col("before").isNull() | (F.col("before") != F.col("now"))
    )
    return changed.select(
        *ROLE,
        F.col("time").alias("since"),
        F.lead("time").over(in_order).alias("until"),
        "now.*",
    )


def with_limit(seconds: DataFrame, events: DataFrame) -> DataFrame:
    """Add `limit`, `enforce` and `since` of the quota in force to rows with `broker`, `role` and `time`.

    `limit` is that of the second's end or, if larger, of its beginning. Seconds before the first word on a quota have
    null. Quotas are few, so they are broadcast.
    """
    found = periods(events)
    in_order = Window.partitionBy(*ROLE).orderBy("since")
    found = found.withColumn("limit_before", F.lag("limit").over(in_order))
    joined = seconds.alias("s").join(
        F.broadcast(found.alias("q")),
        (F.col("s.broker") == F.col("q.broker"))
        & (F.col("s.role") == F.col("q.role"))
        & (F.col("s.time") >= F.col("q.since"))
        & (F.col("q.until").isNull() | (F.col("s.time") < F.col("q.until"))),
        "left",
    )
    limit = F.when(F.col("s.time") == F.col("q.since"), F.greatest("q.limit", "q.limit_before")).otherwise(
        F.col("q.limit")
    )
    return joined.select("s.*", limit.alias("limit"), "q.enforce", "q.since")
