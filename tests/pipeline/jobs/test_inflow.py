"""What brokers take in while in sync."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pipeline.jobs.rates import inflow
from tests.pipeline.frames import traffic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MB = 1_000_000.0


def measured(lines: DataFrame) -> dict[int, float]:
    return {row.broker: row.inflow_bytes_per_second for row in inflow(lines).collect()}


def in_sync(*, at: int, size: int, **values: Any) -> dict[str, Any]:
    own = {"role": "follower", "in_sync": True, "fetch_offset": at, "high_watermark": at}
    return {**own, "at": at, "record_bytes": size, **values}


def test_what_a_broker_fetches_in_sync_is_its_inflow(spark: SparkSession) -> None:
    """3000 bytes a second in sync, beside a replica that catches up."""
    rows = [{"at": at, "role": "follower", "fetch_offset": 10 * at, "high_watermark": 500} for at in range(60)]
    rows += [in_sync(at=at, partition=1, size=3000) for at in range(60)]
    assert measured(traffic(spark, rows)) == {101: pytest.approx(3000)}


def test_where_only_the_ingress_records_inflow_is_what_leaders_sent(spark: SparkSession) -> None:
    """101 and 103 send 104 10 and 5 MB/s in sync, and 101 as much to 102, which tells itself what it took in; a peer
    that is known by its address alone is no broker."""
    rows = [
        row
        for at in range(60)
        for row in (
            *(in_sync(at=at, size=size, broker=broker, role="leader", peer=peer)
              for broker, peer, size in ((101, "104", 10_000_000), (103, "104", 5_000_000), (101, "102", 10_000_000),
                                         (101, "10.0.0.9", 1000))),
            in_sync(at=at, size=9_000_000, broker=102, peer="101"),
        )
    ]  # fmt: skip
    assert measured(traffic(spark, rows)) == {104: pytest.approx(15 * MB), 102: pytest.approx(9 * MB)}


def test_minutes_in_which_nothing_came_count(spark: SparkSession) -> None:
    """A minute of 10 MB/s, and a byte ten hours later: but for one of 601 minutes the inflow was nothing. Another
    broker took in 1, 2, ... 20 bytes a second, in every other minute of 39."""
    rows = [in_sync(at=at, size=10_000_000) for at in range(60)] + [in_sync(at=36_000, size=1)]
    rows += [in_sync(at=120 * n, size=60 * (n + 1), broker=102) for n in range(20)]
    rows += [in_sync(at=120 * 19 + 59, size=0, broker=102)]
    assert measured(traffic(spark, rows)) == {101: pytest.approx(0, abs=1e-9), 102: pytest.approx(18.1)}


def test_minutes_that_are_not_over_count_as_long_as_they_were(spark: SparkSession) -> None:
    """90 seconds at 3000 bytes a second, from the fiftieth second of a minute on: no minute of a clock is full."""
    rows = [
        {"at": 50 + at, "role": "follower", "in_sync": True, "fetch_offset": 30 * at, "high_watermark": 30 * at,
         "record_bytes": 3000}
        for at in range(90)
    ]  # fmt: skip
    assert measured(traffic(spark, rows)) == {101: pytest.approx(3000)}
