from __future__ import annotations

import math

import pytest

from operating.moves.cluster_view import ClusterView, LogDirectory, PartitionState
from operating.moves.planning import Ground, Wanted, ground_of_cluster, ground_of_files, inflow_of, plan_move
from proxy.errors import ConfigurationError
from reassignment import Capacity, Document, Ongoing, PartitionMove, ReassignmentError, Size, TopicPartition

MB = 1_000_000
A, B, C = (TopicPartition("orders", n) for n in range(3))
OTHER = TopicPartition("clicks", 0)
PROPOSED = Document({A: (101, 104), B: (102, 104), C: (102, 101)})
VIEW = ClusterView(
    partitions={
        A: PartitionState(102, (101, 102), (101, 102)),
        B: PartitionState(102, (101, 102), (101, 102)),
        C: PartitionState(101, (101, 102), (101, 102)),
    },
    ongoing={},
    sizes={(101, A): 90 * MB, (102, A): 100 * MB, (101, B): 50 * MB, (102, B): 50 * MB},
    brokers=frozenset({101, 102, 103, 104}),
)


def ground(view: ClusterView = VIEW, *, written: dict[TopicPartition, float] | None = None) -> Ground:
    inflow = None if written is None else inflow_of(view.partitions, written)
    return ground_of_cluster(PROPOSED, view, written=written, inflow=inflow)


def test_the_leader_sends_what_it_has_and_the_new_replica_fetches_it() -> None:
    """102 leads both: 100 + 50 MB. C only changes its preferred leader."""
    plan = plan_move(ground(), Wanted(rate=5 * MB))
    assert [(load.broker, load.role, load.move_bytes / MB) for load in plan.loads] == [
        (102, "leader", 150), (104, "follower", 150),
    ]  # fmt: skip
    assert plan.total_bytes == 150 * MB
    assert plan.total_seconds == 30
    # 101 would lead if 102 failed.
    assert plan.rates == {(101, "leader"): 5 * MB, (102, "leader"): 5 * MB, (104, "follower"): 5 * MB}


def test_a_time_is_kept_by_rates_with_some_slack() -> None:
    """150 MB in 150 s; a throttled move may be 5 % slower than its quota."""
    plan = plan_move(ground(written={A: 1.0 * MB}), Wanted(seconds=150))
    assert 2.05 * MB <= plan.rates[104, "follower"] < 2.05 * MB + 1024
    assert plan.total_seconds == pytest.approx(150 / 1.05, rel=0.01)
    assert plan.warnings == ()


def test_without_a_wish_there_is_only_what_moves() -> None:
    plan = plan_move(ground(), Wanted())
    assert plan.rates == {}
    assert math.isnan(plan.total_seconds)
    assert plan.warnings == ()


def test_what_moves_already_is_counted_by_what_is_left() -> None:
    """104 has 40 of B's 50 MB; clicks-0 is moved by somebody else."""
    view = VIEW._replace(
        partitions={
            **VIEW.partitions,
            B: PartitionState(102, (102, 104, 101), (101, 102)),
            OTHER: PartitionState(101, (103, 101), (101,)),
        },
        ongoing={B: Ongoing((102, 104, 101), (104,), (101,)), OTHER: Ongoing((103, 101), (103,), (101,))},
        sizes={**VIEW.sizes, (104, B): 40 * MB, (101, OTHER): 7 * MB},
    )
    plan = plan_move(ground(view), Wanted(rate=MB))
    assert [(load.broker, load.role, load.move_bytes / MB) for load in plan.loads] == [
        (101, "leader", 7), (102, "leader", 110), (103, "follower", 7), (104, "follower", 110),
    ]  # fmt: skip
    assert "clicks-0: already moving, by another reassignment: counted and listed as well" in plan.warnings


@pytest.mark.parametrize(
    ("wanted", "written", "warning"),
    [
        (Wanted(rate=MB), None, "IN is not known"),
        (Wanted(rate=MB), {A: 2.0 * MB}, "broker 104 as follower: 976.56 KiB/s (1000000 B/s) is not more than the"),
        (Wanted(rate=MB), {C: 2.0 * MB}, "broker 102 as leader: 976.56 KiB/s (1000000 B/s) is not more than IN, 1.91"),
        (
            Wanted(rate=9 * MB, capacity=Capacity(9 * MB, 2)),
            {},
            "broker 104 as follower: 8.58 MiB/s (9000000 B/s) is not less than N - IN/R, 8.58 MiB/s",
        ),
    ],
)
def test_a_rate_that_is_not_wise_is_warned_about(
    wanted: Wanted, written: dict[TopicPartition, float] | None, warning: str
) -> None:
    """102 follows C in sync, so what is written there is its inflow."""
    assert any(found.startswith(warning) for found in plan_move(ground(written=written), wanted).warnings)


