from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from admission.simple_rate import SimpleRate
from pipeline.jobs.rates import LEVELS, per_second, windowed
from tests.pipeline.frames import traffic
from tests.pipeline.journal_files import FIRST

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_each_role_is_counted_as_its_quota_counts(spark: SparkSession) -> None:
    rows = traffic(
        spark,
        [
            {"at": 0, "record_bytes": 100, "wire_bytes": 118, "omitted": 2},
            {"at": 0, "partition": 1, "record_bytes": 10, "wire_bytes": 28, "in_sync": True},
            {"at": 0, "partition": 2, "record_bytes": 7, "wire_bytes": 25, "throttled": False},
            {"at": 1, "record_bytes": 1, "wire_bytes": 19},
            {"at": 0, "role": "follower", "record_bytes": 50, "wire_bytes": 68},
        ],
    )
    found = {
        (row.role, row.time - FIRST): (row.bytes, row.in_sync_bytes, row.omitted)
        for row in per_second(rows, LEVELS["broker"]).collect()
    }
    assert found == {("leader", 0): (146, 28, 2), ("leader", 1): (19, 0, 0), ("follower", 0): (50, 0, 0)}


def test_partition_bytes_in_rate_counts_what_is_not_throttled_too(spark: SparkSession) -> None:
    rows = traffic(spark, [{"at": 0, "throttled": False}, {"at": 0, "partition": 1, "record_bytes": 5}])
    found = per_second(rows, LEVELS["partition"], throttled_only=False).collect()
    assert {row.partition: row.bytes for row in found} == {0: 1000, 1: 5}


def simple_rates(seconds: dict[int, int]) -> dict[int, float]:
    """What the sidecar's own arithmetic says, asked at the end of every second."""
    rate, found = SimpleRate(), {}
    for now in range(min(seconds), max(seconds) + 1):
        if now in seconds:
            rate.record(seconds[now], now)
        measured = rate.measure(now + 1)
        if now in seconds:
            found[now] = measured
    return found


def test_the_rate_is_the_sidecars_own(spark: SparkSession) -> None:
    """Every kind of gap: none, within the window, just at its ends, its multiples, far beyond."""
    chosen = random.Random(7)
    series: dict[int, dict[int, int]] = {0: dict.fromkeys(range(30), 100)}
    for broker in range(1, 60):
        at, seconds = 0, {}
        for _ in range(chosen.randint(1, 40)):
            at += chosen.choice([1, 1, 1, 1, 2, 3, 5, 10, 11, 12, 13, 22, 25, 33])
            seconds[at] = chosen.randint(1, 1 << 20)
        series[broker] = seconds
    frame = spark.createDataFrame(
        [(broker, "leader", at, size) for broker, seconds in series.items() for at, size in seconds.items()],
        "broker long, role string, time long, bytes long",
    )
    found: dict[int, dict[int, float]] = {}
    for row in windowed(frame, LEVELS["broker"]).collect():
        found.setdefault(row.broker, {})[row.time] = row.kip73_rate
    for broker, seconds in series.items():
        assert found[broker] == pytest.approx(simple_rates(seconds)), broker
    assert found[0][0] == 100
    assert found[0][29] == 100  # a steady rate is measured as such
