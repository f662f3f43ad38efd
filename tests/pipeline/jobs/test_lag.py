from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pipeline.jobs.lag import HELD_SECONDS, MOST, per_replica, progress, stalls, stalls_by_cause, sum_replica_lag
from pipeline.journals import parse_lines
from pipeline.tables.scope import Scope
from tests.pipeline.frames import Scenarios, quotas, traffic
from tests.pipeline.journal_files import FIRST

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def behind(at: int, fetch_offset: int, high_watermark: int = 1000, **values: Any) -> dict[str, Any]:
    return {"at": at, "fetch_offset": fetch_offset, "high_watermark": high_watermark, **values}


def lags(spark: SparkSession, rows: list[dict[str, Any]]) -> DataFrame:
    return sum_replica_lag(per_replica(traffic(spark, rows)))


def test_what_each_replica_said_last_is_summed(spark: SparkSession) -> None:
    rows = [
        behind(0, 900),
        behind(0, 400, partition=1),
        behind(3, 500, partition=1),
        behind(5, 1000, in_sync=True),
    ]
    found = [(row.time - FIRST, row.lag, row.behind) for row in lags(spark, rows).orderBy("time").collect()]
    assert found[:3] == [(0, 700, 2), (3, 600, 2), (5, 500, 1)]
    # Partition 1 falls silent while behind.
    assert found[3:] == [(3 + HELD_SECONDS, 0, 0)]


def test_a_follower_that_changes_its_leader_is_one_replica_a_leaders_followers_are_several(
    spark: SparkSession,
) -> None:
    rows = [behind(0, 900, role="follower", peer="101"), behind(1, 950, role="follower", peer="103")]
    assert [row.lag for row in lags(spark, rows).orderBy("time").collect()][:2] == [100, 50]
    rows = [behind(0, 900, peer="102"), behind(1, 950, peer="103")]
    assert [row.lag for row in lags(spark, rows).orderBy("time").collect()][:2] == [100, 150]


def test_in_sync_replicas_do_not_lag_however_far_the_leader_has_moved_on(spark: SparkSession) -> None:
    assert [row.lag for row in lags(spark, [behind(0, 900, in_sync=True)]).collect()] == [0]


def test_a_replica_that_was_lost_starts_anew(spark: SparkSession) -> None:
    rows = [behind(0, 900), behind(100, 950)]
    found = [(row.time - FIRST, row.lag, row.lost) for row in lags(spark, rows).orderBy("time").collect()]
    assert found == [(0, 100, 0), (HELD_SECONDS, 0, 1), (100, 50, 0), (100 + HELD_SECONDS, 0, 1)]


def test_progress_of_a_steady_drain(spark: SparkSession) -> None:
    """10 messages of 100 bytes a second, 1000 to go: after 20 seconds 80 kB are left, and a fifth is done."""
    rows = [behind(at, 10 * at, record_bytes=1000) for at in range(30)]
    row = progress(lags(spark, rows)).where(f"time = {FIRST + 20}").first()
    assert row is not None
    assert (row.lag, row.remaining_bytes, row.pace) == (800, 80_000, pytest.approx(1000.0))
    assert row.done == pytest.approx(21_000 / 101_000)  # 21 seconds' bytes, 20 seconds' offsets


def test_of_two_sizes_of_messages_what_remains_is_counted_in_bytes(spark: SparkSession) -> None:
    """Both get a megabyte a second; 200 messages of 1 kB lack less than 200 of 1 MB."""
    rows = [
        row for at in range(20) for row in (
            behind(at, 1000 * at, 20_200, record_bytes=10**6), behind(at, at, 220, partition=1, record_bytes=10**6)
        )
    ]  # fmt: skip
    row = progress(lags(spark, rows)).where(f"time = {FIRST + 19}").first()
    assert row is not None
    assert (row.lag, row.remaining_bytes) == (1200 + 201, 1200 * 1000 + 201 * 10**6)


def test_progress_starts_anew_once_all_had_caught_up(spark: SparkSession) -> None:
    rows = [behind(0, 0), behind(1, 1000, in_sync=True), behind(2, 1000, 2000, record_bytes=0),
            behind(3, 1500, 2000, record_bytes=500)]  # fmt: skip
    found = {row.time - FIRST: row.done for row in progress(lags(spark, rows)).collect()}
    assert (found[1], found[2], found[3]) == (1.0, 0.0, 0.5)


def test_what_no_64_bits_hold_ends_nothing_and_is_not_known(spark: SparkSession) -> None:
    """The numbers of one line fit, their products and the sums of many do not; other brokers' lag is told as ever."""
    assert parse_lines.MOST == MOST
    few = {"record_bytes": MOST, "broker": 102}
    rows = [behind(at, 10 * at, record_bytes=1000) for at in range(12)]
    rows += [behind(at, at, MOST - 12 + at, **few) for at in range(12)]
    rows += [behind(11, 0, MOST, partition=partition, **few, role="follower") for partition in range(1100)]
    found = progress(lags(spark, rows)).where(f"time = {FIRST + 11}").orderBy("broker", "role").collect()
    assert [(row.broker, row.role, row.lag) for row in found] == [
        (101, "leader", 890), (102, "follower", None), (102, "leader", MOST - 12),
    ]  # fmt: skip
    assert (found[0].remaining_bytes, found[0].pace) == (89_000, pytest.approx(1000.0))
    assert found[2].remaining_bytes == MOST