def test_a_rate_no_higher_than_what_is_written_never_ends() -> None:
    plan = plan_move(ground(written={A: 2.0 * MB}), Wanted(rate=2 * MB))
    assert math.isinf(plan.total_seconds)
    assert any(warning.endswith("it will never end") for warning in plan.warnings)


def test_a_time_that_cannot_be_kept_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"broker 102 as leader: needs .* \(\d+ B/s\) .* allow at least 16s"):
        plan_move(ground(), Wanted(seconds=1, capacity=Capacity(10 * MB, 2)))


@pytest.mark.parametrize(
    ("change", "warning"),
    [
        ({"ongoing": None}, "the brokers are older than 2.4 and cannot tell which reassignments are under way"),
        ({"brokers": frozenset({101, 102})}, "broker 104: not in the cluster now"),
        ({"partitions": {**VIEW.partitions, A: PartitionState(None, (101, 102), ())}},
         "orders-0: no leader, so nothing can be fetched"),
        ({"sizes": {(102, A): 5}}, "orders-1: size not known, counted as empty"),
    ],
)  # fmt: skip
def test_what_is_odd_about_the_cluster_is_said(change: dict[str, object], warning: str) -> None:
    assert warning in plan_move(ground(VIEW._replace(**change)), Wanted()).warnings


DISKS = PROPOSED._replace(directories={(101, A): "/d1", (104, A): "/d2", (104, B): "/d1"})


def test_a_replica_that_stays_on_its_broker_is_none_of_ours() -> None:
    """What comes to 104 comes over the network; it was said of that, too, that it is not throttled."""
    at = {(101, A): LogDirectory("/d0"), (104, A): LogDirectory("/d0")}
    found = ground_of_cluster(DISKS, VIEW._replace(directories=at), written=None, inflow=None)
    assert found.warnings[0].startswith("orders-0: log_dirs copy replicas between disks")


def test_of_replicas_whose_disks_are_not_known_nothing_is_claimed() -> None:
    """As offline, of the rollback of a move whose file names no disks: it said that they are copied, unthrottled."""
    expected = (
        "orders-0: on which disks replicas are now is not known: where log_dirs name others, that is not throttled",
    )
    assert ground_of_cluster(DISKS, VIEW._replace(directories={}), written=None, inflow=None).warnings == expected
    current = Document({A: (101, 102), B: (102, 101), C: (101, 102)})
    assert ground_of_files(DISKS, current, None).warnings == expected


def test_a_replica_that_stays_in_its_directory_is_not_copied() -> None:
    """As in the rollback file that kafka-reassign-partitions --execute prints."""
    at = {(101, A): LogDirectory("/d1")}
    assert ground_of_cluster(DISKS, VIEW._replace(directories=at), written=None, inflow=None).warnings == ()
    current = Document({A: (101, 102), B: (102, 101), C: (101, 102)}, {(101, A): "/d1"})
    assert ground_of_files(DISKS, current, None).warnings == ()


def test_a_partition_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ReassignmentError, match="orders-2: not in the current assignment"):
        ground(VIEW._replace(partitions={A: VIEW.partitions[A], B: VIEW.partitions[B]}))


def test_files_alone_will_do() -> None:
    """Two partitions move, of 300 MB together; the preferred leaders send."""
    current = Document({A: (101, 102), B: (102, 101), C: (101, 102)})
    plan = plan_move(ground_of_files(PROPOSED, current, 300.0 * MB), Wanted(rate=3 * MB))
    assert [(load.broker, load.role, load.move_bytes / MB) for load in plan.loads] == [
        (101, "leader", 150), (102, "leader", 150), (104, "follower", 300),
    ]  # fmt: skip
    assert plan.total_seconds == 100


def test_files_without_a_size_give_lists_and_no_times() -> None:
    ground = ground_of_files(PROPOSED, Document({A: (101, 102), B: (102, 101), C: (101, 102)}), None)
    plan = plan_move(ground, Wanted(rate=3 * MB))
    assert plan.rates.keys() == {(101, "leader"), (102, "leader"), (104, "follower")}
    assert math.isnan(plan.total_seconds)
    with pytest.raises(ConfigurationError, match="the size of the move is unknown"):
        plan_move(ground, Wanted(seconds=60))


def test_a_move_that_moves_nothing_takes_no_time() -> None:
    ground = Ground({A: PartitionMove((101,), ())}, {A: Size(101, 5)})
    plan = plan_move(ground, Wanted(seconds=60))
    assert (plan.rates, plan.total_bytes) == ({}, 0)


def test_who_leads_takes_nothing_in() -> None:
    partitions = {A: PartitionState(101, (101, 102, 103), (101, 102)), B: PartitionState(102, (102, 101), (102, 101))}
    assert inflow_of(partitions, {A: 5.0, B: 7.0}) == {102: 5.0, 101: 7.0}
