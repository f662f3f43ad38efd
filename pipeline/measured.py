"""What a plan needs to know, from the tables: partition sizes, what is written to them, what brokers take in.

DataFrame → DataFrame, and to values the size of a cluster. Invariant: only what the journals saw is in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from reassignment import Size, TopicPartition

from .moves import MOVE, partition_sizes, sightings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BUSIEST = 0.95
"""Of the minutes: a plan has to hold in all but the busiest few."""


def written(traffic: DataFrame) -> DataFrame:
    """Per source, topic and partition: `written_bytes_per_second`, by the growth of its high watermark while it was
    seen."""
    seen = sightings(traffic)
    in_order = Window.partitionBy(*MOVE).orderBy("time")
    grown = F.greatest(F.col("high_watermark") - F.lag("high_watermark").over(in_order), F.lit(0))
    steps = seen.withColumn("messages", grown)
    per_link = steps.groupBy(*MOVE).agg(
        F.sum("messages").alias("messages"), (F.max("time") - F.min("time")).alias("seconds")
    )
    rate = F.try_divide("messages", "seconds")
    per_partition = per_link.groupBy("source", "topic", "partition").agg(F.max(rate).alias("messages_per_second"))
    sizes = partition_sizes(traffic)
    return sizes.join(per_partition, ["source", "topic", "partition"], "left").select(
        "source", "topic", "partition", "size_bytes",
        F.coalesce(F.col("messages_per_second") * F.col("bytes_per_message"), F.lit(0.0)).alias(
            "written_bytes_per_second"
        ),
    )  # fmt: skip


def inflow(traffic: DataFrame) -> DataFrame:
    """Per broker: `inflow_bytes_per_second`, what it fetched in sync in all but its busiest minutes."""
    minute = F.floor(F.col("time") / 60)
    minutes = (
        traffic.where("role = 'follower' and in_sync")
        .groupBy("broker", minute.alias("minute"))
        .agg((F.sum("record_bytes") / 60).alias("rate"))
    )
    return minutes.groupBy("broker").agg(F.percentile("rate", F.lit(BUSIEST)).alias("inflow_bytes_per_second"))


def measure(traffic: DataFrame) -> tuple[dict[TopicPartition, Size], dict[int, float]]:
    """Return sizes by partition and inflow by broker."""
    sizes = {
        TopicPartition(row.topic, row.partition): Size(
            _broker(row.source), row.size_bytes or 0.0, row.written_bytes_per_second
        )
        for row in written(traffic).collect()
    }
    return sizes, {int(row.broker): row.inflow_bytes_per_second for row in inflow(traffic).collect()}


def _broker(source: str) -> int | None:
    """A peer that is known by its address alone is nobody's id."""
    return int(source) if source.isdecimal() else None
