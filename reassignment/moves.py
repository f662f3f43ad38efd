"""The move map of a reassignment, Kafka's own algorithm: which replicas send and which fetch.

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

    replicas: every replica that the partition has now, including those that are being added.
    """

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class PartitionMove(NamedTuple):
    """The replicas that send one partition and those that fetch it.

    sources: the replicas that hold the data, the preferred leader first.
    destinations: the replicas that are added, and therefore fetch all of it.
    """

    sources: tuple[int, ...]
    destinations: tuple[int, ...]


MoveMap = Mapping[TopicPartition, PartitionMove]
Lists = Mapping[str, tuple[tuple[int, int], ...]]
"""The sorted pairs (partition, broker) by topic."""


def move_map(proposed: Assignment, current: Assignment, ongoing: Mapping[TopicPartition, Ongoing]) -> MoveMap:
    """Return all that moves once `proposed` is executed, together with everything that is moving already.

    Kafka's tool writes the throttled replicas of a topic as one list, so the list must name the reassignments under way
    too, or it would end their throttle. Of a partition that is being moved, the sources are the replicas from before
    that move, since only they hold all of the data.

    Args:
        proposed: the replicas that partitions shall have.
        current: the replicas that partitions have. For a partition in `ongoing`, that is used instead.
        ongoing: every reassignment under way in the cluster.

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
    """Return the moves that send data. A new order of the same replicas sends none, and neither do fewer replicas.

    Kafka's tool lists the leaders of those partitions too. In a sidecar's quotas file that would throttle a replica of
    theirs that happens to catch up, although the move does not concern it.
    """
    return {partition: move for partition, move in moves.items() if move.destinations}


def throttled_replicas(moves: MoveMap) -> dict[RoleName, Lists]:
    """Return the lists ``leader.`` and ``follower.replication.throttled.replicas`` of every topic in `moves`.

    Entries are sorted by number: 2 comes before 10, where Kafka's tool, which sorts text, has 10 first.
    """
    return {
        "leader": _listed({partition: move.sources for partition, move in moves.items()}),
        "follower": _listed({partition: move.destinations for partition, move in moves.items()}),
    }


def written(entries: tuple[tuple[int, int], ...]) -> str:
    """Return the entries as ``partition:broker,…``."""
    return ",".join(f"{partition}:{broker}" for partition, broker in entries)


def brokers(moves: MoveMap) -> set[int]:
    """Return every broker that takes part."""
    return {broker for move in moves.values() for broker in (*move.sources, *move.destinations)}


def _listed(replicas: Assignment) -> dict[str, tuple[tuple[int, int], ...]]:
    lists: dict[str, list[tuple[int, int]]] = {}
    for (topic, partition), found in replicas.items():
        lists.setdefault(topic, []).extend((partition, broker) for broker in found)
    return {topic: tuple(sorted(entries)) for topic, entries in sorted(lists.items())}


def _without(replicas: tuple[int, ...], others: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(broker for broker in replicas if broker not in others)
