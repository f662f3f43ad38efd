"""Generated clusters with known truth: what was injected is found, all of it, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pipeline.jobs.audit import seconds_with_quota, summary, violations
from pipeline.jobs.lag import per_replica, progress, stalls, sum_replica_lag
from pipeline.jobs.rates import LEVELS, per_second
from pipeline.journals import generate
from pipeline.journals.generate import START_SECONDS, Cluster
from pipeline.journals.ingest import ingest
from pipeline.tables import Tables

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

CLUSTER = Cluster(
    brokers=3,
    partitions=6,
    seconds=200,
    violations=((101, 17), (103, 90)),
    stalls=((102, 100, 180),),
    hot_share=0.8,
)


def test_injected_violations_are_found_and_nothing_else(spark: SparkSession) -> None:
    seconds = seconds_with_quota(generate.traffic(spark, CLUSTER), generate.events(spark, CLUSTER)).cache()
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


def test_an_injected_stall_is_found_and_nothing_else(spark: SparkSession) -> None:
    lines = generate.traffic(spark, CLUSTER)
    found = stalls(progress(sum_replica_lag(per_replica(lines))), lines, generate.events(spark, CLUSTER)).collect()
    assert {(row.broker, row.role) for row in found} == {(102, "leader"), (103, "follower")}
    # The trend of a minute turns half a minute after the stall began, and turns back half a minute after its end.
    assert {row.time - START_SECONDS for row in found} <= set(range(100, 200))
    assert {row.time - START_SECONDS for row in found} >= set(range(161, 180))
    assert {row.cause for row in found if 161 <= row.time - START_SECONDS < 180} == {"held back, and nothing moves"}


def test_the_eta_is_the_truth_and_its_interval_holds_it(spark: SparkSession) -> None:
    cluster = Cluster(brokers=2, partitions=4, seconds=90)
    row = (
        progress(sum_replica_lag(per_replica(generate.traffic(spark, cluster))))
        .where(f"time = {START_SECONDS + 80} and role = 'leader' and broker = 101")
        .first()
    )
    assert row is not None
    gain = 6000 - 2 * 10  # messages a second, less what producers write into two partitions
    lag = 2 * (3 * 90 * 6000 + 80 * 10) - 81 * 6000
    assert (row.lag, row.drain) == (lag, pytest.approx(gain))
    assert row.eta_low <= lag / gain <= row.eta_high
    assert row.eta_seconds == pytest.approx(lag / gain)


def test_the_hot_partition_stands_out(spark: SparkSession) -> None:
    rows = per_second(generate.traffic(spark, CLUSTER), LEVELS["partition"]).where("role = 'leader' and broker = 101")
    total = {
        row.partition: row.total for row in rows.groupBy("partition").sum("bytes").toDF("partition", "total").collect()
    }
    assert total[0] / sum(total.values()) == pytest.approx(0.8, rel=1e-3)


def test_files_of_a_generated_cluster_are_journals(spark: SparkSession, tmp_path: Path) -> None:
    """The last line of each link is shorter than the others. In a line with a violation an ordinary second of a
    partition is 28 parts to its 55, not half; all else is the same to the byte."""
    cluster = Cluster(brokers=2, partitions=4, seconds=53, violations=((101, 17),))
    generate.write(spark, cluster, str(tmp_path / "journal"), files=3)
    outcome = ingest(spark, [str(tmp_path / "journal")], str(tmp_path / "tables"))
    files = len(list((tmp_path / "journal").glob("journal-*")))
    assert (outcome.lines, outcome.quarantined, outcome.files) == (cluster.lines + 4 + files, 0, {"whole": files})
    found = Tables(spark, str(tmp_path / "tables"))
    truth = generate.traffic(spark, cluster)
    ordinary = f"not (time - {START_SECONDS} between 15 and 29)"
    assert found.traffic.where(ordinary).exceptAll(truth.where(ordinary)).count() == 0
    assert found.traffic.count() == cluster.rows
    counts = ("record_bytes", "wire_bytes", "fetches", "omitted")
    for by, rows in (
        (("broker", "role", "topic", "partition", "line_tick"), found.traffic),
        (("broker", "role", "peer", "time"), found.seconds),
    ):
        sums, true = (frame.groupBy(*by).sum(*counts) for frame in (rows, truth))
        assert (sums.exceptAll(true).count(), true.exceptAll(sums).count()) == (0, 0)


def test_partitions_that_do_not_fit_the_ring_are_refused() -> None:
    with pytest.raises(ValueError, match=r"expected partitions \(4\) to be a multiple of brokers, found 3"):
        Cluster(brokers=3, partitions=4)
