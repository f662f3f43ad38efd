"""Prints a verification: as JSON, or as a table.

Pure. Invariant: the last line alone says whether there is something left to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from proxy.quotas import format_bytes

from .verification import Stage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .verification import Progress, Verification

Json = dict[str, Any]
_MOST_PARTITIONS = 30


def verify_json(found: Verification, *, removed: Sequence[str]) -> Json:
    """Return what ``--json`` prints."""
    return {
        "done": found.done,
        "clean": found.clean,
        "partitions": [_partition(progress) for progress in found.progress],
        "left_behind": {
            "cluster": [{**left.throttle._asdict(), "becomes": left.becomes} for left in found.native.left],
            "overrides": [left._asdict() for left in found.overrides],
        },
        "silent_sidecars": found.silent_sidecars,
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
    """Return what people see."""
    waiting = [progress for progress in found.progress if progress.stage is not Stage.DONE]
    parts: list[RenderableType] = [Text(summary(found))]
    if waiting:
        parts += [Text(), _table(waiting), Text()]
    parts += [Text(f"removed: {line}") for line in removed]
    in_use = found.under_way or found.native.waits_for
    label, style = ("in force", "") if in_use else ("left behind", "yellow")
    parts += [Text(f"{label}: {line}", style=style) for line in left_behind(found)]
    parts += [Text(f"note: {note}") for note in (*found.notes, *found.native.notes)]
    if found.native.silent:
        parts.append(Text(_silent(found.native.silent), style="yellow"))
    for sidecar in found.silent_sidecars:
        parts.append(Text(f"not known: {sidecar}; overrides of the move may be left there", style="yellow"))
    parts.append(_verdict(found))
    return Group(*parts)


def summary(found: Verification) -> str:
    """Return the progress: `3 of 4 partitions are in place, 3.10 MiB left`; "at least" if a partition's size is
    unknown."""
    waiting = [progress.left_bytes for progress in found.progress if progress.stage is not Stage.DONE]
    line = f"{len(found.progress) - len(waiting)} of {len(found.progress)} partitions are in place"
    left = [progress.left_bytes for progress in found.progress if progress.left_bytes]
    least = "at least " if None in waiting else ""
    return f"{line}, {least}{format_bytes(sum(left))} left" if left else line


def left_behind(found: Verification) -> list[str]:
    """Return one line for each throttle that is left."""
    return [*map(str, found.overrides), *map(str, found.native.left)]


def _silent(brokers: Sequence[int]) -> str:
    who = f"broker {brokers[0]} does" if len(brokers) == 1 else f"brokers {', '.join(map(str, brokers))} do"
    return f"not known: {who} not answer; throttles of the brokers' own may be left there"


def _table(waiting: list[Progress]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("partition", "state", "replicas", "shall be", "in sync"):
        table.add_column(heading, overflow="fold")
    table.add_column("left", justify="right", no_wrap=True)
    for progress in waiting[:_MOST_PARTITIONS]:
        left = "-" if progress.left_bytes is None else format_bytes(progress.left_bytes)
        brokers = (",".join(map(str, ids)) for ids in (progress.replicas, progress.target, progress.in_sync))
        table.add_row(str(progress.partition), progress.stage.value, *brokers, left)
    if len(waiting) > _MOST_PARTITIONS:
        table.add_row("…", f"{len(waiting) - _MOST_PARTITIONS} more: --json has them all", "", "", "", "")
    return table


def _verdict(found: Verification) -> Text:
    if found.done and found.clean:
        return Text("done, and nothing is left behind", style="green")
    if found.under_way:
        return Text("not done: the throttle stays until it is", style="yellow")
    done = "done" if found.done else "not done, and nothing of it is under way"
    if found.native.waits_for and found.native.left:
        return Text(f"{done}; {found.native.waits_for}: Kafka's own throttle stays until then", style="yellow")
    if found.is_away or found.native.silent or found.silent_sidecars:
        ask = "; to remove what is left although they do not answer: --remove --force" if left_behind(found) else ""
        who = "brokers" if found.is_away or found.native.silent else "sidecars"
        return Text(f"{done}, as far as {who} answer{ask}", style="yellow")
    if not found.clean:
        return Text(f"{done}; to remove what is left behind: the same command with --remove", style="yellow")
    return Text("not done, and nothing is left behind", style="yellow")
