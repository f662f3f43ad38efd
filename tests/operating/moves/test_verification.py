from __future__ import annotations

import pytest

from operating.moves.verification import Stage, Verification, native_leftovers, progress
from operating.moves.view import ClusterView, NativeThrottle, PartitionState
from reassignment import Ongoing, TopicPartition

A, OTHER = TopicPartition("orders", 0), TopicPartition("clicks", 0)
TARGET = {A: (101, 103)}


def view(
    replicas: tuple[int, ...] = (101, 103),
    in_sync: tuple[int, ...] = (101, 103),
    ongoing: dict[TopicPartition, Ongoing] | str | None = "none",
    leader: int | None = 101,
) -> ClusterView:
    return ClusterView(
        partitions={A: PartitionState(leader, replicas, in_sync)},
        ongoing={} if isinstance(ongoing, str) else ongoing,
        sizes={(101, A): 1000, (103, A): 400},
        brokers=frozenset({101, 102, 103}),
    )


@pytest.mark.parametrize(
    ("seen", "stage", "left_bytes"),
    [
        (view(), Stage.DONE, 0),
        (view((101, 103), (101,)), Stage.BEHIND, 600),
        (view((101, 103), (101,), {A: Ongoing((101, 103), (103,), ())}), Stage.MOVING, 600),
        (view((101, 103, 102), (101, 102), {A: Ongoing((101, 103, 102), (103,), (102,))}), Stage.MOVING, 600),
        (view((101, 104), (101,), {A: Ongoing((101, 104), (104,), ())}), Stage.ELSEWHERE, 600),
        (view((101,), (101,)), Stage.NOT_STARTED, 600),
        # The order says who shall lead: Kafka's own --verify calls this not done, too.
        (view((103, 101)), Stage.NOT_STARTED, 0),
        # A broker more than there shall be, and nobody to ask whether it is on its way out.
        (view((101, 102, 103), (101, 102, 103)), Stage.NOT_STARTED, 0),
        (view((101, 102, 103), (101, 102), None), Stage.MOVING, 600),
        (view(leader=None), Stage.DONE, None),
        (view()._replace(partitions={}), Stage.MISSING, None),
        (view()._replace(sizes={}), Stage.DONE, None),
    ],
)
def test_where_a_partition_is(seen: ClusterView, stage: Stage, left_bytes: int | None) -> None:
    (found,) = progress(TARGET, seen)
    assert (found.stage, found.left_bytes) == (stage, left_bytes)


@pytest.mark.parametrize(
    ("stages", "done", "under_way"),
    [
        ([Stage.DONE, Stage.DONE], True, False),
        ([Stage.DONE, Stage.MOVING], False, True),
        ([Stage.DONE, Stage.BEHIND], False, True),
        ([Stage.ELSEWHERE], False, True),
        ([Stage.DONE, Stage.NOT_STARTED, Stage.MISSING], False, False),
    ],
)
def test_a_throttle_is_of_use_while_something_is_under_way(stages: list[Stage], done: bool, under_way: bool) -> None:
    (model,) = progress(TARGET, view())
    found = Verification(tuple(model._replace(stage=stage) for stage in stages))
    assert (found.done, found.under_way, found.clean) == (done, under_way, True)


LIST = NativeThrottle("topic", "orders", "leader.replication.throttled.replicas", "0:101")
RATE = NativeThrottle("broker", "101", "leader.replication.throttled.rate", "5000")
OF_ALL = NativeThrottle("broker", "", "leader.replication.throttled.rate", "9000")


def test_the_brokers_own_throttles_are_left_behind_once_nothing_moves() -> None:
    mine, notes = native_leftovers([LIST, RATE, OF_ALL], TARGET, view())
    assert mine == (LIST, RATE)
    assert len(notes) == 1
    assert notes[0].startswith("broker default: leader.replication.throttled.rate = 9000: of every broker")


def test_rates_stay_while_another_reassignment_needs_them() -> None:
    """ReassignPartitionsCommand.verifyAssignment clears throttles only when nothing else is ongoing."""
    mine, notes = native_leftovers([LIST, RATE], TARGET, view(ongoing={OTHER: Ongoing((1, 2), (2,), ())}))
    assert mine == (LIST,)
    assert notes == (
        "broker 101: leader.replication.throttled.rate = 5000: left, clicks-0 still moves by another reassignment",
    )
