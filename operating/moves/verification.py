"""How far a reassignment has come, and whether anything of its throttle is left behind.

Pure: a look at the cluster and the text of a quotas file in, findings out. Invariant: a throttle is called left behind
only if it names what this reassignment moved, or throttles nothing any more. A throttle that is there for another
reason is told as a note.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from reassignment import Assignment, TopicPartition

    from .leftovers import FileLeftover
    from .view import ClusterView, NativeThrottle


class Stage(Enum):
    """The values are shown."""

    DONE = "done"
    MOVING = "moving"
    ELSEWHERE = "moving to other replicas than these"
    BEHIND = "in place, but not in sync"
    NOT_STARTED = "not started, or cancelled"
    MISSING = "no such partition"


UNDER_WAY = frozenset({Stage.MOVING, Stage.ELSEWHERE, Stage.BEHIND})
"""As long as a partition is in one of these stages, its throttle is of use."""


class Progress(NamedTuple):
    """left_bytes: the bytes that replicas still lack to be in place and in sync; None if nobody knows."""

    partition: TopicPartition
    stage: Stage
    target: tuple[int, ...]
    replicas: tuple[int, ...] = ()
    in_sync: tuple[int, ...] = ()
    left_bytes: int | None = None


class SidecarLeftover(NamedTuple):
    """What a running sidecar still throttles by name."""

    url: str
    role: str
    topic: str
    partitions: str

    def __str__(self) -> str:
        return f"{self.url}: throttles as {self.role}: {self.topic} {self.partitions}"


@dataclass(frozen=True, slots=True)
class Verification:
    """Args: notes: what is throttled for other reasons, or could not be found out."""

    progress: tuple[Progress, ...]
    file: tuple[FileLeftover, ...] = ()
    native: tuple[NativeThrottle, ...] = ()
    sidecars: tuple[SidecarLeftover, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def done(self) -> bool:
        return all(found.stage is Stage.DONE for found in self.progress)

    @property
    def under_way(self) -> bool:
        return any(found.stage in UNDER_WAY for found in self.progress)

    @property
    def clean(self) -> bool:
        return not (self.file or self.native or self.sidecars)


def progress(proposed: Assignment, view: ClusterView) -> tuple[Progress, ...]:
    """Where every partition is, in order."""
    return tuple(_progress(partition, target, view) for partition, target in sorted(proposed.items()))


def _progress(partition: TopicPartition, target: tuple[int, ...], view: ClusterView) -> Progress:
    state = view.partitions.get(partition)
    if state is None:
        return Progress(partition, Stage.MISSING, target)
    missing = set(target) - set(state.in_sync)
    at_leader = None if state.leader is None else view.sizes.get((state.leader, partition))
    left = None
    if at_leader is not None:
        left = sum(max(at_leader - view.sizes.get((broker, partition), 0), 0) for broker in missing)
    stage = _stage(partition, target, view)
    return Progress(partition, stage, target, state.replicas, state.in_sync, left)


def _stage(partition: TopicPartition, target: tuple[int, ...], view: ClusterView) -> Stage:
    state, ongoing = view.partitions[partition], (view.ongoing or {}).get(partition)
    if ongoing is not None:
        aim = set(ongoing.replicas) - set(ongoing.removing)
        return Stage.MOVING if aim == set(target) else Stage.ELSEWHERE
    if state.replicas != target:
        # Brokers before 2.4 do not say what moves. While a partition moves, it has its old and its new replicas.
        old_and_new = view.ongoing is None and set(target) < set(state.replicas)
        return Stage.MOVING if old_and_new else Stage.NOT_STARTED
    return Stage.DONE if set(target) <= set(state.in_sync) else Stage.BEHIND


def native_leftovers(
    found: list[NativeThrottle], proposed: Assignment, view: ClusterView
) -> tuple[tuple[NativeThrottle, ...], tuple[str, ...]]:
    """Return which of the brokers' own throttles to delete, and notes about those that stay.

    As kafka-reassign-partitions --verify does: the lists of topics go at once, and the rates of all brokers only when
    nothing else moves in the cluster.
    """
    others = sorted(set(view.ongoing or ()) - set(proposed))
    of_all = [throttle for throttle in found if not throttle.name]
    notes = [f"{throttle}: of every broker; take it back with kafka-configs --entity-default" for throttle in of_all]
    mine = [throttle for throttle in found if throttle.name]
    if others:
        rates = [throttle for throttle in mine if throttle.kind == "broker"]
        notes += [f"{throttle}: left, {others[0]} still moves by another reassignment" for throttle in rates]
        mine = [throttle for throttle in mine if throttle.kind == "topic"]
    return tuple(mine), tuple(notes)
