"""Which quota held in a second, over days: by the table of periods, and one by one."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from pipeline.jobs.quotas import DAY_SECONDS, with_period

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY = DAY_SECONDS
CHANGES = {
    ("101", "leader"): [DAY - 1, DAY, DAY + 1, 4 * DAY, 4 * DAY + 7, 9 * DAY - 1],
    ("101", "follower"): [5 * DAY],
    ("102", "leader"): sorted(random.Random(7).sample(range(2 * DAY, 3 * DAY), 40)),
}
"""Seconds in which a quota changed, by broker and role."""


def in_force(broker: str, role: str, when: int) -> int | None:
    return max((since for since in CHANGES.get((broker, role), []) if since <= when), default=None)


@pytest.mark.parametrize("earlier", [0, 1])
def test_each_second_has_the_quota_that_held_in_it(spark: SparkSession, earlier: int) -> None:
    """`earlier`: the second of a change belongs to what was before it."""
    periods = [
        (broker, role, since, until)
        for (broker, role), times in CHANGES.items()
        for since, until in zip(times, [*times[1:], None], strict=True)
    ]
    edges = {time + off for times in CHANGES.values() for time in times for off in (-1, 0, 1)} | {0, 7 * DAY, 99 * DAY}
    asked = [(broker, role, time) for broker, role in [*CHANGES, ("103", "leader")] for time in sorted(edges)]
    found = spark.createDataFrame(periods, "broker string, role string, since long, until long")
    rows = spark.createDataFrame(asked, "broker string, role string, time long")
    held = with_period(rows, found, F.col("time") - earlier)
    assert held.columns == ["broker", "role", "time", "period"]
    said = {(row.broker, row.role, row.time): row.period and row.period.since for row in held.collect()}
    assert said == {(broker, role, time): in_force(broker, role, time - earlier) for broker, role, time in asked}
    assert len(said) == len(asked)
