"""Verifies how far a reassignment has come and whether its throttle is left behind; as JSON or as a table.

Pure: a look at the cluster in, findings out. Invariants: a partition is done only if its replicas are in place, in
sync, and in the log directories that the reassignment names; the last line printed alone says whether something is left
to do.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.console import Group, RenderableType
from rich.text import Text

from proxy.quotas import format_bytes

from ..fleet.replies import brokers as named_brokers
from ..terminal import folding_table
from .native_throttle import NativeFindings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from reassignment import Document, TopicPartition

    from .cluster_view import ClusterView

Json = dict[str, Any]
_MAX_PARTITIONS = 30


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
"""The stages in which a partition's throttle is still of use."""


class Progress(NamedTuple):
    """The progress of a partition. left_bytes: the bytes that replicas still lack to be in place and in sync; None if
    it is unknown."""

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
        unsettled: undone overrides that a restart may bring back, or that are in force still; a line for each.
        silent_sidecars: those that did not say which overrides they have, each with the reason.
        unasked: the brokers of the move whose sidecars are not among those asked, as far as these answer.
        notes: throttles with other reasons, and facts that could not be found out.
    """

    progress: tuple[Progress, ...]
    native: NativeFindings = NativeFindings()  # noqa: RUF009 - a tuple
    overrides: tuple[MoveOverride, ...] = ()
    unsettled: tuple[str, ...] = ()
    silent_sidecars: tuple[str, ...] = ()
    unasked: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def done(self) -> bool:
        return all(found.stage is Stage.DONE for found in self.progress)

    @property
    def under_way(self) -> bool:
        return any(found.stage in UNDER_WAY for found in self.progress)

    @property
    def is_moving(self) -> bool:
        return any(found.stage is Stage.MOVING for found in self.progress)

    @property
    def is_away(self) -> bool:
        """True if a replica is missing only because its broker does not answer. No throttle helps it now, but it will
        catch up under one when it returns."""
        return any(found.stage is Stage.AWAY for found in self.progress)

    @property
    def needs_throttle(self) -> bool:
        """True if a throttle of the move is of use, now or when a broker returns."""
        return self.under_way or self.is_away

    @property
    def is_unthrottled(self) -> bool:
        """True if no sidecar has, or may have again, an override of the move."""
        return not (self.overrides or self.unsettled or self.unknown)

    @property
    def unknown(self) -> tuple[str, ...]:
        """A line for each sidecar, and for the brokers without one, where overrides of the move may be left."""
        them = "it" if len(self.unasked) == 1 else "them"
        unasked = (f"{named_brokers(self.unasked)}: no sidecar that was asked answers for {them}",)
        return (*self.silent_sidecars, *(unasked if self.unasked else ()))

    @property
    def has_leftovers(self) -> bool:
        """True if something is left, as far as it is known."""
        return bool(self.native.left or self.overrides or self.unsettled)

    @property
    def clean(self) -> bool:
        """True if nothing is left; facts not looked at may be."""
        return self.is_unthrottled and not (self.native.left or self.native.silent)


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


def verify_json(found: Verification, *, removed: Sequence[str]) -> Json:
    """Return the document of ``--json``."""
    return {
        "done": found.done,
        "clean": found.clean,
        "partitions": [_partition(progress) for progress in found.progress],
        "left_behind": {
            "cluster": [{**left.throttle._asdict(), "becomes": left.becomes} for left in found.native.left],
            "overrides": [left._asdict() for left in found.overrides],
        },
        "unsettled": found.unsettled,
        "silent_sidecars": found.silent_sidecars,
        "unasked_brokers": found.unasked,
        "waits_for": found.native.waits_for or None,
        "silent_brokers": found.native.silent,
        "removed": removed,
        "notes": [*found.notes, *found.native.notes],
    }


def _partition(progress: Progress) -> Json:
    return {
        "topic": progress.partition.topic,
        "partition": progress.partition.partition,
        "stage": progress.stage.name.lower(),
        "target": progress.target,
        "replicas": progress.replicas,
        "in_sync": progress.in_sync,
        "left_bytes": progress.left_bytes,
    }


def verify_table(found: Verification, *, removed: Sequence[str]) -> RenderableType:
    """Return the lines for people."""
    waiting = [progress for progress in found.progress if progress.stage is not Stage.DONE]
    parts: list[RenderableType] = [Text(summary(found.progress))]
    if waiting:
        parts += [Text(), _table(waiting), Text()]
    parts += [Text(f"removed: {line}") for line in removed]
    in_use = found.under_way or found.native.waits_for
    label, style = ("in force", "") if in_use else ("left behind", "yellow")
    parts += [Text(f"{label}: {line}", style=style) for line in left_behind(found)]
    parts += [Text(line, style="yellow") for line in found.unsettled]
    parts += [Text(f"note: {note}") for note in (*found.notes, *found.native.notes)]
    if found.native.silent:
        parts.append(Text(_silent(found.native.silent), style="yellow"))
    for line in found.unknown:
        parts.append(Text(f"not known: {line}; overrides of the move may be left there", style="yellow"))
    parts.append(_verdict(found))
    return Group(*parts)


def summary(found: Sequence[Progress]) -> str:
    """Return the progress: `3 of 4 partitions are in place, 3.10 MiB left`; "at least" if a partition's size is
    unknown."""
    waiting = [progress.left_bytes for progress in found if progress.stage is not Stage.DONE]
    line = f"{len(found) - len(waiting)} of {len(found)} partitions are in place"
    left = [progress.left_bytes for progress in found if progress.left_bytes]
    least = "at least " if None in waiting else ""
    return f"{line}, {least}{format_bytes(sum(left))} left" if left else line


def left_behind(found: Verification) -> list[str]:
    """Return a line for each throttle that is left."""
    return [*map(str, found.overrides), *map(str, found.native.left)]


def _silent(brokers: Sequence[int]) -> str:
    who = f"broker {brokers[0]} does" if len(brokers) == 1 else f"brokers {', '.join(map(str, brokers))} do"
    return f"not known: {who} not answer; throttles of the brokers' own may be left there"


def _table(waiting: list[Progress]) -> Table:
    table = folding_table("partition", "state", "replicas", "shall be", "in sync", right=("left",))
    for progress in waiting[:_MAX_PARTITIONS]:
        left = "-" if progress.left_bytes is None else format_bytes(progress.left_bytes)
        brokers = (",".join(map(str, ids)) for ids in (progress.replicas, progress.target, progress.in_sync))
        table.add_row(str(progress.partition), progress.stage.value, *brokers, left)
    if len(waiting) > _MAX_PARTITIONS:
        table.add_row("…", f"{len(waiting) - _MAX_PARTITIONS} more: --json has them all", "", "", "", "")
    return table


def _verdict(found: Verification) -> Text:
    if found.done and found.clean:
        return Text("done, and nothing is left behind", style="green")
    if found.under_way:
        return Text("not done: the throttle stays until it is", style="yellow")
    done = "done" if found.done else "not done, and nothing of it is under way"
    if found.native.waits_for and found.native.left:
        return Text(f"{done}; {found.native.waits_for}: Kafka's own throttle stays until then", style="yellow")
    if found.unsettled and not left_behind(found):
        return Text(f"{done}; whether its removal holds: the same command again tells", style="yellow")
    if found.is_away or found.native.silent or found.silent_sidecars:
        ask = "; to remove what is left although they do not answer: --remove --force" if left_behind(found) else ""
        who = "brokers" if found.is_away or found.native.silent else "sidecars"
        return Text(f"{done}, as far as {who} answer{ask}", style="yellow")
    if left_behind(found):
        return Text(f"{done}; to remove what is left behind: the same command with --remove", style="yellow")
    if found.unasked:
        return Text(f"{done}, as far as sidecars were asked", style="yellow")
    return Text("not done, and nothing is left behind", style="yellow")
