"""Which rate is admissible, and which one ends a move in time.

Pure arithmetic over values the size of a cluster; whether the sizes come from journals or from brokers is no matter.
KIP-73: a throttle T must be more than a broker's inflow IN, or catching up never ends, and less than N - IN/R, or
clients have nothing left (N: the broker's network, R: replication factor).
Invariant: `rate_to_set` is above the lower bound; whether it is below the upper one, `problems` says.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from .moves import ROLES, MoveMap, RoleName, moving

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .assignment import TopicPartition


@dataclass(frozen=True, slots=True)
class Size:
    """What is known of a partition.

    Args:
        leader: who sends it; None for its preferred leader.
        bytes: at the leader.
        written_bytes_per_second: by producers.
        present: bytes that destinations already have.
    """

    leader: int | None
    bytes: float
    written_bytes_per_second: float = 0.0
    present: Mapping[int, float] = field(default_factory=dict)


class Deadline(NamedTuple):
    """This fraction of the data within so many seconds."""

    seconds: float
    fraction: float = 1.0


class Load(NamedTuple):
    """What a move asks of one broker in one role.

    move_bytes: to send or to fetch.
    written_bytes_per_second: to the partitions that move; that has to be moved as well.
    inflow_bytes_per_second: IN, what the broker takes in from leaders anyway.
    """

    broker: int
    role: RoleName
    move_bytes: float
    written_bytes_per_second: float
    inflow_bytes_per_second: float

    @property
    def low(self) -> float:
        """IN: at this rate or less the move never ends."""
        return max(self.inflow_bytes_per_second, self.written_bytes_per_second)

    def high(self, capacity: Capacity) -> float:
        """N - IN/R: at this rate or more clients have nothing left."""
        return capacity.bytes_per_second - self.inflow_bytes_per_second / capacity.replication_factor

    def needed(self, deadline: Deadline) -> float:
        """The smallest rate that keeps it; what is written meanwhile comes on top."""
        return self.move_bytes * deadline.fraction / deadline.seconds + self.written_bytes_per_second

    def seconds_at(self, bytes_per_second: float) -> float:
        """How long the move takes this broker if nobody else is slower; infinity if it never ends."""
        if not self.move_bytes:
            return 0.0
        left = bytes_per_second - self.written_bytes_per_second
        return self.move_bytes / left if left > 0 else math.inf


class Capacity(NamedTuple):
    """N and R."""

    bytes_per_second: float = math.inf
    replication_factor: int = 3


def source(partition: TopicPartition, move_sources: tuple[int, ...], sizes: Mapping[TopicPartition, Size]) -> int:
    """Who sends a partition: its leader if it is known, else the preferred one."""
    size = sizes.get(partition)
    return move_sources[0] if size is None or size.leader is None else size.leader


def loads(moves: MoveMap, sizes: Mapping[TopicPartition, Size], inflow: Mapping[int, float]) -> tuple[Load, ...]:
    """What `moves` ask of each broker that sends or fetches, by broker and role.

    Partitions whose size is not known count nothing.

    Args:
        moves: also those that do not move.
        sizes: by partition.
        inflow: bytes per second that each broker fetches in sync.
    """
    to_move: defaultdict[tuple[int, RoleName], float] = defaultdict(float)
    grows: defaultdict[tuple[int, RoleName], float] = defaultdict(float)
    for partition, move in moving(moves).items():
        size = sizes.get(partition)
        sender = source(partition, move.sources, sizes)
        for destination in move.destinations:
            missing = 0.0 if size is None else max(size.bytes - size.present.get(destination, 0.0), 0.0)
            ends: tuple[tuple[int, RoleName], ...] = ((sender, "leader"), (destination, "follower"))
            for end in ends:
                to_move[end] += missing
                grows[end] += 0.0 if size is None else size.written_bytes_per_second
    order = sorted(to_move, key=lambda end: (end[0], ROLES.index(end[1])))
    return tuple(Load(*end, to_move[end], grows[end], inflow.get(end[0], 0.0)) for end in order)


def rate_to_set(load: Load, deadline: Deadline) -> int:
    """The smallest admissible rate that keeps the deadline, in whole KiB per second, up; at least one."""
    least = max(load.needed(deadline), math.nextafter(load.low, math.inf), 1.0)
    return math.ceil(least / 1024) * 1024


def problems(found: Iterable[Load], deadline: Deadline, capacity: Capacity) -> list[str]:
    """Why no rate is admissible, or none that keeps the deadline: one line for each broker and role."""
    lines = []
    for load in found:
        who, high = f"broker {load.broker} as {load.role}", load.high(capacity)
        if load.low >= high:
            lines.append(f"{who}: no rate is admissible: inflow {load.low:.0f} B/s, capacity leaves {high:.0f} B/s")
        elif rate_to_set(load, deadline) >= high:
            least = load.move_bytes * deadline.fraction / (high - load.written_bytes_per_second)
            lines.append(
                f"{who}: needs {rate_to_set(load, deadline)} B/s to end in time, and must stay below {high:.0f} B/s;"
                f" allow at least {least:.0f} s"
            )
    return lines


def standing_in(
    moves: MoveMap, sizes: Mapping[TopicPartition, Size], rates: Mapping[tuple[int, RoleName], int]
) -> dict[tuple[int, RoleName], int]:
    """`rates`, and one for every replica that would lead if the leader failed: the largest of those it stands in for.

    It is in the list, so without a rate it would send as fast as it can.
    """
    complete = dict(rates)
    for partition, move in moving(moves).items():
        leader = rates.get((source(partition, move.sources, sizes), "leader"))
        for broker in move.sources:
            if leader is not None and (broker, "leader") not in rates:
                complete[broker, "leader"] = max(complete.get((broker, "leader"), 0), leader)
    return complete
