"""What a reassignment moves, and who throttles what meanwhile: Kafka's MoveMap.

Follows ReassignPartitionsCommand (trunk): calculateProposedMoveMap, calculateLeaderThrottles and
calculateFollowerThrottles. Every replica that exists may lead, so each throttles as leader; those to be added throttle
as followers. Pure; knows no size and no rate.
Invariant: a destination is never a source of the same partition.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple

from .assignment import ReassignmentError, TopicPartition

if TYPE_CHECKING:
    from .assignment import Assignment

RoleName = Literal["leader", "follower"]
ROLES: tuple[RoleName, ...] = ("leader", "follower")


class Ongoing(NamedTuple):
    """A reassignment that is under way (ListPartitionReassignments, KIP-455).

    replicas: all that there are now, those being added included.
    """

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class PartitionMove(NamedTuple):
    """sources: replicas that exist, in their order; destinations: those that have to fetch everything."""

    sources: tuple[int, ...]
    destinations: tuple[int, ...]


MoveMap = Mapping[TopicPartition, PartitionMove]
Lists = Mapping[str, tuple[tuple[int, int], ...]]
"""By topic: (partition, broker), sorted."""


def move_map(proposed: Assignment, current: Assignment, ongoing: Mapping[TopicPartition, Ongoing]) -> MoveMap:
    """What moves once `proposed` is executed, whatever is already under way included.

    Kafka's tool overwrites the throttled replicas of a whole topic, so it takes along every reassignment there is; and
    what a partition had before an unfinished one is where the data is.

    Args:
        proposed: replicas wanted.
        current: replicas there are; of partitions under way, `ongoing` says it better.
        ongoing: of the whole cluster.

    Raises:
        ReassignmentError: partitions that are not in the cluster.
    """
    moves = {
        partition: PartitionMove(_without(move.replicas, move.adding), move.adding)
        for partition, move in ongoing.items()
    }
    unknown = []
    for partition, replicas in proposed.items():
        if partition in moves:
            sources = moves[partition].sources
        elif partition in current:
            sources = current[partition]
        else:
            unknown.append(f"{partition}: not in the current assignment: there is no such partition")
            continue
        moves[partition] = PartitionMove(sources, _without(replicas, sources))
    if unknown:
        raise ReassignmentError(unknown)
    return dict(sorted(moves.items()))


def moving(moves: MoveMap) -> MoveMap:
    """Only the moves that move: a new order of the same replicas, or fewer of them, sends no data.

    Kafka's tool lists their leaders all the same; there that costs nothing, here it would throttle a catch-up that is
    none of the move's.
    """
    return {partition: move for partition, move in moves.items() if move.destinations}


def throttled_replicas(moves: MoveMap) -> dict[RoleName, Lists]:
    """The lists ``leader.`` and ``follower.replication.throttled.replicas`` of every topic in `moves`.

    Entries are in the order of their numbers, where Kafka's tool has them in that of their letters.
    """
    return {
        "leader": _listed({partition: move.sources for partition, move in moves.items()}),
        "follower": _listed({partition: move.destinations for partition, move in moves.items()}),
    }


def written(entries: tuple[tuple[int, int], ...]) -> str:
    """``partition:broker,…``"""
    return ",".join(f"{partition}:{broker}" for partition, broker in entries)


def brokers(moves: MoveMap) -> set[int]:
    """Every broker that takes part."""
    return {broker for move in moves.values() for broker in (*move.sources, *move.destinations)}


def _listed(replicas: Assignment) -> dict[str, tuple[tuple[int, int], ...]]:
    lists: dict[str, list[tuple[int, int]]] = {}
    for (topic, partition), found in replicas.items():
        lists.setdefault(topic, []).extend((partition, broker) for broker in found)
    return {topic: tuple(sorted(entries)) for topic, entries in sorted(lists.items())}


def _without(replicas: tuple[int, ...], others: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(broker for broker in replicas if broker not in others)
