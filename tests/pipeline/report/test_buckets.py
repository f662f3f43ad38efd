"""Which brokers something was the matter with."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import Row

from pipeline.report.buckets import MAX_ROWS, Cell, Columns, buckets, grid, link_grid, outliers
from pipeline.report.outlier import sides
from pipeline.report.overviews import link_map, share_map

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WINDOW = "struct<ratio: double, over: boolean>"
JUDGED = (
    "broker long, role string, time long, bytes long, `limit` double, quota double, enforce boolean,"
    f" `1s` {WINDOW}, `11s` {WINDOW}"
)
PROGRESS = "broker long, role string, time long, lag long, behind long, lost long, remaining_bytes long, pace double"


def test_each_kind_of_trouble_is_shown_before_a_second_one_of_any(spark: SparkSession) -> None:
    """Four were both ends of the same two violations, and who was stalled or behind had no plot."""
    judged = [
        (broker, "leader", at, 200, 100.0, 100.0, True, (2.0, True), (2.0, True))
        for broker, seconds in ((101, 4), (102, 4), (103, 3), (104, 3))
        for at in range(seconds)
    ]
    progress = [
        (broker, "leader", at, lag, 1, 0, 100 * lag, pace)
        for broker, lag, pace in ((105, 10, -1.0), (106, 20, 1.0), (107, 30, 1.0))
        for at in range(3)
    ]
    found = buckets(spark.createDataFrame(judged, JUDGED), spark.createDataFrame(progress, PROGRESS), 10)
    assert outliers(found) == [101, 105, 107, 102, 106, 103, 104]
    assert outliers(found, {107})[:5] == [101, 105, 107, 106, 102]
    # Of one that only a peer's rate bounds there is no row.
    assert outliers(found, {109, 108})[-2:] == [108, 109]


@pytest.mark.parametrize("first", [100.0, float("inf")], ids=["another quota before", "none before"])
def test_the_worst_second_is_told_by_its_own_bytes(spark: SparkSession, first: float) -> None:
    """A quota of 100, all of it used, and one of 10000: 2000 of it. The page said "at most 10000 B/s"."""
    judged = [
        (101, "leader", 0, 100, first, 100.0, True, (1.0, False), (0.1, False)),
        (101, "leader", 1, 2000, 10_000.0, 10_000.0, True, (0.2, False), (0.1, False)),
    ]
    found = buckets(spark.createDataFrame(judged, JUDGED), spark.createDataFrame([], PROGRESS), 10)
    (row,) = found.collect()
    assert (row.bytes, row.limit, row.worst, row.worst_bytes) == (2100, 10_000.0, 1.0, 2000)
    (one,) = sides([row], [Row(role="leader", since=0, limit=100.0)], {})
    assert [(point.bytes, point.worst) for point in one.points] == [(2100, 2000.0)]


def test_what_moved_under_a_quota_of_0_is_not_told_as_nothing(spark: SparkSession) -> None:
    judged = [
        (broker, "leader", at, size, 0.0, 0.0, True, (None, size > 0), (None, size > 0))
        for broker, size in ((101, 5000), (102, 0))
        for at in range(3)
    ]
    found = buckets(spark.createDataFrame(judged, JUDGED), spark.createDataFrame([], PROGRESS), 10)
    drawn = grid(found, 0, 2, 10)
    assert drawn.cells[101, "leader", 0] == Cell(None, None, True, 15_000)
    told = {row["row"]: (row["says"], row["framed"], row["strength"]) for row in share_map(drawn)["data"]["values"]}
    assert told["101 leader"] == ("bytes moved under a quota of 0, over its bound", True, 1.0)
    assert told["102 leader"][0] == "nothing moved under a quota"


def test_behind_by_messages_of_an_unknown_size_is_not_told_as_nothing(spark: SparkSession) -> None:
    """101 is 999 900 messages behind and gets no byte; 102 gets 50 messages of 100 bytes a second."""
    rows = [
        (broker, "leader", at, 999_900 - at * moved, 1, 0, 100 * (999_900 - at * moved) if moved else None, 1.0)
        for broker, moved in ((101, 0), (102, 50))
        for at in range(20)
    ]
    found = buckets(spark.createDataFrame([], JUDGED), spark.createDataFrame(rows, PROGRESS), 10).cache()
    assert outliers(found) == [102, 101]
    (one,) = sides(found.where("broker = 101").orderBy("bucket").collect(), [], {})
    assert [point.lag_bytes for point in one.points] == [None, None]
    assert one.end is not None
    assert (one.end.lag_bytes, one.end.messages) == (None, 999_900)


MINUTES = "source string, destination string, role string, minutes array<struct<minute: bigint, active: bigint>>"


def test_a_link_has_one_row_and_each_replica_counts_once(spark: SparkSession) -> None:
    """101 to 102: a replica, seen behind for a minute and a half by one end and for a minute by the other, and another
    one for half a minute. 101 to 103: one in the first second of the third minute."""
    whole, half = (1 << 60) - 1, (1 << 30) - 1
    rows = [
        ("101", "102", "leader", [(0, whole), (1, half)]),
        ("101", "102", "follower", [(0, whole)]),
        ("101", "102", "leader", [(0, half)]),
        ("101", "103", "follower", [(2, 1)]),
        ("101", "104", "follower", [(9, whole)]),
    ]
    behind = spark.createDataFrame(rows, MINUTES)
    found = link_grid(behind, Columns(0, 60, 3), {})
    assert (found.rows, found.all_rows) == ((("101", "102"), ("101", "103")), 2)
    assert found.cells == {("101", "102", 0): 1.5, ("101", "102", 1): 0.5, ("101", "103", 2): 1 / 60}
    assert found.most == 1.5
    seconds = link_grid(behind, Columns(60, 20, 4), {}).cells
    assert seconds == {("101", "102", 0): 1.0, ("101", "102", 1): 0.5, ("101", "103", 3): 1 / 20}
    squares = [(row["row"], row["at"], row["says"]) for row in link_map(found)["data"]["values"]]
    assert len(squares) == 3
    assert ("101 → 102", 60_000, "0.5 replicas behind") in squares
    # As long behind as all others, but for ever.
    assert link_grid(behind, Columns(0, 60, 3), {("101", "103"): math.inf}).rows == (("101", "103"), ("101", "102"))


def test_of_a_fleet_the_worst_of_each_kind_of_trouble_have_a_row(spark: SparkSession) -> None:
    """Of 500 brokers, two ends of 24 violations left no row for the 30 that stood still."""
    judged = [
        (broker, "leader", 0, 200, 100.0, 100.0, True, (2.0, broker < 200), (2.0, False))
        for broker in (*range(101, 146), *range(201, 206))
    ]
    progress = [(broker, "leader", at, 10, 1, 0, 10, -1.0) for broker in range(301, 306) for at in range(3)]
    found = buckets(spark.createDataFrame(judged, JUDGED), spark.createDataFrame(progress, PROGRESS), 10)
    drawn = grid(found, 0, 2, 10)
    assert (len(drawn.rows), drawn.all_rows) == (MAX_ROWS, 55)
    assert [broker for broker, _ in drawn.rows] == [*range(101, 131), *range(301, 306), *range(201, 206)]
