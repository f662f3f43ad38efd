"""Verifies how far a reassignment has come, and whether its throttle is left behind.

Pure: a look at the cluster in, findings out. Invariant: a partition is done only if its replicas are in place, in sync,
and in the log directories that the reassignment names.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from .native_throttle import NativeFindings

if TYPE_CHECKING:
    from reassignment import Document, TopicPartition

    from .view import ClusterView


class Stage(Enum):
    """The values are shown."""

    DONE = "done"
    MOVING = "moving"
    ELSEWHERE = "moving to other replicas than these"
    BEHIND = "in place, but not in sync"
    ON_DISKS = "in place, but copied between the disks of a broker"
    AWAY = "in place, but not in sync, and its broker does not answer"
    OTHER_DISK = "in place, but not in the log directory that it shall be in"
    NOT_STARTED = "not started, or cancelled"
    MISSING = "no such partition"


UNDER_WAY = frozenset({Stage.MOVING, Stage.ELSEWHERE, Stage.BEHIND, Stage.ON_DISKS})
"""As long as a partition is in one of these stages, its throttle is of use."""


class Progress(NamedTuple):
    """left_bytes: the bytes that replicas still lack to be in place and in sync; None if nobody knows."""

    partition: TopicPartition
    stage: Stage
    target: tuple[int, ...]
    replicas: tuple[int, ...] = ()
    in_sync: tuple[int, ...] = ()
    left_bytes: int | None = None


class MoveOverride(NamedTuple):
    """An override with the label of the move that a sidecar has."""

    where: str
    """The sidecar's broker, or its URL."""
    id: str
    label: str

    def __str__(self) -> str:
        return f"{self.where}: override {self.id} ({self.label})"


@dataclass(frozen=True, slots=True)
class Verification:
    """The findings of a verification.

    Args:
        overrides: that sidecars have under the label of the move.
        silent_sidecars: those that did not say which overrides they have, each with the reason.
        notes: what is throttled for other reasons, or could not be found out.
    """

    progress: tuple[Progress, ...]
    native: NativeFindings = NativeFindings()  # noqa: RUF009 - a tuple
    overrides: tuple[MoveOverride, ...] = ()
    silent_sidecars: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def done(self) -> bool:
        return all(found.stage is Stage.DONE for found in self.progress)

    @property
    def under_way(self) -> bool:
        return any(found.stage in UNDER_WAY for found in self.progress)

    @property
    def is_away(self) -> bool:
        """True if a replica is missing only because its broker does not answer. No throttle helps it now, but it will
        catch up under one when it returns."""
        return any(found.stage is Stage.AWAY for found in self.progress)

    @property
    def clean(self) -> bool:
        """True if nothing is left; what was not looked at may be."""
        return not (self.native.left or self.native.silent or self.overrides or self.silent_sidecars)


def progress(move: Document, view: ClusterView) -> tuple[Progress, ...]:
    """Return where every partition is, in order."""
    return tuple(_progress(partition, move, view) for partition in sorted(move.assignment))


def _progress(partition: TopicPartition, move: Document, view: ClusterView) -> Progress:
    target = move.assignment[partition]
    state = view.partitions.get(partition)
    if state is None:
        return Progress(partition, Stage.MISSING, target)
    missing = set(target) - set(state.in_sync)
    at_leader = None if state.leader is None else view.sizes.get((state.leader, partition))
    left = None
    if at_leader is not None:
        left = sum(max(at_leader - view.sizes.get((broker, partition), 0), 0) for broker in missing)
    stage = _stage(partition, target, view)
    if stage is Stage.DONE:
        stage, copied = _on_disks(partition, move, view)
        left = copied or left
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
    missing = set(target) - set(state.in_sync)
    if not missing:
        return Stage.DONE
    return Stage.BEHIND if missing & view.brokers else Stage.AWAY


def _on_disks(partition: TopicPartition, move: Document, view: ClusterView) -> tuple[Stage, int]:
    """Return the stage of a partition whose replicas are in place and in sync, and the bytes that its copies lack. As
    ReassignPartitionsCommand.findLogDirMoveStates: while there is a copy, the replica moves."""
    stage, lacking = Stage.DONE, 0
    for broker in move.assignment[partition]:
        wanted, found = move.directories.get((broker, partition)), view.directories.get((broker, partition))
        if wanted is None:
            continue
        if found is not None and found.copied_bytes is not None:
            stage = Stage.ON_DISKS
            lacking += max(view.sizes.get((broker, partition), 0) - found.copied_bytes, 0)
        elif stage is Stage.DONE and (found is None or found.path != wanted):
            stage = Stage.OTHER_DISK
    return stage, lacking
