"""Sizes of partitions: messages in the leader's log by the bytes that a message took.

DataFrame → DataFrame. What was seen of each replica is worked out day by day first (`by_day`), which can be kept
(`daily_summaries`), and then put together (`whole`). Invariant: the bytes per message are the bytes that were brought
over the offsets that they brought. Offsets count as often as they were fetched, once in each block of the journal's
lines: lines of one block may tell of the same offsets. Offsets that passed unseen do not count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from ..tables.daily_summaries import DAY_SECONDS, Summary, read_summary
from ..tables.schema import REPLICA_DAYS
from .link_ends import END, of_one_end, own_broker, seconds_of_ends

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ..tables import Tables


def by_day(rows: DataFrame) -> DataFrame:
    """Return one row per end of a replica and day of it (`schema.REPLICA_DAYS`), from seconds of ends."""
    watermark = F.when(F.col("high_watermark") >= 0, F.col("high_watermark"))
    dated = rows.withColumns(
        {
            "broker": own_broker(),
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
    """Return one row per replica, by the end that saw more of it, from what `by_day` says of all its days: `first` and
    `last` second, `log_messages` at the last, `bytes`, and the `messages` that `told_bytes` of them were brought for.
    """
    ends = days.groupBy(*END).agg(
        F.min("first").alias("first"), F.max("last").alias("last"), F.sum("seconds").alias("seconds"),
        F.sum("bytes").alias("bytes"), F.sum("told_bytes").alias("told_bytes"), F.sum("messages").alias("messages"),
        F.max_by("log_messages", "last").alias("log_messages"),
    )  # fmt: skip
    return of_one_end(ends, "bytes", "seconds").drop("role", "seconds")


SUMMARY = Summary("replica_days", seconds_of_ends, by_day)


def of_tables(tables: Tables) -> DataFrame:
    """Return `whole` of all replicas, without reading each second of the days that are kept."""
    return whole(read_summary(tables, SUMMARY))


def partition_sizes(replicas: DataFrame) -> DataFrame:
    """Return per source, topic and partition `size_bytes` and `bytes_per_message`. replicas: what `whole` says.

    A partition whose bytes per message were never seen has the average of all.
    """
    partitions = replicas.groupBy("source", "topic", "partition").agg(
        F.max_by("log_messages", "last").alias("log_messages"),
        F.sum("told_bytes").alias("bytes"),
        F.sum("messages").alias("messages"),
    )
    everywhere = partitions.where("messages > 0").agg(F.try_divide(F.sum("bytes"), F.sum("messages")).alias("average"))
    each = F.coalesce(F.try_divide("bytes", "messages"), "average")
    return partitions.crossJoin(F.broadcast(everywhere)).select(
        "source", "topic", "partition", each.alias("bytes_per_message"),
        (F.col("log_messages") * each).alias("size_bytes"),
    )  # fmt: skip
