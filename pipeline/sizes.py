"""How large partitions are: messages in the leader's log by the bytes that a message took.

DataFrame → DataFrame. What was seen of each replica is worked out day by day first (`by_day`), which can be kept
(`summaries`), and then put together (`whole`). Invariant: the bytes per message are the bytes that were brought over
the offsets that they brought. Each offset counts once, and offsets that passed unseen do not count, however the days
were cut.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from .ends import END, REPLICA, own_broker, seconds_of_ends
from .schema import REPLICA_DAYS
from .summaries import DAY_SECONDS, Summary, read

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from .tables import Tables


def _of_ends(traffic: DataFrame) -> DataFrame:
    return seconds_of_ends(traffic).withColumn("broker", own_broker())


def by_day(rows: DataFrame) -> DataFrame:
    """One row per end of a replica and day of it, from seconds of ends: what `schema.REPLICA_DAYS` says."""
    known = F.when(F.col("last_watermark").isNotNull(), F.col("time"))
    pieces = _stepped(rows).groupBy("broker", *END, "day", "piece").agg(
        F.min("time").alias("first"), F.max("time").alias("last"), F.count("*").alias("seconds"),
        F.sum("bytes").alias("bytes"), F.max("fetch_offset_reached").alias("reached"),
        F.max_by("log_messages", "time").alias("log_messages"), F.sum("grown").alias("grown"),
        F.min_by("last_watermark", known).alias("first_watermark"), F.min(known).alias("first_known"),
        F.max_by("last_watermark", known).alias("last_watermark"), F.max(known).alias("last_known"),
        F.min("since").alias("since"), F.max("until").alias("until"),
    )  # fmt: skip
    told = pieces.groupBy("broker", *END, "day").agg(
        F.min("first").alias("first"), F.max("last").alias("last"), F.sum("seconds").alias("seconds"),
        F.sum("bytes").alias("bytes"), F.max("reached").alias("reached"),
        F.max_by("log_messages", "last").alias("log_messages"), F.sum("grown").alias("grown"),
        F.min_by("first_watermark", "first_known").alias("first_watermark"),
        F.max_by("last_watermark", "last_known").alias("last_watermark"),
        F.collect_list(F.when(F.col("until").isNotNull(), F.struct("since", "until"))).alias("brought"),
    )  # fmt: skip
    return told.select("day", "broker", *REPLICA_DAYS.names)


def _stepped(rows: DataFrame) -> DataFrame:
    """Add `grown`, the messages by which the log grew since the last second with a known high watermark. Add `since`
    and `until`, the offsets that were brought for the first time (null: none), and `piece`: offsets that follow each
    other without a gap have the same one."""
    in_order = Window.partitionBy(*END, "day").orderBy("time")
    before = in_order.rowsBetween(Window.unboundedPreceding, -1)
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    watermark = F.when(F.col("high_watermark") >= 0, F.col("high_watermark"))
    since = F.greatest("fetch_offset_before", F.max("fetch_offset_reached").over(before))
    dated = rows.withColumn("day", F.floor(F.col("time") / DAY_SECONDS)).withColumn("last_watermark", watermark)
    is_new = F.col("fetch_offset_reached") > F.col("since")
    stepped = dated.withColumns(
        {
            "since": since,
            "grown": _growth("last_watermark", F.last("last_watermark", ignorenulls=True).over(before)),
            "log_messages": watermark - F.greatest("log_start_offset", F.lit(0)),
        }
    ).withColumn("until", F.when(is_new, F.col("fetch_offset_reached")))
    follows = F.coalesce(F.col("since") <= F.max("until").over(before), F.lit(False))
    apart = stepped.withColumn("apart", (F.col("until").isNotNull() & ~follows).cast("int"))
    only_new = {"piece": F.sum("apart").over(so_far), "since": F.when(F.col("until").isNotNull(), F.col("since"))}
    return apart.withColumns(only_new)


def _growth(name: str, before: Column) -> Column:
    return F.coalesce(F.greatest(F.col(name) - before, F.lit(0)), F.lit(0))


def whole(days: DataFrame) -> DataFrame:
    """One row per replica, by the end that saw more of it (as `ends.one_end` has it), from what `by_day` says of all
    its days: `first` and `last` second, `log_messages` at the last, `bytes`, the `messages` that they were brought for,
    and by how many messages the log has `grown` while it was seen."""
    in_order = Window.partitionBy(*END).orderBy("first")
    before = in_order.rowsBetween(Window.unboundedPreceding, -1)
    reached = F.max("reached").over(before)
    joined = days.withColumns(
        {
            "from_there": reached,
            "over_night": _growth("first_watermark", F.last("last_watermark", ignorenulls=True).over(before)),
        }
    )
    beyond = F.aggregate(
        "brought",
        F.lit(0).cast("long"),
        lambda so_far, piece: (
            so_far + F.greatest(piece["until"] - F.greatest(piece["since"], F.col("from_there")), F.lit(0))
        ),
    )
    ends = joined.groupBy(*END).agg(
        F.min("first").alias("first"), F.max("last").alias("last"), F.sum("seconds").alias("seconds"),
        F.sum("bytes").alias("bytes"), F.max_by("log_messages", "last").alias("log_messages"),
        F.sum(beyond).alias("messages"), F.sum(F.col("grown") + F.col("over_night")).alias("grown"),
    )  # fmt: skip
    seen = F.struct("bytes", "seconds", (F.col("role") == "follower").alias("follows"))
    most = F.max("seen").over(Window.partitionBy(*REPLICA))
    chosen = ends.withColumn("seen", seen).withColumn("most", most).where(F.col("seen") == F.col("most"))
    return chosen.drop("seen", "most", "role", "seconds")


SUMMARY = Summary("replica_days", _of_ends, by_day)


def of_tables(tables: Tables) -> DataFrame:
    """What `whole` says of all replicas, without reading each second of the days that are kept."""
    return whole(read(tables, SUMMARY))


def partition_sizes(replicas: DataFrame) -> DataFrame:
    """Per source, topic and partition: `size_bytes`, `bytes_per_message`, and `last_seen`, the last second in which
    that broker was seen to lead it. replicas: what `whole` says.

    A partition whose bytes per message were never seen has the average of all.
    """
    partitions = replicas.groupBy("source", "topic", "partition").agg(
        F.max_by("log_messages", "last").alias("log_messages"),
        F.sum("bytes").alias("bytes"),
        F.sum("messages").alias("messages"),
        F.max("last").alias("last_seen"),
    )
    everywhere = partitions.where("messages > 0").agg(F.try_divide(F.sum("bytes"), F.sum("messages")).alias("average"))
    each = F.coalesce(F.try_divide("bytes", "messages"), "average")
    return partitions.crossJoin(F.broadcast(everywhere)).select(
        "source", "topic", "partition", each.alias("bytes_per_message"),
        (F.col("log_messages") * each).alias("size_bytes"), "last_seen",
    )  # fmt: skip
