"""The two ends of a link: what each saw of each replica, by the second of its own clock. Both sidecars tell of the same
bytes.

DataFrame → DataFrame. An *end* is a link's role: `leader` as the source's sidecar saw it, `follower` as the
destination's. Ends are never put together second by second, since the clocks of two machines differ. Where one end is
enough, one of them is chosen for each replica. Where both are needed, they are matched by the offsets, which do not
depend on a clock (`moves`).

Invariant: the bytes of an end's seconds add up to what its journal's lines say of the replica.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

REPLICA = ("source", "destination", "topic", "partition")
"""Ids of brokers as text, or addresses of those that have not said their id."""
END = (*REPLICA, "role")


def linked(traffic: DataFrame) -> DataFrame:
    """Return rows of the traffic table with `source` and `destination` in place of broker and peer."""
    leads = F.col("role") == "leader"
    own, peer = F.col("broker").cast("string"), F.col("peer")
    source, destination = F.when(leads, own).otherwise(peer), F.when(leads, peer).otherwise(own)
    return traffic.withColumns({"source": source, "destination": destination})


def seconds_of_ends(traffic: DataFrame) -> DataFrame:
    """Return per end, replica and second `bytes` and `behind_bytes`; whether it was seen `behind`, `in_sync` or both;
    where it stood as either of them (`behind_offset`, `behind_watermark`, `sync_offset`, `sync_watermark`, null if it
    was not); the least `fetch_offset_before`, the greatest `fetch_offset_reached`, `high_watermark` and
    `log_start_offset`; the last `block` of lines that tells of it.
    """
    behind, in_sync = F.when(~F.col("in_sync"), 1), F.when(F.col("in_sync"), 1)
    # Rows are shuffled once, by replica: whatever is asked of one end, or of both together, finds its rows in one
    # place.
    return (
        linked(traffic)
        .repartition(*REPLICA)
        .groupBy(*END, "time")
        .agg(
            F.max(F.struct("run", "line_tick")).alias("block"),
            F.sum("record_bytes").alias("bytes"),
            F.sum(F.when(F.col("in_sync"), 0).otherwise(F.col("record_bytes"))).alias("behind_bytes"),
            F.bool_or(~F.col("in_sync")).alias("behind"),
            F.bool_or("in_sync").alias("in_sync"),
            F.max(behind * F.col("fetch_offset")).alias("behind_offset"),
            F.max(behind * F.col("high_watermark")).alias("behind_watermark"),
            F.max(in_sync * F.col("fetch_offset")).alias("sync_offset"),
            F.max(in_sync * F.col("high_watermark")).alias("sync_watermark"),
            F.min("fetch_offset_before").alias("fetch_offset_before"),
            F.max("fetch_offset").alias("fetch_offset_reached"),
            F.max("high_watermark").alias("high_watermark"),
            F.max("log_start_offset").alias("log_start_offset"),
        )
    )


def own_broker() -> Column:
    """Return the id of the broker whose sidecar saw it."""
    return F.when(F.col("role") == "leader", F.col("source")).otherwise(F.col("destination")).cast("long")


def of_one_end(rows: DataFrame, *measures: str | Column) -> DataFrame:
    """Return the rows of one end of each replica: of the one with more by the first of these measures, then by the
    next; else of the follower's, which is nearer to what arrived."""
    seen = rows.withColumn("seen", F.struct(*measures, (F.col("role") == "follower").alias("follows")))
    most = F.max("seen").over(Window.partitionBy(*REPLICA))
    return seen.withColumn("most", most).where("seen = most").drop("seen", "most")
