"""Journals of a made-up cluster, whose truth is known: to test jobs against it, and to see how they grow.

B brokers in a ring, P partitions: partition p is led by broker p mod B, and the next broker in the ring catches up on
it. Both sidecars keep a journal. Every second a role moves exactly its quota, and all partitions have equal shares but
a hot one. In the second of an injected violation it moves twice the quota, during a stall nothing. Only DataFrames, so
that it grows as far as the cluster it runs on. Invariant: everything is a formula of (partition, second): no state, no
randomness.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from pyspark import StorageLevel
from pyspark.sql import functions as F

from journal_schema import COMMON, KINDS, LINE_SECONDS, REPLICAS, SHAPE_PARTS, SHAPE_SILENT, VERSION, Kind

from ..tables.schema import EVENTS, TRAFFIC

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame, SparkSession

FIRST_BROKER = 101
START_SECONDS = 1_795_226_400
"""2026-11-21T02:00:00Z."""
BYTES_PER_MESSAGE = 1000
HEADER_BYTES = 18
"""Bytes of an entry's header in Fetch v3 (message spec FetchResponse.json)."""
FETCHES, OMITTED = 10, 8
"""How often a partition is fetched, and left out, in one second."""
RUN = "20261121T020000Z-gen"
FILES_BEGIN = "journal-generated"


