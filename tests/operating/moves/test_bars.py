from __future__ import annotations

import pytest

from operating.moves.bars import Bar, bars, destinations, screen
from operating.moves.cluster_view import ClusterView, PartitionState
from operating.moves.verification import Progress, Stage
from proxy.observing.throttle_page import Page, PassingState, QuotasState, RateState, RoleState
from reassignment import Ongoing, TopicPartition
from tests.operating.moves.shown import shown

MIB = 1 << 20
A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)
VIEW = ClusterView(
    {A: PartitionState(101, (101, 104), (101,)), B: PartitionState(102, (102, 104), (102, 104))},
    {A: Ongoing((101, 104), (104,), ())},
    {(101, A): 8 * MIB, (104, A): 2 * MIB, (102, B): 4 * MIB, (104, B): 4 * MIB - 100},
    frozenset({101, 102, 104}),
)
FOUND = (
    Progress(A, Stage.MOVING, (101, 104), (101, 104), (101,), 6 * MIB),
    Progress(B, Stage.DONE, (102, 104), (102, 104), (102, 104), 0),
)


def role(**more: object) -> RoleState:
    return RoleState(**{"quota_bytes_per_second": 4.0 * MIB, "rate_bytes_per_second": 3.0 * MIB} | more)


def page(broker: int, **roles: RoleState) -> Page:
    return Page(broker=broker, policy="strict", enforce=True, quotas=QuotasState(hash="x"), roles=roles)


def test_each_end_of_a_move_has_a_bar_also_when_its_part_is_done() -> None:
    copied = destinations(FOUND, VIEW, {B: frozenset({104})})
    assert copied == {A: {104}, B: {104}}
    found = bars(FOUND, VIEW, copied, {104: page(104, follower=role())})
    assert [(bar.broker, bar.name, bar.moved_bytes, bar.total_bytes) for bar in found] == [
        (101, "leader", 2 * MIB, 8 * MIB), (102, "leader", 4 * MIB, 4 * MIB), (104, "follower", 6 * MIB, 12 * MIB),
    ]  # fmt: skip
    assert [bar.role is None for bar in found] == [True, True, False]


def test_no_bar_is_full_before_its_replicas_are_in_place() -> None:
    full = VIEW._replace(sizes={(101, A): 8 * MIB, (104, A): 9 * MIB})
    (_, bar) = bars(FOUND[:1], full, {A: frozenset({104})}, {})
    assert (bar.moved_bytes, bar.total_bytes) == (8 * MIB - 1, 8 * MIB)


def test_what_is_not_known_is_no_number() -> None:
    unknown = VIEW._replace(sizes={(104, A): 2 * MIB})
    (leader, follower) = bars(FOUND[:1], unknown, {A: frozenset({104})}, {104: page(104, follower=role())})
    assert (follower.total_bytes, follower.eta_seconds, leader.total_bytes) == (None, None, None)
    leaderless = VIEW._replace(partitions={A: PartitionState(None, (101, 104), ())})
    (only,) = bars(FOUND[:1], leaderless, {A: frozenset({104})}, {})
    assert (only.name, only.moved_bytes, only.total_bytes) == ("follower", 2 * MIB, None)


@pytest.mark.parametrize(
    ("passing", "seconds"),
    [(PassingState(catching_up=2 * MIB, in_sync=9 * MIB), 3.0), (PassingState(in_sync=MIB), None), (None, None)],
)
def test_the_time_left_counts_what_catches_up_alone(passing: PassingState | None, seconds: float | None) -> None:
    found = Bar(104, "follower", 2 * MIB, 8 * MIB, role(passing_bytes_per_second=passing))
    assert found.eta_seconds == seconds


def test_the_screen_has_a_row_for_each_and_says_who_does_not_answer() -> None:
    auto = RateState("auto", 1.0, 2.0, held_by="io_pressure", reason="the disk is busy")
    pages = {104: page(104, follower=role(passing_bytes_per_second=PassingState(2.0 * MIB, MIB / 2), rate=auto))}
    found = bars(FOUND, VIEW, {A: frozenset({104})}, pages)
    lines = [" ".join(line.replace("━", "").split()) for line in shown(screen(FOUND, found, ["broker 101: no answer"]))]
    assert lines == [
        "1 of 2 partitions are in place, 6.00 MiB left",
        "",
        "broker role moved of rate of quota in-sync rate left",
        "101 leader 2.00 MiB 8.00 MiB no answer - - -",
        "104 follower 2.00 MiB 8.00 MiB 3.00 MiB/s 4.00 MiB/s 512 KiB/s 3s",
        "",
        "broker 104 as follower: the disk is busy",
        "broker 101: no answer",
    ]


def test_many_brokers_are_cut_and_it_is_said() -> None:
    many = [Bar(n, "follower", 1, 2, None) for n in range(25)]
    assert "… 5 more" in " ".join(" ".join(shown(screen(FOUND, many, ()))).split())
