"""Journals of a cluster that never was, with known truth: for tests of truth, and to see how jobs grow.

B brokers in a ring, P partitions: partition p is led by broker p mod B, and the next broker in the ring catches up on
it. Both sidecars keep a journal. Every second a role moves exactly its quota, all partitions alike but a hot one;
where a violation is injected twice that, where a stall is, nothing. DataFrame only, one row per line, so that it grows
as far as the cluster it runs on. Invariant: everything is a formula of (partition, second): no state, no randomness.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from journal_schema import COMMON, KINDS, VERSION, Kind

from .schema import EVENTS, TRAFFIC

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

FIRST_BROKER = 101
START_SECONDS = 1_795_226_400
"""2026-11-21T02:00:00Z."""
BYTES_PER_MESSAGE = 1000
HEADER_BYTES = 18
"""Of an entry of Fetch v3 (message spec FetchResponse.json)."""
RUN = "20261121T020000Z-gen"
FILES_BEGIN = "journal-generated"


@dataclass(frozen=True, slots=True)
class Cluster:
    """What is generated, and thereby the truth.

    violations: (leader's id, second) in which twice the quota moved.
    stalls: (leader's id, first second, second after the last) in which nothing moved.
    hot_share: of its leader's traffic, for partition 0.
    """

    brokers: int = 3
    partitions: int = 6
    seconds: int = 120
    quota_bytes_per_second: int = 6_000_000
    written_bytes_per_second: int = 10_000
    """Producers', into each partition."""
    violations: tuple[tuple[int, int], ...] = ()
    stalls: tuple[tuple[int, int, int], ...] = ()
    hot_share: float | None = None

    def __post_init__(self) -> None:
        if self.partitions % self.brokers or self.brokers < 2:
            raise ValueError(
                f"expected partitions ({self.partitions}) to be a multiple of brokers, found {self.brokers}"
            )

    @property
    def partitions_per_leader(self) -> int:
        return self.partitions // self.brokers

    def follower_of(self, leader: int) -> int:
        return FIRST_BROKER + (leader - FIRST_BROKER + 1) % self.brokers

    @property
    def lines(self) -> int:
        return 2 * self.partitions * self.seconds

    def messages_per_second(self, partition: int) -> int:
        """How far `partition` gets in an ordinary second, in whole messages."""
        total = self.quota_bytes_per_second // BYTES_PER_MESSAGE
        others = self.partitions_per_leader - 1
        if self.hot_share is None or partition % self.brokers or not others:
            return total // self.partitions_per_leader
        return int(total * self.hot_share) if partition == 0 else int(total * (1 - self.hot_share)) // others


def traffic(spark: SparkSession, cluster: Cluster) -> DataFrame:
    """All traffic lines as rows of the traffic table, unordered."""
    ids = spark.range(cluster.partitions * cluster.seconds).select(
        (F.col("id") % cluster.partitions).alias("partition"),
        F.floor(F.col("id") / cluster.partitions).alias("tick"),
    )
    leader = F.col("partition") % cluster.brokers + FIRST_BROKER
    follower = (F.col("partition") + 1) % cluster.brokers + FIRST_BROKER
    moved = ids.select(
        "partition", "tick", leader.alias("leader"), follower.alias("follower"), _rate(cluster).alias("rate")
    ).select("*", _seconds_worth(cluster).alias("now"), _seconds_worth_before(cluster).alias("before"))
    size = F.col("rate") * F.col("now") * BYTES_PER_MESSAGE
    written = cluster.written_bytes_per_second // BYTES_PER_MESSAGE
    # Far enough ahead that nobody catches up.
    lead = 3 * cluster.seconds * cluster.quota_bytes_per_second // BYTES_PER_MESSAGE
    side = F.explode(
        F.array(
            F.struct(F.lit("leader").alias("role"), F.col("leader").alias("broker"), F.col("follower").alias("peer")),
            F.struct(F.lit("follower").alias("role"), F.col("follower").alias("broker"), F.col("leader").alias("peer")),
        )
    )
    time = F.col("tick") + START_SECONDS
    rows = moved.select("*", side.alias("side")).select(
        F.lit(VERSION).alias("v"), time.alias("time"), F.lit(RUN).alias("run"), "tick", "side.role",
        F.col("side.peer").cast("string").alias("peer"), F.lit("generated").alias("topic"), "partition",
        F.lit(True).alias("throttled"), F.lit(False).alias("in_sync"), size.alias("record_bytes"),
        # Leaders' quotas count headers too; they are small enough to stay within the promise.
        F.when(size > 0, size + HEADER_BYTES).otherwise(0).alias("wire_bytes"),
        F.when(size > 0, 10).otherwise(0).alias("fetches"), F.lit(8).alias("omitted"),
        (F.col("rate") * F.col("before")).alias("fetch_offset"),
        (F.lit(lead) + F.col("tick") * written).alias("high_watermark"), F.lit(0).alias("log_start_offset"),
        F.to_date(F.timestamp_seconds(time)).alias("date"), F.col("side.broker").alias("broker"),
    )  # fmt: skip
    return rows.select([F.col(field.name).cast(field.dataType) for field in TRAFFIC])


def events(spark: SparkSession, cluster: Cluster) -> DataFrame:
    """The quota events of every broker and role, at the start."""
    rows = spark.range(cluster.brokers).select(
        F.explode(F.array(F.lit("leader"), F.lit("follower"))).alias("role"),
        (F.col("id") + FIRST_BROKER).alias("broker"),
    )
    values = {
        "v": F.lit(VERSION), "kind": F.lit(Kind.QUOTA.value), "time": F.lit(START_SECONDS), "run": F.lit(RUN),
        "tick": F.lit(0), "role": F.col("role"), "bytes_per_second": F.lit(cluster.quota_bytes_per_second),
        "policy": F.lit("strict"), "enforce": F.lit(True), "selection": F.lit("*"), "reason": F.lit("start"),
        "date": F.to_date(F.timestamp_seconds(F.lit(START_SECONDS))), "broker": F.col("broker"),
    }  # fmt: skip
    return rows.select([values.get(field.name, F.lit(None)).cast(field.dataType).alias(field.name) for field in EVENTS])


def write(spark: SparkSession, cluster: Cluster, target: str, *, files: int) -> None:
    """Write it all as journal files, gzip, `files` of them and one for the events."""
    spark.conf.set("mapreduce.output.basename", FILES_BEGIN)
    try:
        lines = traffic(spark, cluster).repartitionByRange(files, "time")
        for frame, kind in ((lines, Kind.TRAFFIC), (events(spark, cluster).coalesce(1), Kind.QUOTA)):
            names = [field.name for field in (*COMMON, *KINDS[kind])]
            named = frame if "kind" in frame.columns else frame.withColumn("kind", F.lit(kind.value))
            text = named.select(F.to_json(F.struct(*names)).alias("value"))
            text.write.mode("append").option("compression", "gzip").text(target)
    finally:
        spark.conf.unset("mapreduce.output.basename")


def _rate(cluster: Cluster) -> Column:
    """Messages per ordinary second: of the hot partition, of those that share its leader, of all others."""
    return (
        F.when(F.col("partition") == 0, cluster.messages_per_second(0))
        .when(F.col("partition") % cluster.brokers == 0, cluster.messages_per_second(cluster.brokers))
        .otherwise(cluster.messages_per_second(1))
    )


def _seconds_worth(cluster: Cluster) -> Column:
    """1 for an ordinary second, 2 for a violation, 0 while stalled."""
    twice = [(F.col("leader") == leader) & (F.col("tick") == second) for leader, second in cluster.violations]
    never = [
        (F.col("leader") == leader) & F.col("tick").between(first, end - 1) for leader, first, end in cluster.stalls
    ]
    found = F.lit(1)
    for condition in twice:
        found = F.when(condition, 2).otherwise(found)
    for condition in never:
        found = F.when(condition, 0).otherwise(found)
    return found


def _seconds_worth_before(cluster: Cluster) -> Column:
    """Ordinary seconds' worth moved before this one."""
    more = [
        F.when((F.col("leader") == leader) & (F.col("tick") > second), 1).otherwise(0)
        for leader, second in cluster.violations
    ]
    less = [
        F.when(F.col("leader") == leader, F.greatest(F.least(F.col("tick"), F.lit(end)) - first, F.lit(0))).otherwise(0)
        for leader, first, end in cluster.stalls
    ]
    return reduce(lambda one, other: one - other, less, reduce(lambda one, other: one + other, more, F.col("tick")))
