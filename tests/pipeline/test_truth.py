"""Generated clusters with known truth: what was injected is found, all of it, and nothing else."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from benchmarks.ring import BYTES_PER_MESSAGE, FETCHES, HEADER_BYTES, OMITTED, START_SECONDS, Cluster
from pipeline.jobs.audit import seconds_with_quota, summary, violations
from pipeline.jobs.lag import per_replica, progress, stalls, sum_replica_lag
from pipeline.jobs.rates import LEVELS, per_second
from tests.pipeline.frames import ingested

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from pipeline.tables import Tables

CLUSTER = Cluster(
    brokers=3,
    partitions=6,
    seconds=200,
    violations=((101, 17), (103, 90)),
    stalls=((102, 100, 180),),
    hot_share=0.8,
)


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Tables:
    return ingested(spark, CLUSTER, tmp_path_factory.mktemp("truth"))


def test_injected_violations_are_found_and_nothing_else(tables: Tables) -> None:
    seconds = seconds_with_quota(tables.seconds, tables.events).cache()
    found = {
        (row.broker, row.role, row.time - START_SECONDS)
        for row in violations(seconds).where("window_seconds = 1").collect()
    }
    expected = {(leader, "leader", second) for leader, second in CLUSTER.violations}
    expected |= {(CLUSTER.follower_of(leader), "follower", second) for leader, second in CLUSTER.violations}
    assert found == expected
    # Eleven seconds with a violation in them move twelve seconds' worth: 12/11 = 1.09 of what is allowed.
    elevens = violations(seconds).where("window_seconds = 11").collect()
    assert {(row.broker, row.role) for row in elevens} == {(broker, role) for broker, role, _ in expected}
    assert len(elevens) == 11 * len(expected)
    rows = {(row.broker, row.role): row for row in summary(seconds).collect()}
    assert rows[101, "leader"].worst_1s == pytest.approx(2.0, rel=1e-3)  # shares of whole messages
    assert (rows[102, "leader"].kept, rows[101, "leader"].kept) == (True, False)
    assert rows[102, "leader"].smoothness < 1e-9


def test_an_injected_stall_is_found_and_nothing_else(tables: Tables) -> None:
    behind = progress(sum_replica_lag(per_replica(tables.traffic)))
    found = stalls(behind, tables.seconds, tables.events).collect()
    assert {(row.broker, row.role) for row in found} == {(102, "leader"), (103, "follower")}
    # A minute that has a second with bytes in it came nearer.
    assert {row.time - START_SECONDS for row in found} <= set(range(100, 200))
    assert {row.time - START_SECONDS for row in found} >= set(range(161, 180))
    assert {row.cause for row in found if 161 <= row.time - START_SECONDS < 180} == {"held back, and nothing moves"}


def test_the_pace_and_what_remains_are_the_truth(spark: SparkSession, tmp_path: Path) -> None:
    cluster = Cluster(brokers=2, partitions=4, seconds=90)
    row = (
        progress(sum_replica_lag(per_replica(ingested(spark, cluster, tmp_path).traffic)))
        .where(f"time = {START_SECONDS + 80} and role = 'leader' and broker = 101")
        .first()
    )
    assert row is not None
    gain = 6000 - 2 * 10  # messages a second, less what producers write into two partitions
    lag = 2 * (3 * 90 * 6000 + 80 * 10) - 81 * 6000
    assert (row.lag, row.pace) == (lag, pytest.approx(gain * BYTES_PER_MESSAGE, rel=1e-3))
    assert row.remaining_bytes == pytest.approx(lag * BYTES_PER_MESSAGE, rel=1e-3)


def test_the_hot_partition_stands_out(tables: Tables) -> None:
    rows = per_second(tables.traffic, LEVELS["partition"]).where("role = 'leader' and broker = 101")
    total = {
        row.partition: row.total for row in rows.groupBy("partition").sum("bytes").toDF("partition", "total").collect()
    }
    assert total[0] / sum(total.values()) == pytest.approx(0.8, rel=1e-3)


def test_a_second_of_a_partition_is_what_its_line_says(spark: SparkSession, tmp_path: Path) -> None:
    """The last line of each link is shorter than the others. In a line with a violation an ordinary second of a
    partition is 28 parts to its 55, not half; all else is the same to the byte."""
    cluster = Cluster(brokers=2, partitions=4, seconds=53, violations=((101, 17),))
    found = ingested(spark, cluster, tmp_path)
    assert found.traffic.count() == cluster.rows
    rows = {(row.broker, row.role, row.partition, row.tick): row for row in found.traffic.collect()}
    assert len(rows) == cluster.rows
    bytes_by_line: Counter[tuple[int, str, int, int]] = Counter()
    for (broker, role, partition, tick), row in rows.items():
        leader = 101 + partition % 2
        size = cluster.messages_per_second(partition) * BYTES_PER_MESSAGE
        bytes_by_line[broker, role, partition, row.line_tick] += row.record_bytes
        if not 15 <= tick < 30:
            assert (broker, row.peer) == (
                (leader, str(203 - leader)) if role == "leader" else (203 - leader, str(leader))
            )
            assert (row.topic, row.time, row.line_tick) == ("generated", START_SECONDS + tick, tick - tick % 15)
            assert (row.record_bytes, row.wire_bytes, row.fetches, row.omitted) == (
                size, size + HEADER_BYTES, FETCHES, OMITTED
            )  # fmt: skip
            assert (row.fetch_offset_before, row.fetch_offset, row.high_watermark) == (
                cluster.offset(partition, tick - 1), cluster.offset(partition, tick), cluster.high_watermark(tick)
            )  # fmt: skip
    size = 3_000_000
    assert bytes_by_line == {
        (broker, role, partition, first): size * (min(15, 53 - first) + (first == 15 and partition in (0, 2)))
        for broker, role, partition, first in bytes_by_line
    }
    seconds = {(row.broker, row.role, row.tick): row for row in found.seconds.collect()}
    assert len(seconds) == 2 * 2 * 53
    for (broker, role, tick), row in seconds.items():
        worth = 2 if (tick == 17 and (broker, role) in ((101, "leader"), (102, "follower"))) else 1
        assert (row.record_bytes, row.wire_bytes) == (6_000_000 * worth, 6_000_000 * worth + 2 * HEADER_BYTES)
        assert (row.fetches, row.omitted) == (2 * FETCHES, 2 * OMITTED)


def test_partitions_that_do_not_fit_the_ring_are_refused() -> None:
    with pytest.raises(ValueError, match=r"expected partitions \(4\) to be a multiple of brokers, found 3"):
        Cluster(brokers=3, partitions=4)
