"""Computes a reassignment's load on brokers, and its rates: from a look at the cluster, or from files alone.

Pure: `reassignment` does the arithmetic; facts about the cluster come as values. Invariant:
every rate of a plan is above the rate at which producers write to the partitions that move, or a warning says that the
move will not end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from proxy.errors import ConfigurationError
from proxy.quotas import format_rate
from reassignment import (
    Capacity,
    Deadline,
    Document,
    Load,
    MoveMap,
    Size,
    TopicPartition,
    loads,
    move_map,
    moving,
    problems,
    rate_to_set,
    standing_in,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from reassignment import Rates

    from .cluster_view import ClusterView, PartitionState

_DEFAULT_REPLICATION_FACTOR = 3
SLACK = 1.05
"""A throttled move may take this many times as long as its quota says, since it has 0.95 to 1.03 of the quota on
average."""


class Wanted(NamedTuple):
    """A rate for every broker and role, or a time in which the move has to be done. With neither, only what moves is
    told.

    rate: bytes per second.
    seconds: in which all has to be moved.
    capacity: N and R, if they are known.
    """

    rate: float | None = None
    seconds: float | None = None
    capacity: Capacity = Capacity()


@dataclass(frozen=True, slots=True)
class Ground:
    """The known state of the cluster.

    Args:
        moves: everything that will move once the reassignment is executed, including moves under way.
        sizes: of partitions, as far as they are known.
        inflow: IN, the bytes per second that each broker takes in from leaders in sync; None if not measured.
        warnings: oddities of the cluster.
    """

    moves: MoveMap
    sizes: Mapping[TopicPartition, Size]
    inflow: Mapping[int, float] | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MovePlan:
    """Args:
    rates: empty if none were wanted.
    loads: of every broker that sends or fetches.
    """

    ground: Ground
    wanted: Wanted
    loads: tuple[Load, ...]
    rates: Rates
    warnings: tuple[str, ...]

    def seconds(self, load: Load) -> float:
        """Return how long a broker's share takes at its rate; infinity if it never ends, NaN without a rate."""
        rate = self.rates.get((load.broker, load.role))
        if rate is None:
            return math.nan
        gain = rate - load.written_bytes_per_second
        if not load.move_bytes:
            return 0.0
        return load.move_bytes / gain if gain > 0 else math.inf

    @property
    def total_seconds(self) -> float:
        """The time that the slowest share takes, in seconds; NaN if no rate is wanted or no size is known."""
        known = bool(self.ground.sizes) and bool(self.rates)
        seconds = [self.seconds(load) for load in self.loads] if known else [math.nan]
        return math.nan if any(map(math.isnan, seconds)) else max(seconds, default=0.0)

    @property
    def total_bytes(self) -> float:
        """The bytes sent over the network, each copy counted."""
        return sum(load.move_bytes for load in self.loads if load.role == "follower")


def ground_of_files(proposed: Document, current: Document, total_bytes: float | None) -> Ground:
    """Return the state without a cluster: partitions are led by their preferred leaders, and together have
    `total_bytes`.

    Raises:
        ReassignmentError: a partition is not in the current assignment.
    """
    moves = move_map(proposed.assignment, current.assignment, {})
    really = moving(moves)
    each = None if total_bytes is None else total_bytes / max(len(really), 1)
    sizes = {} if each is None else {partition: Size(None, each) for partition in really}
    return Ground(moves, sizes, warnings=tuple(_about_disks(proposed, current)))


def ground_of_cluster(
    proposed: Document,
    view: ClusterView,
    *,
    written: Mapping[TopicPartition, float] | None,
    inflow: Mapping[int, float] | None,
) -> Ground:
    """Return the state as the cluster gives it.

    Args:
        proposed: the wanted replicas.
        view: of the topics that it names, and of those that move already.
        written: bytes per second written to partitions; None if not measured.
        inflow: bytes per second each broker takes in; None if not measured.

    Raises:
        ReassignmentError: a partition does not exist.
    """
    ongoing = view.ongoing or {}
    current = {partition: state.replicas for partition, state in view.partitions.items()}
    moves = move_map(proposed.assignment, current, ongoing)
    sizes = {
        partition: Size(
            state.leader,
            view.sizes[state.leader, partition],
            (written or {}).get(partition, 0.0),
            {broker: view.sizes.get((broker, partition), 0) for broker in moves[partition].destinations},
        )
        for partition, state in view.partitions.items()
        if partition in moves and state.leader is not None and (state.leader, partition) in view.sizes
    }
    directories = {replica: found.path for replica, found in view.directories.items()}
    warnings = (*_about_disks(proposed, Document(current, directories)), *_about_cluster(moves, proposed, view))
    return Ground(moves, sizes, inflow, warnings)


def wanted(ground: Ground, rate: float | None, seconds: float | None, capacity: float | None) -> Wanted:
    """Return the wanted replicas, with the replication factor of those that move."""
    factor = max((len(move.sources) for move in moving(ground.moves).values()), default=_DEFAULT_REPLICATION_FACTOR)
    carries = Capacity(replication_factor=factor) if capacity is None else Capacity(capacity, factor)
    return Wanted(rate, seconds, carries)


