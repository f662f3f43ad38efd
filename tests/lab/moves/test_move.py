from __future__ import annotations

import math
from dataclasses import replace

import pytest

from lab.measuring.compare_replicas import Comparison, ReplicaLog
from lab.measuring.figures import Figures
from lab.moves.move import MIB, Latencies, Move, MoveResult


def move(**changes: object) -> Move:
    return replace(Move("sidecar strict", partitions=4, bytes_per_partition=2 * MIB), **changes)


@pytest.mark.parametrize(
    ("changes", "seconds"),
    [
        ({}, 2.0),  # 4 x 2 MiB at 4 MiB/s
        ({"followers": (102, 103)}, 4.0),  # the leader sends everything twice
        ({"followers": (102, 103), "side": "follower"}, 2.0),  # each follower has a quota of its own
        ({"leaders": (101, 104)}, 1.0),  # each leader sends half
        ({"leaders": (101, 104), "side": "follower"}, 2.0),
        ({"followers": (102, 103), "side": "both"}, 4.0),
        ({"how": "unthrottled"}, 0.0),
    ],
)
def test_ideal_seconds(changes: dict[str, object], seconds: float) -> None:
    assert move(**changes).ideal_seconds() == seconds


def test_partitions_are_dealt_to_leaders_in_turns() -> None:
    wanted = move(leaders=(101, 104), followers=(102, 103))
    assert wanted.assignment() == {0: [101], 1: [104], 2: [101], 3: [104]}
    assert wanted.target()[1] == [104, 102, 103]


@pytest.mark.parametrize(
    ("side", "roles", "measured"),
    [
        ("leader", ("leader",), (101,)),
        ("follower", ("follower",), (102,)),
        ("both", ("leader", "follower"), (101,)),
    ],
)
def test_sides(side: str, roles: tuple[str, ...], measured: tuple[int, ...]) -> None:
    assert (move(side=side).roles, move(side=side).measured_brokers) == (roles, measured)


@pytest.mark.parametrize("changes", [{"followers": (101,)}, {"leaders": (1, 2, 3, 4, 5)}])
def test_impossible_moves_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"overlap|too few"):
        move(**changes)


def result(wanted: Move, *, same: bool = True, latencies: Latencies | None = None) -> MoveResult:
    log = ReplicaLog(0, 10, 1000)
    return MoveResult(
        move=wanted,
        topic="orders",
        duration_seconds=2.5,
        figures={
            101: Figures(8 * MIB, 2.0, 4 * MIB, 5 * MIB, 3 * MIB, 2 * MIB, 1 * MIB),
            104: Figures(8 * MIB, 4.0, 2 * MIB, 6 * MIB, 2 * MIB, 1 * MIB, 2 * MIB, seconds_to_first=3.0),
        },
        follower_seconds={102: 2.5},
        fetches_per_second=12.3456,
        fetch_versions={3: 30},
        comparisons=[Comparison(0, log, log, "aa", "aa" if same else "bb")],
        bad_log_lines=["x"],
        shrinks=[],
        latencies=latencies,
    )


def test_ratios_are_over_the_quota() -> None:
    seen = result(move())
    assert seen.mean_ratio == 0.75  # (4 + 2) / 2 over 4
    assert seen.mean_ratio_once_begun(2.0) == 1.0  # (4 + 4) / 2 over 4
    assert seen.mean_ratio_once_begun(9.0) == 1.5  # (4 + 8) / 2 over 4
    assert seen.worst_second_ratio == 1.5
    assert seen.worst_window_ratio == 0.75
    assert seen.first_second_ratio == 0.5
    assert seen.deviation_ratio == 0.5
    assert seen.duration_ratio == 1.25


def test_without_a_quota_there_are_no_ratios() -> None:
    seen = result(move(how="unthrottled"))
    assert math.isnan(seen.mean_ratio)
    assert seen.summary()["mean_over_quota"] is None
    assert seen.summary()["quota_bytes_per_second"] is None


def test_equal_needs_every_replica_to_be() -> None:
    assert result(move()).equal
    assert not result(move(), same=False).equal
    assert not replace(result(move()), comparisons=[]).equal


def test_summary_is_flat_and_rounded() -> None:
    row = result(move(), latencies=Latencies(10, 1, 0.0012345, 0.02, 0.0456, 0.5)).summary()
    assert row["fetches_per_second"] == 12.346
    assert (row["live_p50_ms"], row["live_p95_ms"], row["live_p99_ms"], row["live_errors"]) == (1.2, 20.0, 45.6, 1)
    assert row["fetch_versions"] == {"3": 30}
