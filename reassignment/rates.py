"""Throttle rates for a move: which are possible, and which one ends it in time.

Pure arithmetic; the sizes may come from journals or from brokers. KIP-73 gives the bounds. A throttle T must be more
than IN, the bytes per second that a broker fetches anyway, or catching up never ends. It must be less than N - IN/R,
where N is the broker's network and R the replication factor, or nothing is left for clients.
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


STEP = 1024
"""Bytes per second: rates are set in whole multiples of it."""
_UNITS = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
_MINUTE, _HOUR, _HOURS_TOLD = 60, 3600, 72


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a partition, and how fast it grows.

    Args:
        leader: the broker that sends it; None for the first of the move's sources.
        bytes: the size of its log at the leader.
        written_bytes_per_second: what producers write to it.
        present: by broker, the bytes that a destination has already.
    """

    leader: int | None
    bytes: float
    written_bytes_per_second: float = 0.0
    present: Mapping[int, float] = field(default_factory=dict)


class Deadline(NamedTuple):
    """The seconds in which a fraction of the data is to be moved."""

    seconds: float
    fraction: float = 1.0


class Load(NamedTuple):
    """The load that a move puts on one broker in one role.

    move_bytes: what the broker has to send, or to fetch.
    written_bytes_per_second: what producers write meanwhile to the partitions that move, and has to be moved as well.
    inflow_bytes_per_second: IN, what the broker's replicas in sync fetch from their leaders.
    """

    broker: int
    role: RoleName
    move_bytes: float
    written_bytes_per_second: float
    inflow_bytes_per_second: float

    @property
    def low(self) -> float:
        """The rate IN, at or below which the move never ends."""
        return max(self.inflow_bytes_per_second, self.written_bytes_per_second)

    def high(self, capacity: Capacity) -> float:
        """Return N - IN/R: at this rate or more clients have nothing left."""
        return capacity.bytes_per_second - self.inflow_bytes_per_second / capacity.replication_factor

    def needed(self, deadline: Deadline) -> float:
        """Return the smallest rate that keeps the deadline although producers go on writing."""
        return self.move_bytes * deadline.fraction / deadline.seconds + self.written_bytes_per_second


class Capacity(NamedTuple):
    """N, the network of a broker, and R, the replication factor."""

    bytes_per_second: float = math.inf
    replication_factor: int = 3


def source(partition: TopicPartition, move_sources: tuple[int, ...], sizes: Mapping[TopicPartition, Size]) -> int:
    """Return the broker that sends a partition: its leader if that is known, else the first of the sources."""
    size = sizes.get(partition)
    return move_sources[0] if size is None or size.leader is None else size.leader


def loads(moves: MoveMap, sizes: Mapping[TopicPartition, Size], inflow: Mapping[int, float]) -> tuple[Load, ...]:
    """Return the load of each broker that sends or fetches, by broker and role.

    A partition whose size is not known counts as empty.

    Args:
        moves: may name partitions that send nothing.
        sizes: by partition.
        inflow: by broker, the bytes per second that its replicas in sync fetch.
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
    """Return the smallest admissible rate that keeps the deadline, in whole KiB per second; at least one KiB."""
    least = max(load.needed(deadline), math.nextafter(load.low, math.inf), 1.0)
    return math.ceil(least / STEP) * STEP


def problems(found: Iterable[Load], deadline: Deadline, capacity: Capacity, *, slack: float = 1.0) -> list[str]:
    """Return why no rate is admissible, or none that keeps the deadline: one line for each broker and role.

    slack: the deadline allows this many times as long; the reported time includes it.
    """
    lines = []
    for load in found:
        who, high = f"broker {load.broker} as {load.role}", load.high(capacity)
        if load.low >= high:
            lines.append(f"{who}: no rate is admissible: inflow {load.low:.0f} B/s, capacity leaves {high:.0f} B/s")
        elif rate_to_set(load, deadline) >= high:
            room = high - load.written_bytes_per_second
            # Rates are set in whole KiB per second, rounded up.
            least = slack * load.move_bytes * deadline.fraction / (room - STEP if room > STEP else room)
            lines.append(
                f"{who}: needs {rate_in_words(rate_to_set(load, deadline))} to end in time, but must stay below"
                f" {rate_in_words(high)}; allow at least {time_in_words(least)}"
            )
    return lines


def standing_in(
    moves: MoveMap, sizes: Mapping[TopicPartition, Size], rates: Mapping[tuple[int, RoleName], int]
) -> dict[tuple[int, RoleName], int]:
    """Return `rates` and a rate for each broker that would lead a moving partition if its leader failed.

    Such a broker is in the list of throttled replicas already; without a rate of its own it would send as fast as it
    can. It gets the largest rate of the leaders in whose place it may send.
    """
    complete = dict(rates)
    for partition, move in moving(moves).items():
        leader = rates.get((source(partition, move.sources, sizes), "leader"))
        for broker in move.sources:
            if leader is not None and (broker, "leader") not in rates:
                complete[broker, "leader"] = max(complete.get((broker, "leader"), 0), leader)
    return complete


def rate_in_words(bytes_per_second: float) -> str:
    """Return ``4.00 MiB/s (4194304 B/s)``; below 1 KiB per second the exact bytes alone."""
    exact = f"{bytes_per_second:.0f} B/s"
    for size, unit in _UNITS:
        if bytes_per_second >= size:
            return f"{bytes_per_second / size:.2f} {unit}/s ({exact})"
    return exact


def time_in_words(seconds: float) -> str:
    """Return ``12s``, ``3m05s``, ``2h10m`` or ``3d04h``, rounded up: less would not be enough."""
    whole = math.ceil(seconds)
    minutes, hours = math.ceil(whole / _MINUTE), math.ceil(whole / _HOUR)
    if hours >= _HOURS_TOLD:
        return f"{hours // 24}d{hours % 24:02d}h"
    if whole >= _HOUR:
        return f"{minutes // _MINUTE}h{minutes % _MINUTE:02d}m"
    return f"{whole // _MINUTE}m{whole % _MINUTE:02d}s" if whole >= _MINUTE else f"{whole}s"
