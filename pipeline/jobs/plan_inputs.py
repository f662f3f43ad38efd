"""The inputs of a plan, from the tables: partition sizes, what is written to them, what brokers take in.

DataFrame → DataFrame, and to values the size of a cluster. Invariant: only what the journals saw is in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from reassignment import Size, TopicPartition

from .partition_sizes import partition_sizes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BUSIEST = 0.95
"""The share of minutes that an inflow is not exceeded in: a plan has to hold in all but the busiest few."""


def written(replicas: DataFrame) -> DataFrame:
    """Return per source, topic and partition its `partition_sizes`, and `written_bytes_per_second`, by the growth of
    its high watermark while it was seen. replicas: what `partition_sizes.whole` says."""
    rate = F.try_divide("grown", F.col("last") - F.col("first"))
    per_partition = replicas.groupBy("source", "topic", "partition").agg(F.max(rate).alias("messages_per_second"))
    sizes = partition_sizes(replicas)
    return sizes.join(per_partition, on=["source", "topic", "partition"], how="left").select(
        "source", "topic", "partition", "size_bytes", "last_seen",
        F.coalesce(F.col("messages_per_second") * F.col("bytes_per_message"), F.lit(0.0)).alias(
            "written_bytes_per_second"
        ),
    )  # fmt: skip


def inflow(traffic: DataFrame) -> DataFrame:
    """Return per broker `inflow_bytes_per_second`, what it fetched while in sync, in all but its busiest minutes.
    Minutes are counted from the first second in which it fetched anything to the last such second. The last minute
    counts with the length that it has, and one in which nothing came as nothing: rows do not tell an idle broker from a
    sidecar that did not run.

    traffic: rows of the traffic or, exact in every second, of the seconds table.
    """
    of_broker = Window.partitionBy("broker")
    fetched = _fetched(traffic).withColumns(
        {"first": F.min("time").over(of_broker), "last": F.max("time").over(of_broker)}
    )
    minute = F.floor((F.col("time") - F.col("first")) / 60)
    in_all = F.max("last") - F.max("first") + 1
    length = F.least(F.lit(60), in_all - 60 * F.col("minute"))
    minutes = (
        fetched.withColumn("minute", minute)
        .groupBy("broker", "minute")
        .agg((F.sum("bytes") / length).alias("rate"), F.ceil(in_all / 60).alias("in_all"))
    )
    one = F.struct("rate", F.lit(1).cast("long").alias("minutes"))
    silent = F.struct(F.lit(0.0).alias("rate"), (F.max("in_all") - F.count("*")).alias("minutes"))
    told = minutes.groupBy("broker").agg(F.array_append(F.collect_list(one), silent).alias("rates"))
    each = told.select("broker", F.inline("rates")).where("minutes > 0")
    return each.groupBy("broker").agg(
        F.percentile("rate", F.lit(BUSIEST), F.col("minutes")).alias("inflow_bytes_per_second")
    )


def _fetched(traffic: DataFrame) -> DataFrame:
    """Return per broker and second the `bytes` that it fetched in sync: as its own sidecar tells, or, where that
    records no fetches, as the sidecars of its leaders do, as far as these are there."""
    leads = F.col("role") == "leader"
    fetcher = F.when(leads, F.expr("try_cast(peer as bigint)")).otherwise(F.col("broker"))
    size = F.when(F.col("in_sync"), F.col("record_bytes")).otherwise(0)
    seconds = traffic.groupBy(fetcher.alias("broker"), (~leads).alias("own"), "time").agg(F.sum(size).alias("bytes"))
    best = F.max("own").over(Window.partitionBy("broker"))
    known = seconds.where("broker is not null").withColumn("best", best)
    return known.where(F.col("own") == F.col("best"))


def measure(replicas: DataFrame, link_seconds: DataFrame) -> tuple[dict[TopicPartition, Size], dict[int, float]]:
    """Return sizes by partition and inflow by broker. Of several brokers that led a partition the last one counts; a
    partition whose size cannot be told has none.

    replicas: what `partition_sizes.whole` says. link_seconds: the seconds table, or what `traffic` says of them.
    """
    sizes = {
        TopicPartition(row.topic, row.partition): Size(
            _broker(row.source), row.size_bytes, row.written_bytes_per_second
        )
        for row in sorted(written(replicas).collect(), key=lambda row: (row.last_seen, row.source))
        if row.size_bytes is not None
    }
    return sizes, {int(row.broker): row.inflow_bytes_per_second for row in inflow(link_seconds).collect()}


def _broker(source: str) -> int | None:
    """Return the source's broker id; None for a peer that is known by its address alone."""
    return int(source) if source.isdecimal() else None
