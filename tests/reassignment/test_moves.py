from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reassignment import (
    Ongoing,
    PartitionMove,
    ReassignmentError,
    TopicPartition,
    brokers,
    move_map,
    moving,
    throttled_replicas,
)
from reassignment.moves import written

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reassignment import RoleName


def foo(partition: int) -> TopicPartition:
    return TopicPartition("foo", partition)


BAR_0 = TopicPartition("bar", 0)

# ReassignPartitionsUnitTest.testMoveMap, apache/kafka trunk at 1eb7644 (4.0.0-SNAPSHOT), with its own comments.
ONGOING = {
    foo(0): Ongoing((1, 2, 3, 4), (4,), (3,)),
    foo(1): Ongoing((4, 5, 6, 7, 8), (7, 8), (4, 5)),
    foo(2): Ongoing((1, 2, 3, 4), (3, 4), (1, 2)),
    foo(3): Ongoing((1, 2, 3, 4), (3, 4), (1, 2)),
    foo(4): Ongoing((1, 2, 3, 4), (3, 4), (1, 2)),
    foo(5): Ongoing((1, 2, 3, 4), (3, 4), (1, 2)),
}
PROPOSED = {
    foo(0): (1, 2, 5),
    foo(2): (3, 4),
    foo(3): (5, 6),
    foo(4): (3,),
    foo(5): (3, 4, 5, 6),
    BAR_0: (1, 2, 3),
}
CURRENT = {
    foo(0): (1, 2, 3, 4),
    foo(1): (4, 5, 6, 7, 8),
    foo(2): (1, 2, 3, 4),
    foo(3): (1, 2, 3, 4),
    foo(4): (1, 2, 3, 4),
    foo(5): (1, 2, 3, 4),
    BAR_0: (2, 3, 4),
    TopicPartition("baz", 0): (1, 2, 3),
}


@pytest.mark.parametrize(
    ("partition", "sources", "destinations"),
    [
        (foo(0), {1, 2, 3}, {5}),  # overwrite foo-0 with different reassignments
        (foo(1), {4, 5, 6}, {7, 8}),  # keep old reassignments of foo-1
        (foo(2), {1, 2}, {3, 4}),  # overwrite foo-2 with same reassignments
        (foo(3), {1, 2}, {5, 6}),  # … with new reassignments without overlap of old reassignments
        (foo(4), {1, 2}, {3}),  # … with a subset of old reassignments
        (foo(5), {1, 2}, {3, 4, 5, 6}),  # … with a superset of old reassignments
        (BAR_0, {2, 3, 4}, {1}),  # add new reassignments to bar-0
    ],
)
def test_kafkas_move_map(partition: TopicPartition, sources: set[int], destinations: set[int]) -> None:
    moves = move_map(PROPOSED, CURRENT, ONGOING)
    assert len(moves) == 7
    assert (set(moves[partition].sources), set(moves[partition].destinations)) == (sources, destinations)


@pytest.mark.parametrize(
    ("role", "topic", "listed"),
    [
        ("leader", "foo", "0:1,0:2,0:3,1:4,1:5,1:6,2:1,2:2,3:1,3:2,4:1,4:2,5:1,5:2"),
        ("leader", "bar", "0:2,0:3,0:4"),
        ("follower", "foo", "0:5,1:7,1:8,2:3,2:4,3:5,3:6,4:3,5:3,5:4,5:5,5:6"),
        ("follower", "bar", "0:1"),
    ],
)
def test_kafkas_lists(role: RoleName, topic: str, listed: str) -> None:
    """expLeaderThrottle and expFollowerThrottle of the same test, letter for letter."""
    lists = throttled_replicas(moving(move_map(PROPOSED, CURRENT, ONGOING)))
    assert written(lists[role][topic]) == listed
    assert lists[role].keys() == {"foo", "bar"}


def test_kafkas_brokers() -> None:
    """calculateReassigningBrokers of the same test."""
    assert brokers(move_map(PROPOSED, CURRENT, ONGOING)) == {1, 2, 3, 4, 5, 6, 7, 8}


# ReassignPartitionsCommandTest.testThrottledReassignment: foo-0 [0,1,2] -> [0,3,2], baz-2 [0,2,1] -> [3,2,1].
def test_kafkas_throttled_reassignment() -> None:
    baz_2 = TopicPartition("baz", 2)
    moves = move_map({foo(0): (0, 3, 2), baz_2: (3, 2, 1)}, {foo(0): (0, 1, 2), baz_2: (0, 2, 1)}, {})
    assert moves == {baz_2: PartitionMove((0, 2, 1), (3,)), foo(0): PartitionMove((0, 1, 2), (3,))}
    assert brokers(moves) == {0, 1, 2, 3}


def test_only_moves_that_move_are_throttled() -> None:
    """A new leader, and one replica less: no data goes anywhere."""
    current = {foo(0): (1, 2, 3), foo(1): (1, 2, 3), foo(2): (1, 2, 3)}
    moves = move_map({foo(0): (3, 2, 1), foo(1): (1, 2), foo(2): (1, 2, 4)}, current, {})
    assert moving(moves) == {foo(2): PartitionMove((1, 2, 3), (4,))}
    assert throttled_replicas(moving(moves))["leader"] == {"foo": ((2, 1), (2, 2), (2, 3))}


def test_numbers_are_in_order_of_numbers() -> None:
    """Kafka's TreeSet of strings has 10:1 before 2:1; for people it is the other way round."""
    moves = move_map({foo(n): (1, 9) for n in (10, 2)}, {foo(n): (1,) for n in (10, 2)}, {})
    assert written(throttled_replicas(moves)["leader"]["foo"]) == "2:1,10:1"


def test_partitions_that_do_not_exist_are_all_named() -> None:
    with pytest.raises(ReassignmentError) as error:
        move_map({foo(7): (1,), foo(8): (1,), BAR_0: (1, 2, 3)}, CURRENT, {})
    assert [problem.partition(":")[0] for problem in error.value.problems] == ["foo-7", "foo-8"]


_REPLICAS = st.lists(st.integers(0, 6), min_size=1, max_size=4, unique=True).map(tuple)
_ASSIGNMENT = st.fixed_dictionaries({foo(n): _REPLICAS for n in range(3)})


@given(_ASSIGNMENT, _ASSIGNMENT)
def test_who_has_the_data_sends_and_who_lacks_it_fetches(
    proposed: Mapping[TopicPartition, tuple[int, ...]], current: Mapping[TopicPartition, tuple[int, ...]]
) -> None:
    for partition, move in move_map(proposed, current, {}).items():
        assert move.sources == current[partition]
        assert not set(move.sources) & set(move.destinations)
        assert set(proposed[partition]) <= {*move.sources, *move.destinations}
        assert set(move.destinations) <= set(proposed[partition])