STALLS = Scenarios()
CASES: list[tuple[dict[str, Any], int, int, float | None, str]] = [
    ({"omitted": 3, "record_bytes": 10}, 20, 10, 10.0, "the quota is no more than what producers write"),
    ({"omitted": 3, "record_bytes": 0}, 10, 0, 0.0, "the quota is 0"),
    ({"omitted": 3, "record_bytes": 0}, 10, 0, 10.0, "held back, and nothing moves"),
    ({"record_bytes": 0}, 0, 0, 10.0, "asked for, and nothing comes: the other side withholds it"),
    ({"record_bytes": 0, "fetches": 0}, 0, 0, 10.0, "nobody asks for it"),
    ({"record_bytes": 10}, 20, 10, None, "producers write more than the link brings"),
]
BY_CAUSE = {
    cause: STALLS.add(
        [behind(at, moved * at, 1000 + written * at, **values) for at in range(30)], {"said": [(0, limit)]}
    )
    for values, written, moved, limit, cause in CASES
}
OBSERVED = STALLS.add([behind(at, 0, record_bytes=0) for at in range(30)], {"said": [(0, 0.0)], "enforce": False})
FELL_BEHIND = STALLS.add(
    [behind(at, 10 * at, 1000) for at in range(30)]
    + [behind(at, 0, 900, partition=1, record_bytes=0) for at in range(10, 30)],
    {"said": [(0, None)]},
)
IN_SYNC = STALLS.add(
    [behind(at, 0, 1000, omitted=2, record_bytes=0) for at in range(30)]
    + [behind(at, 5 * at, 5 * at, partition=1, in_sync=True, record_bytes=95) for at in range(30)],
    {"said": [(0, 100.0)]},
)
DRAIN = STALLS.add([behind(at, 10 * at) for at in range(30)], {"said": [(0, 10.0)]})
STOPPED = STALLS.add(
    # Ten messages a second, of which producers write five, until second 99.
    [
        behind(at, 10 * min(at, 99), 5000 + 5 * at, record_bytes=100 if at < 100 else 0, omitted=2)
        for at in range(200)
    ],
    {"said": [(0, 1000.0), (160, 0.0)]},
)  # fmt: skip


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> DataFrame:
    """The stalls of all scenarios."""
    lines, events = STALLS.frames(spark)
    return stalls(progress(sum_replica_lag(per_replica(lines)), events), lines, events).cache()


@pytest.fixture(scope="module")
def stalled(found: DataFrame) -> dict[int, list[Any]]:
    return STALLS.split(found.collect(), "broker")


@pytest.mark.parametrize("cause", BY_CAUSE)
def test_a_stall_names_its_cause(stalled: dict[int, list[Any]], cause: str) -> None:
    rows = [row for row in stalled[BY_CAUSE[cause]] if row.time == FIRST + 25]
    assert [row.cause for row in rows] == [cause]


def test_a_quota_of_0_that_is_only_observed_stalls_nobody(stalled: dict[int, list[Any]]) -> None:
    assert {row.cause for row in stalled[OBSERVED]} == {"asked for, and nothing comes: the other side withholds it"}


def test_while_others_fall_behind_one_that_comes_nearer_does_not_stall(stalled: dict[int, list[Any]]) -> None:
    """One moves ten messages a second, of which none is written; from second 10 on there is another, 900 behind."""
    assert stalled[FELL_BEHIND] == []


def test_in_sync_traffic_that_takes_the_quota_is_named(stalled: dict[int, list[Any]]) -> None:
    assert {row.cause for row in stalled[IN_SYNC]} == {"in-sync traffic takes the whole quota"}


def test_a_drain_is_no_stall(stalled: dict[int, list[Any]]) -> None:
    assert stalled[DRAIN] == []


@pytest.mark.parametrize(
    ("scope", "wanted"),
    [
        (Scope(), {("held back, and nothing moves", 100, 61), ("the quota is 0", 161, 39)}),
        (Scope(since=FIRST + 110, until=FIRST + 120), {("held back, and nothing moves", 110, 10)}),
        (Scope(since=FIRST + 40, until=FIRST + 103), {("held back, and nothing moves", 100, 3)}),
        (Scope(until=FIRST + 100), set()),
    ],
)  # fmt: skip
def test_a_stall_is_told_from_when_on_it_came_no_nearer(
    found: DataFrame, stalled: dict[int, list[Any]], scope: Scope, wanted: set[tuple[str, int, int]]
) -> None:
    """The last minute's pace is above 0 until second 129. Each second is of one cause, and so is one within a scope of
    which it is told after it. The quota became 0 at second 160; ten seconds later that pace is known."""
    seen = sorted(row.time - FIRST for row in stalled[STOPPED])
    assert (seen[0], seen[-1]) == (129, 199)
    told = STALLS.split(stalls_by_cause(found, scope).collect(), "broker")[STOPPED]
    assert {(row.cause, row.first - FIRST, row.seconds) for row in told} == wanted


def test_who_falls_silent_has_not_caught_up(spark: SparkSession) -> None:
    rows = [behind(at, 10 * at) for at in range(20)]
    last = progress(lags(spark, rows)).orderBy("time").collect()[-1]
    assert (last.time - FIRST, last.lag, last.lost) == (19 + HELD_SECONDS, 0, 1)
    assert last.done is None


def test_a_change_of_quota_begins_a_pace(spark: SparkSession) -> None:
    """1 kB a second until second 40, then 10: five seconds on nothing is known, fifteen on it is all there is."""
    rows = [behind(at, 10 * at, 10_000, record_bytes=1000 if at <= 40 else 10_000) for at in range(60)]
    said = quotas(spark, [(0, 1000.0), (40, 10_000.0)])
    found = {row.time - FIRST: row.pace for row in progress(lags(spark, rows), said).collect()}
    assert (found[40], found[45], found[55]) == (pytest.approx(1000.0), None, pytest.approx(10_000.0))