def plan_move(ground: Ground, wanted: Wanted) -> MovePlan:
    """Find the rates.

    Raises:
        ConfigurationError: no rate is admissible, or none that keeps the time wanted; or a time is wanted of a move
            of unknown size.
    """
    found = loads(ground.moves, ground.sizes, ground.inflow or {})
    rates: dict[tuple[int, str], int] = {}
    if wanted.seconds is not None:
        if found and not ground.sizes:
            raise ConfigurationError("the size of the move is unknown: ask a cluster (--bootstrap) or give --bytes")
        deadline = Deadline(wanted.seconds / SLACK)
        if refusals := problems(found, deadline, wanted.capacity, slack=SLACK):
            raise ConfigurationError(refusals)
        rates = {(load.broker, load.role): rate_to_set(load, deadline) for load in found}
    elif wanted.rate is not None:
        rates = {(load.broker, load.role): int(wanted.rate) for load in found}
    complete = standing_in(ground.moves, ground.sizes, rates)  # type: ignore[arg-type]
    warnings = (*ground.warnings, *_unknown(ground), *_about_rates(found, complete, wanted.capacity))
    if complete and ground.inflow is None:
        warnings += ("IN is not known: what is written meanwhile has to be moved as well (--measure 30s tells)",)
    return MovePlan(ground, wanted, found, complete, warnings)


def inflow_of(
    partitions: Mapping[TopicPartition, PartitionState], written: Mapping[TopicPartition, float]
) -> dict[int, float]:
    """Return IN of each broker: the bytes per second written to the partitions that it follows and is in sync with."""
    inflow: dict[int, float] = {}
    for partition, state in partitions.items():
        for broker in state.in_sync:
            if broker != state.leader:
                inflow[broker] = inflow.get(broker, 0.0) + written.get(partition, 0.0)
    return inflow


def _about_disks(proposed: Document, current: Document) -> Iterator[str]:
    """Yield a warning about replicas that stay on their broker and are copied from disk to disk there; one that is new
    there comes over the network, like any other."""
    found: dict[bool, dict[TopicPartition, None]] = {True: {}, False: {}}
    for replica, wanted in proposed.directories.items():
        broker, partition = replica
        if broker in current.assignment.get(partition, ()) and current.directories.get(replica) != wanted:
            found[replica in current.directories][partition] = None
    if found[True]:
        names = named(tuple(found[True]))
        yield f"{names}: log_dirs copy replicas between disks of a broker, which the sidecar never sees: not throttled"
    if found[False]:
        names = named(tuple(found[False]))
        unknown = "on which disks replicas are now is not known"
        yield f"{names}: {unknown}: where log_dirs name others, that is not throttled"


def _about_cluster(moves: MoveMap, proposed: Document, view: ClusterView) -> Iterator[str]:
    if view.ongoing is None:
        yield "the brokers are older than 2.4 and cannot tell which reassignments are under way"
    others = sorted(set(view.ongoing or ()) - set(proposed.assignment))
    if others:
        yield f"{named(others)}: already moving, by another reassignment: counted and listed as well"
    leaderless = [partition for partition in moving(moves) if _leader(view, partition) is None]
    if leaderless:
        yield f"{named(leaderless)}: no leader, so nothing can be fetched"
    strangers = {broker for replicas in proposed.assignment.values() for broker in replicas} - view.brokers
    if strangers:
        yield f"broker {', '.join(map(str, sorted(strangers)))}: not in the cluster now"


def _leader(view: ClusterView, partition: TopicPartition) -> int | None:
    state = view.partitions.get(partition)
    return None if state is None else state.leader


def _unknown(ground: Ground) -> Iterator[str]:
    unknown = [partition for partition in moving(ground.moves) if partition not in ground.sizes]
    if unknown and ground.sizes:
        yield f"{named(unknown)}: size not known, counted as empty"


def _about_rates(found: tuple[Load, ...], rates: Rates, capacity: Capacity) -> Iterator[str]:
    for load in found:
        rate = rates.get((load.broker, load.role))
        if rate is None:
            continue
        who = f"broker {load.broker} as {load.role}: {format_rate(rate)}"
        if rate <= load.written_bytes_per_second:
            yield (
                f"{who} is not more than the {format_rate(load.written_bytes_per_second)} written to what moves:"
                " it will never end"
            )
        elif rate <= load.low:
            yield f"{who} is not more than IN, {format_rate(load.low)}: it ends only while nothing else is listed"
        if rate >= load.high(capacity):
            yield f"{who} is not less than N - IN/R, {format_rate(load.high(capacity))}: clients will feel it"


def named(partitions: Sequence[TopicPartition], most: int = 5) -> str:
    """Return the first partitions, and how many more there are."""
    names = ", ".join(map(str, partitions[:most]))
    return names if len(partitions) <= most else f"{names} and {len(partitions) - most} more"