@dataclass(frozen=True, slots=True)
class Cluster:
    """A made-up cluster: what is generated, and so what a job has to find.

    violations: (leader's id, second) in which twice the quota moved.
    stalls: (leader's id, first second, second after the last) in which nothing moved.
    hot_share: the share of its leader's traffic that partition 0 has.
    """

    brokers: int = 3
    partitions: int = 6
    seconds: int = 120
    quota_bytes_per_second: int = 6_000_000
    written_bytes_per_second: int = 10_000
    """The rate at which producers write to each partition."""
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
    def rows(self) -> int:
        """Seconds of partitions, at both ends."""
        return 2 * self.partitions * self.seconds

    @property
    def lines(self) -> int:
        """The number of traffic lines: one per link and fifteen seconds, at both ends."""
        return 2 * self.brokers * -(-self.seconds // LINE_SECONDS)

    def messages_per_second(self, partition: int) -> int:
        """Return how far `partition` gets in an ordinary second, in whole messages."""
        total = self.quota_bytes_per_second // BYTES_PER_MESSAGE
        others = self.partitions_per_leader - 1
        if self.hot_share is None or partition % self.brokers or not others:
            return total // self.partitions_per_leader
        return int(total * self.hot_share) if partition == 0 else int(total * (1 - self.hot_share)) // others


def traffic(spark: SparkSession, cluster: Cluster) -> DataFrame:
    """Return all rows of the traffic table, unordered."""
    ids = spark.range(cluster.partitions * cluster.seconds).select(
        (F.col("id") % cluster.partitions).alias("partition"),
        F.floor(F.col("id") / cluster.partitions).alias("tick"),
    )
    tick = F.col("tick")
    moved = _of_partition(ids, cluster).select("*", _bytes(cluster, tick).alias("size"))
    size, time = F.col("size"), tick + START_SECONDS
    rows = moved.select("*", _both_sides()).select(
        F.lit(VERSION).alias("v"), time.alias("time"), F.lit(RUN).alias("run"), "tick",
        (tick - tick % LINE_SECONDS).alias("line_tick"), "side.role", "side.peer", F.lit("generated").alias("topic"),
        "partition", F.lit(True).alias("throttled"), F.lit(False).alias("in_sync"), size.alias("record_bytes"),
        # Leaders' quotas count headers too; they are small enough to stay within the promise.
        F.when(size > 0, size + HEADER_BYTES).otherwise(0).alias("wire_bytes"),
        F.when(size > 0, FETCHES).otherwise(0).alias("fetches"), F.lit(OMITTED).alias("omitted"),
        _offset(cluster, tick - 1).alias("fetch_offset_before"), _offset(cluster, tick).alias("fetch_offset"),
        _high_watermark(cluster, tick).alias("high_watermark"), F.lit(0).alias("log_start_offset"),
        F.to_date(F.timestamp_seconds(time)).alias("date"), "side.broker",
    )  # fmt: skip
    return rows.select([F.col(field.name).cast(field.dataType) for field in TRAFFIC])


def lines(spark: SparkSession, cluster: Cluster) -> DataFrame:
    """Return the same as traffic lines, one row each, with the fields of the journal's schema."""
    blocks = -(-cluster.seconds // LINE_SECONDS)
    ids = spark.range(cluster.partitions * blocks).select(
        (F.col("id") % cluster.partitions).alias("partition"),
        (F.floor(F.col("id") / cluster.partitions) * LINE_SECONDS).alias("tick"),
    )
    tick = F.col("tick")
    last = F.least(tick + (LINE_SECONDS - 1), F.lit(cluster.seconds - 1))
    sized = _of_partition(ids, cluster).select(
        "*", last.alias("last"), F.transform(F.sequence(tick, last), lambda at: _bytes(cluster, at)).alias("sizes")
    )
    busy = F.size(F.filter("sizes", lambda size: size > 0))
    replica = F.struct(
        F.lit("generated").alias("topics"), F.col("partition").alias("partitions"), _shape().alias("shapes"),
        F.aggregate("sizes", F.lit(0).cast("long"), lambda one, other: one + other).alias("record_bytes"),
        (busy * HEADER_BYTES).alias("header_bytes"), (busy * FETCHES).alias("fetches"),
        (F.size("sizes") * OMITTED).alias("omitted"), _offset(cluster, tick - 1).alias("fetch_offset_before"),
        _offset(cluster, F.col("last")).alias("fetch_offset"),
        _high_watermark(cluster, tick - 1).alias("high_watermark_before"),
        _high_watermark(cluster, F.col("last")).alias("high_watermark"), F.lit(0).alias("log_start_offset"), "sizes",
    )  # fmt: skip
    linked = sized.select("tick", _both_sides(), replica.alias("replica")).groupBy("tick", "side")
    grouped = linked.agg(F.sort_array(F.collect_list("replica")).alias("replicas"))
    return grouped.select(
        F.lit(VERSION).alias("v"), F.lit(Kind.TRAFFIC.value).alias("kind"), (tick + START_SECONDS).alias("time"),
        "side.broker", F.lit(RUN).alias("run"), "tick", "side.role", "side.peer", F.lit(True).alias("throttled"),
        F.lit(False).alias("in_sync"), _each_second(lambda size: size).alias("second_record_bytes"),
        _each_second(lambda size: size + F.when(size > 0, HEADER_BYTES).otherwise(0)).alias("second_wire_bytes"),
        _each_second(lambda size: F.when(size > 0, FETCHES).otherwise(0)).alias("second_fetches"),
        _each_second(lambda _: F.lit(OMITTED)).alias("second_omitted"),
        *(F.col(f"replicas.{field.name}").alias(field.name) for field in REPLICAS),
    )  # fmt: skip


def events(spark: SparkSession, cluster: Cluster) -> DataFrame:
    """Return the quota events of every broker and role, at the start."""
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
    """Write it all as journal files, gzip, `files` of them with a few brokers' lines each, and one for the events.
    Each ends with a line that says how many are before it, as a sidecar's does."""
    spark.conf.set("mapreduce.output.basename", FILES_BEGIN)
    try:
        told = events(spark, cluster).withColumn("kind", F.lit(Kind.QUOTA.value))
        quotas = told.select([field.name for field in (*COMMON, *KINDS[Kind.QUOTA])]).coalesce(1)
        for frame in (lines(spark, cluster).repartitionByRange(files, "broker", "time"), quotas):
            text = frame.select(F.to_json(F.struct(*frame.columns)).alias("value")).persist(StorageLevel.DISK_ONLY)
            _closed(text).write.mode("append").option("compression", "gzip").text(target)
            text.unpersist()
    finally:
        spark.conf.unset("mapreduce.output.basename")


def _closed(text: DataFrame) -> DataFrame:
    """Return the lines of each partition, which is a file, the last of them with the closing line after it."""
    numbered = text.select("value", F.monotonically_increasing_id().alias("id"), F.spark_partition_id().alias("file"))
    ends = numbered.groupBy("file").agg(F.max("id").alias("id"), F.count("*").alias("lines"))
    values = {
        "v": F.lit(VERSION), "kind": F.lit(Kind.FILE_CLOSED.value), "time": F.lit(START_SECONDS),
        "broker": F.lit(FIRST_BROKER), "run": F.lit(RUN), "tick": F.lit(0), "lines": F.col("lines"),
        "file": F.concat(F.lit(f"{FILES_BEGIN}-"), F.col("file")),
    }  # fmt: skip
    foot = F.to_json(F.struct(*(values[field.name].alias(field.name) for field in (*COMMON, *KINDS[Kind.FILE_CLOSED]))))
    joined = numbered.join(F.broadcast(ends.select("id", foot.alias("foot"))), on="id", how="left")
    return joined.select(F.concat_ws("\n", "value", "foot").alias("value"))


def _of_partition(ids: DataFrame, cluster: Cluster) -> DataFrame:
    """Add leader, follower, and `rate`: messages in an ordinary second. It has one value for the hot partition, one for
    the others of its leader, and one for all the rest."""
    partition = F.col("partition")
    rate = (
        F.when(partition == 0, cluster.messages_per_second(0))
        .when(partition % cluster.brokers == 0, cluster.messages_per_second(cluster.brokers))
        .otherwise(cluster.messages_per_second(1))
    )
    leader = partition % cluster.brokers + FIRST_BROKER
    follower = (partition + 1) % cluster.brokers + FIRST_BROKER
    return ids.select("partition", "tick", leader.alias("leader"), follower.alias("follower"), rate.alias("rate"))


def _both_sides() -> Column:
    leader, follower = F.col("leader"), F.col("follower")

    def side(role: str, broker: Column, peer: Column) -> Column:
        return F.struct(F.lit(role).alias("role"), broker.alias("broker"), peer.cast("string").alias("peer"))

    return F.explode(F.array(side("leader", leader, follower), side("follower", follower, leader))).alias("side")


def _bytes(cluster: Cluster, tick: Column) -> Column:
    return F.col("rate") * _seconds_worth(cluster, tick) * BYTES_PER_MESSAGE


def _offset(cluster: Cluster, tick: Column) -> Column:
    """Return the offset that the follower asks for at the end of that second; 0 before the first."""
    moved = _seconds_worth_before(cluster, tick) + _seconds_worth(cluster, tick)
    return F.when(tick < 0, 0).otherwise(F.col("rate") * moved)


def _high_watermark(cluster: Cluster, tick: Column) -> Column:
    """Return a high watermark so far ahead that no replica catches up."""
    lead = 3 * cluster.seconds * cluster.quota_bytes_per_second // BYTES_PER_MESSAGE
    return F.lit(lead) + tick * (cluster.written_bytes_per_second // BYTES_PER_MESSAGE)


def _shape() -> Column:
    most = F.array_max("sizes")
    code = ord(SHAPE_SILENT) + 1

    def character(size: Column) -> Column:
        parts = F.greatest(F.round(size * SHAPE_PARTS / most), F.lit(1)).cast("int")
        return F.when(size > 0, F.char(parts + code)).otherwise(chr(code))

    return F.array_join(F.transform("sizes", character), "")


def _each_second(worth: Callable[[Column], Column]) -> Column:
    """Return one element per second: the sum over all replicas of what their bytes in it are worth."""

    def second(at: Column) -> Column:
        return F.aggregate(
            F.col("replicas.sizes"),
            F.lit(0).cast("long"),
            lambda so_far, sizes: so_far + worth(F.element_at(sizes, at)).cast("long"),
        )

    return F.transform(F.sequence(F.lit(1), F.size(F.element_at("replicas.sizes", 1))), second)


def _seconds_worth(cluster: Cluster, tick: Column) -> Column:
    """Return 1 for an ordinary second, 2 for a violation, 0 while stalled."""
    twice = [(F.col("leader") == leader) & (tick == second) for leader, second in cluster.violations]
    never = [(F.col("leader") == leader) & tick.between(first, end - 1) for leader, first, end in cluster.stalls]
    found = F.lit(1)
    for condition in twice:
        found = F.when(condition, 2).otherwise(found)
    for condition in never:
        found = F.when(condition, 0).otherwise(found)
    return found


def _seconds_worth_before(cluster: Cluster, tick: Column) -> Column:
    """Return how many ordinary seconds' worth moved before this one."""
    more = [
        F.when((F.col("leader") == leader) & (tick > second), 1).otherwise(0) for leader, second in cluster.violations
    ]
    less = [
        F.when(F.col("leader") == leader, F.greatest(F.least(tick, F.lit(end)) - first, F.lit(0))).otherwise(0)
        for leader, first, end in cluster.stalls
    ]
    return reduce(lambda one, other: one - other, less, reduce(lambda one, other: one + other, more, tick))
