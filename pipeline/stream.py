"""The live journals as they grow: progress, ETA and stalls, every few seconds, in Parquet and for Prometheus.

Spark's Structured Streaming over the closed journal files (a sidecar closes one every `journal.rotate_every`: set it to
some ten seconds to watch live). Seconds are summed up per broker and role under a watermark, and written once by the
checkpoint's log, also when killed between two batches. Invariant: a second that was written is never changed; lines
that come later than `LATE_SECONDS` are not counted here (`ingest` counts them).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from journal_schema import Kind

from .lines import parse
from .tables import accounted_bytes
from .unfold import replica_seconds

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

LATE_SECONDS = 60
"""Twice what sidecars whose files are closed at different times need."""
TREND_SECONDS = 60
CLOSED_FILES = "journal-*[0-9].{ndjson,txt}.gz"
"""Not those that are still being written: a stream reads each file once."""
PREFIX = "replication_pipeline_"


def live_lines(spark: SparkSession, source: str, *, files_at_once: int) -> DataFrame:
    """The lines of files as they are closed."""
    reader = spark.readStream.option("pathGlobFilter", CLOSED_FILES).option("recursiveFileLookup", "true")
    text = reader.option("maxFilesPerTrigger", files_at_once).option("ignoreCorruptFiles", "true").text(source)
    return parse(text.select("value", F.col("_metadata.file_name").alias("source")))


def seconds(lines: DataFrame) -> DataFrame:
    """Per broker, role and second: `bytes`, `in_sync_bytes`, `omitted`, `behind` (replicas that spoke), `lag` (their
    messages). A replica that is behind speaks every second, so nothing has to be carried on."""
    of_throttled = F.col("problem").isNull() & (F.col("kind") == Kind.TRAFFIC.value) & F.col("throttled")
    traffic = replica_seconds(lines.where(of_throttled))
    behind = ~F.col("in_sync") & (F.col("high_watermark") > F.col("fetch_offset"))
    counted = accounted_bytes()
    return (
        traffic.withColumn("at", F.timestamp_seconds("time"))
        .withWatermark("at", f"{LATE_SECONDS} seconds")
        .groupBy(F.window("at", "1 second"), "broker", "role")
        .agg(
            F.sum(counted).alias("bytes"),
            F.sum(F.when(F.col("in_sync"), counted).otherwise(0)).alias("in_sync_bytes"),
            F.sum("omitted").alias("omitted"),
            F.sum(behind.cast("int")).alias("behind"),
            F.sum(F.when(behind, F.col("high_watermark") - F.col("fetch_offset")).otherwise(0)).alias("lag"),
        )
        .select(
            F.unix_timestamp(F.col("window.start")).alias("time"),
            "broker", "role", "bytes", "in_sync_bytes", "omitted", "behind", "lag",
        )
    )  # fmt: skip


def start(
    spark: SparkSession, source: str, target: str, *, once: bool, files_at_once: int = 100, every: str = "5 seconds"
) -> StreamingQuery:
    """Begin, or go on where the checkpoint says; `once`: stop when what is there is done."""
    writer = (
        seconds(live_lines(spark, source, files_at_once=files_at_once))
        .writeStream.format("parquet")
        .outputMode("append")
        .option("path", f"{target}/seconds")
        .option("checkpointLocation", f"{target}/checkpoint")
        .queryName("pipeline stream")
    )
    trigger = writer.trigger(availableNow=True) if once else writer.trigger(processingTime=every)
    return trigger.start()


def state(done: DataFrame) -> DataFrame:
    """What the seconds written so far say of each broker and role now: `rate`, `lag`, `drain`, `eta_seconds`,
    `stalled`."""
    last = done.groupBy("broker", "role").agg(F.max("time").alias("last"))
    recent = done.join(last, ["broker", "role"]).where(F.col("time") > F.col("last") - TREND_SECONDS)
    drain = -F.regr_slope("lag", "time")
    summed = recent.groupBy("broker", "role").agg(
        F.max("time").alias("time"),
        (F.sum("bytes") / TREND_SECONDS).alias("rate"),
        F.max_by("lag", "time").alias("lag"),
        F.max_by("behind", "time").alias("behind"),
        F.sum("omitted").alias("omitted"),
        drain.alias("drain"),
    )
    eta = F.when(F.col("lag") == 0, 0.0).when(F.col("drain") > 0, F.col("lag") / F.col("drain"))
    stalled = (F.col("lag") > 0) & (F.coalesce(F.col("drain"), F.lit(0.0)) <= 0)
    return summed.select("*", eta.alias("eta_seconds"), stalled.alias("stalled")).orderBy("broker", "role")


METRICS = (
    ("rate_bytes_per_second", "rate", "Throttled bytes per second over the last minute seen."),
    ("lag_messages", "lag", "Messages that throttled replicas are behind."),
    ("eta_seconds", "eta_seconds", "Lag over the last minute's trend; absent while it does not shrink."),
    ("stalled", "stalled", "1 if replicas are behind and the lag does not shrink."),
    ("seen_timestamp_seconds", "time", "The last second that this is about."),
)


def exposition(rows: Iterable[Row]) -> str:
    """For node_exporter's textfile collector: Prometheus' text format."""
    found = list(rows)
    lines = []
    for name, column, meaning in METRICS:
        lines += [f"# HELP {PREFIX}{name} {meaning}", f"# TYPE {PREFIX}{name} gauge"]
        lines += [
            f'{PREFIX}{name}{{broker="{row.broker}",role="{row.role}"}} {float(row[column]):.10g}'
            for row in found
            if row[column] is not None
        ]
    return "\n".join(lines) + "\n"


def write_textfile(path: Path, text: str) -> None:
    """Whole or not at all, as the collector wants it."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(text)
    beside.replace(path)
