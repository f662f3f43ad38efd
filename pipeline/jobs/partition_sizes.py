"""Sizes of partitions: messages in the leader's log by the bytes that a message took.

DataFrame → DataFrame. What was seen of each replica is worked out day by day first (`by_day`), which can be kept
(`daily_summaries`), and then put together (`whole`). Invariant: the bytes per message are the bytes that were brought
over the offsets that they brought. Offsets count as often as they were fetched, once in each block of the journal's
lines: lines of one block may tell of the same offsets. Offsets that passed unseen do not count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from ..tables.daily_summaries import DAY_SECONDS, Summary, read_summary
from ..tables.schema import REPLICA_DAYS
from .link_ends import END, REPLICA, linked, own_broker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ..tables import Tables

_OF_SECOND = ("record_bytes", "fetch_offset_before", "fetch_offset", "high_watermark", "log_start_offset")


def _of_ends(traffic: DataFrame) -> DataFrame:
    """Return per end, replica and second `bytes`, the `block` of lines that has it, and its offsets."""
    told = linked(traffic).withColumn("block", F.struct("run", "line_tick"))
    # Shuffled once, by replica, as `link_ends` does it.
    return (
        told.select(*END, "time", "block", *_OF_SECOND)
        .repartition(*REPLICA)
        .groupBy(*END, "time")
        .agg(
            F.max("block").alias("block"),
            F.sum("record_bytes").alias("bytes"),
            F.min("fetch_offset_before").alias("fetch_offset_before"),
            F.max("fetch_offset").alias("fetch_offset_reached"),
            F.max("high_watermark").alias("high_watermark"),
            F.max("log_start_offset").alias("log_start_offset"),
        )
        .withColumn("broker", own_broker())
    )


def by_day(rows: DataFrame) -> DataFrame:
    """Return one row per end of a replica and day of it (`schema.REPLICA_DAYS`), from seconds of ends."""
    watermark = F.when(F.col("high_watermark") >= 0, F.col("high_watermark"))
    dated = rows.withColumns(
        {
            "day": F.floor(F.col("time") / DAY_SECONDS),
            "log_messages": watermark - F.greatest("log_start_offset", F.lit(0)),
        }
    )
    blocks = dated.groupBy("broker", *END, "day", "block").agg(
        F.min("time").alias("first"), F.max("time").alias("last"), F.count("*").alias("seconds"),
        F.sum("bytes").alias("bytes"), F.min_by("fetch_offset_before", "time").alias("since"),
        F.max_by("fetch_offset_reached", "time").alias("until"), F.max("log_start_offset").alias("log_start"),
        F.max_by("log_messages", "time").alias("log_messages"),
    )  # fmt: skip
    # If a replica began anew within a block, or the log's start passed it, nobody knows which offsets its bytes were.
    told = (F.col("until") >= F.col("since")) & (F.col("log_start") <= F.col("since"))
    days = blocks.groupBy("broker", *END, "day").agg(
        F.min("first").alias("first"), F.max("last").alias("last"), F.sum("seconds").alias("seconds"),
        F.sum("bytes").alias("bytes"), F.sum(F.when(told, F.col("bytes")).otherwise(0)).alias("told_bytes"),
        F.sum(F.when(told, F.col("until") - F.col("since")).otherwise(0)).alias("messages"),
        F.max_by("log_messages", "last").alias("log_messages"),
    )  # fmt: skip
    return days.select("day", "broker", *REPLICA_DAYS.names)


def whole(days: DataFrame) -> DataFrame:
    """Return one row per replica, by the end that saw more of it (as `link_ends.one_end` has it), from what `by_day`
    says of all its days: `first` and `last` second, `log_messages` at the last, `bytes`, and the `messages` that
    `told_bytes` of them were brought for."""
    ends = days.groupBy(*END).agg(
        F.min("first").alias("first"), F.max("last").alias("last"), F.sum("seconds").alias("seconds"),
        F.sum("bytes").alias("bytes"), F.sum("told_bytes").alias("told_bytes"), F.sum("messages").alias("messages"),
        F.max_by("log_messages", "last").alias("log_messages"),
    )  # fmt: skip
    seen = F.struct("bytes", "seconds", (F.col("role") == "follower").alias("follows"))
    most = F.max("seen").over(Window.partitionBy(*REPLICA))
    chosen = ends.withColumn("seen", seen).withColumn("most", most).where(F.col("seen") == F.col("most"))
    return chosen.drop("seen", "most", "role", "seconds")


SUMMARY = Summary("replica_days", _of_ends, by_day)


def of_tables(tables: Tables) -> DataFrame:
    """Return `whole` of all replicas, without reading each second of the days that are kept."""
    return whole(read_summary(tables, SUMMARY))


def partition_sizes(replicas: DataFrame) -> DataFrame:
    """Return per source, topic and partition `size_bytes`, `bytes_per_message`, and `last_seen`, the last second in
    which that broker was seen to lead it. replicas: what `whole` says.

    A partition whose bytes per message were never seen has the average of all.
    """
    partitions = replicas.groupBy("source", "topic", "partition").agg(
        F.max_by("log_messages", "last").alias("log_messages"),
        F.sum("told_bytes").alias("bytes"),
        F.sum("messages").alias("messages"),
        F.max("last").alias("last_seen"),
    )
    everywhere = partitions.where("messages > 0").agg(F.try_divide(F.sum("bytes"), F.sum("messages")).alias("average"))
    each = F.coalesce(F.try_divide("bytes", "messages"), "average")
    return partitions.crossJoin(F.broadcast(everywhere)).select(
        "source", "topic", "partition", each.alias("bytes_per_message"),
        (F.col("log_messages") * each).alias("size_bytes"), "last_seen",
    )  # fmt: skip
