"""Rates inside a quota are audited as the quotas of roles are, and change nothing for these."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from pipeline.jobs.audit import seconds_with_quota, summary
from pipeline.jobs.inner_rates import with_bounds
from tests.pipeline.frames import quotas, traffic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.long

BOUNDS = json.dumps({"peers": {"102": 100.0}, "racks": {"b": {"bytes_per_second": 300.0, "brokers": [102, 103]}}})


def links(spark: SparkSession) -> DataFrame:
    """Every second 90 bytes to 102, 150 to 103 and 500 to 104; but 400 to 103 in the sixth."""
    sizes = {"102": 90, "103": 150, "104": 500}
    return traffic(
        spark,
        [
            {"at": at, "peer": peer, "record_bytes": 400 if (at, peer) == (5, "103") else size, "omitted": 1}
            for at in range(20)
            for peer, size in sizes.items()
        ],
    )


def test_each_is_judged_by_the_bytes_of_its_links(spark: SparkSession) -> None:
    said = quotas(spark, [(0, 1000.0)], bounds=BOUNDS)
    rows = {row.role: row for row in summary(seconds_with_quota(*with_bounds(links(spark), said))).collect()}
    assert {role: row.verdict for role, row in rows.items()} == {
        "leader": "kept", "leader, peer 102": "kept", "leader, rack b": "broken",
    }  # fmt: skip
    assert (rows["leader, rack b"].limit, rows["leader, rack b"].over_1s) == (300.0, 1)
    assert rows["leader, peer 102"].worst_1s == 0.9
    alone = summary(seconds_with_quota(links(spark), said)).collect()
    assert alone == [rows["leader"]]


def rack(*brokers: int) -> str:
    return json.dumps({"racks": {"b": {"bytes_per_second": 100.0, "brokers": list(brokers)}}})


def test_each_second_is_judged_by_the_brokers_that_were_known_in_it(spark: SparkSession) -> None:
    """After a start nobody knows who is in the rack; then 102 is, with 90 bytes a second, and not 103, with 150 and
    400, which comes into it for the last ten."""
    starting = quotas(spark, [(0, 1000.0)], bounds=rack(), reason="start")
    known = quotas(spark, [(3, 1000.0)], bounds=rack(102), reason="racks")
    said = starting.unionByName(known)
    (found,) = summary(seconds_with_quota(*with_bounds(links(spark), said))).where("role = 'leader, rack b'").collect()
    # The second of the change had no limit and one.
    assert (found.seconds, found.bytes, found.verdict) == (16, 16 * 90, "kept")
    moved = said.unionByName(quotas(spark, [(10, 1000.0)], bounds=rack(103), reason="racks"))
    (found,) = summary(seconds_with_quota(*with_bounds(links(spark), moved))).where("role = 'leader, rack b'").collect()
    # When in its second 103 came into the rack, and 102 left it, is not known: neither counts.
    assert (found.bytes, found.over_1s, found.verdict) == (6 * 90 + 9 * 150, 9, "broken")


def test_a_rate_that_is_taken_out_bounds_nothing_from_then_on(spark: SparkSession) -> None:
    said = quotas(spark, [(0, 1000.0)], bounds=BOUNDS).unionByName(quotas(spark, [(3, 1000.0)]))
    found = summary(seconds_with_quota(*with_bounds(links(spark), said))).where("role = 'leader, rack b'").collect()
    # The second of the change had a limit and none, and is the last one that had any.
    assert [(row.seconds, row.over_1s, row.verdict) for row in found] == [(3, 0, "kept")]


def test_without_any_nothing_is_another(spark: SparkSession) -> None:
    seconds, said = links(spark), quotas(spark, [(0, 1000.0)])
    assert with_bounds(seconds, said) == (seconds, said)
