""""""

from __future__ import annotations

import pytest

from operating.moves.cluster_view import ClusterView, LogDirectory, NativeThrottle, PartitionState
from operating.moves.native_throttle import NativeFindings, NativeLeftover
from operating.moves.verification import Progress, Stage, Verification, progress, summary, verify_table
from reassignment import Document, Ongoing, TopicPartition
from tests.operating.moves.shown import shown

A = TopicPartition("orders", 0)
TARGET = Document({A: (101, 103)})


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
        # Its broker does not answer: nothing moves, and nothing will until it returns.
        (view((101, 103), (101,))._replace(brokers=frozenset({101, 102})), Stage.AWAY, 600),
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
        ([Stage.DONE, Stage.ON_DISKS], False, True),
        ([Stage.DONE, Stage.AWAY, Stage.OTHER_DISK], False, False),
        ([Stage.DONE, Stage.NOT_STARTED, Stage.MISSING], False, False),
    ],
)
def test_a_throttle_is_of_use_while_something_is_under_way(stages: list[Stage], done: bool, under_way: bool) -> None:
    (model,) = progress(TARGET, view())
    found = Verification(tuple(model._replace(stage=stage) for stage in stages))
    assert (found.done, found.under_way, found.clean) == (done, under_way, True)


@pytest.mark.parametrize(
    ("at", "stage", "left_bytes"),
    [
        (LogDirectory("/b"), Stage.DONE, 0),
        # A copy in /b of which 300 of 400 bytes are there; in mid-copy the replica serves from the old directory.
        (LogDirectory("/a", 300), Stage.ON_DISKS, 100),
        # On its way back, or to a third directory: it is not done either.
        (LogDirectory("/b", 300), Stage.ON_DISKS, 100),
        # Cancelled, or not begun; or its broker did not say.
        (LogDirectory("/a"), Stage.OTHER_DISK, 0),
        (None, Stage.OTHER_DISK, 0),
    ],
)
def test_a_replica_is_in_place_once_it_is_in_its_directory(
    at: LogDirectory | None, stage: Stage, left_bytes: int
) -> None:
    """ReassignPartitionsCommand.findLogDirMoveStates; it was called done while all of it had still to be copied."""
    seen = view()._replace(sizes={(101, A): 400, (103, A): 400}, directories={} if at is None else {(103, A): at})
    (found,) = progress(Document(TARGET.assignment, {(103, A): "/b"}), seen)
    assert (found.stage, found.left_bytes) == (stage, left_bytes)


def test_what_was_not_looked_at_is_not_clean() -> None:
    done = progress(TARGET, view())
    assert Verification(done).clean
    assert not Verification(done, native=NativeFindings(silent=(103,))).clean
    throttle = NativeThrottle("broker", "101", "leader.replication.throttled.rate", "5")
    assert not Verification(done, native=NativeFindings((NativeLeftover(throttle),))).clean


MIB = 1 << 20


@pytest.mark.parametrize(
    ("partitions", "told"),
    [
        ([(Stage.MOVING, 6 * MIB), (Stage.DONE, 0)], "1 of 2 partitions are in place, 6.00 MiB left"),
        ([(Stage.MOVING, 6 * MIB), (Stage.BEHIND, MIB)], "0 of 2 partitions are in place, 7.00 MiB left"),
        # Nobody leads it, so nobody can say how large it is.
        ([(Stage.MOVING, 6 * MIB), (Stage.BEHIND, None)], "0 of 2 partitions are in place, at least 6.00 MiB left"),
        ([(Stage.MOVING, None), (Stage.BEHIND, None)], "0 of 2 partitions are in place"),
        # It is in place, whatever its size.
        ([(Stage.MOVING, 6 * MIB), (Stage.DONE, None)], "1 of 2 partitions are in place, 6.00 MiB left"),
        ([(Stage.NOT_STARTED, 0), (Stage.DONE, 0)], "1 of 2 partitions are in place"),
    ],
)
def test_what_is_left_is_told_as_far_as_it_is_known(partitions: list[tuple[Stage, int | None]], told: str) -> None:
    found = Verification(
        tuple(
            Progress(TopicPartition("orders", number), stage, (101, 103), left_bytes=left)
            for number, (stage, left) in enumerate(partitions)
        )
    )
    assert summary(found.progress) == told
    assert shown(verify_table(found, removed=[]))[0] == told
