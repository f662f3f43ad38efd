"""Looks at a cluster and its sidecars for `plan`, `verify` and `move`, and removes the remains of a move there.

Blocking; what is seen is judged in `planning` and `verification`. Invariant: what did not answer is named in what is
returned, and nothing is called removed that was not looked for again, or that a restart may bring back.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from proxy.control.override_routes import PATH, UNDO_PATH
from proxy.errors import ConfigurationError
from proxy.files.reading import read_bytes
from reassignment import ReassignmentError, read_assignment, text_of

from ..fleet.members import at_all, author, get, post
from ..fleet.replies import whom
from .cluster_view import LOG_DIR_RATE, NativeConfigs
from .native_throttle import NativeFindings, native_findings, needs_every_list
from .next_step import Held, are_overrides
from .planning import ground_of_cluster, inflow_of
from .verification import UNDER_WAY, MoveOverride, Verification, progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from reassignment import Document

    from ..fleet.members import Member, Reply
    from .cluster import Cluster
    from .cluster_view import ClusterView
    from .planning import Ground
    from .verification import Progress

Json = dict[str, Any]

EFFECT_SECONDS = 5.0
"""The time within which brokers and sidecars must know of a removal; they take a quarter of a second."""
EFFECT_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Places:
    """The places where a throttle may be left behind.

    Args:
        members: the sidecars to ask.
        label: of the move's overrides.
        native: in the configs of topics and brokers as well.
    """

    members: tuple[Member, ...]
    label: str
    native: bool = True


def read_move(path: Path) -> Document:
    """Read a reassignment. Raises ConfigurationError with every problem."""
    try:
        return read_assignment(text_of(read_bytes(path, takes_pipes=True), str(path)), str(path))
    except ReassignmentError as error:
        raise ConfigurationError(error.problems) from error


def survey(cluster: Cluster, proposed: Document, measure_seconds: float | None) -> Ground:
    """Return the partitions to move, looking twice to measure the bytes written meanwhile. Raises ReassignmentError,
    ClusterError."""
    topics = {partition.topic for partition in proposed.assignment}
    view = cluster.look(sorted(topics))
    others = {partition.topic for partition in view.ongoing or ()} - topics
    if others:
        view = cluster.look(sorted(topics | others))
    written = inflow = None
    if measure_seconds is not None:
        every = cluster.every_partition()
        at_leaders = {partition: state.leader for partition, state in every.items() if state.leader is not None}
        before, began = cluster.sizes(every, view.brokers), time.monotonic()
        time.sleep(measure_seconds)
        after, seconds = cluster.sizes(every, view.brokers), time.monotonic() - began
        written = {
            # Retention may have taken more than producers brought: then it is unknown, and counts nothing.
            partition: max(after.get((leader, partition), 0) - before.get((leader, partition), 0), 0) / seconds
            for partition, leader in at_leaders.items()
        }
        inflow = inflow_of(every, written)
    return ground_of_cluster(proposed, view, written=written, inflow=inflow)


def look(
    cluster: Cluster, move: Document, places: Places, undone: Mapping[str, Json] = MappingProxyType({})
) -> Verification:
    """Return the progress of the move and the remains of its throttle. `undone`: what `undo` has returned. Raises
    ClusterError."""
    view = cluster.look(sorted({partition.topic for partition in move.assignment}))
    found = progress(move, view)
    native = _native(cluster, move, view, found) if places.native else NativeFindings()
    return _with_overrides(Verification(found, native=native), places, undone)


def _with_overrides(found: Verification, places: Places, undone: Mapping[str, Json]) -> Verification:
    """Add the overrides of sidecars under the label of the move, and removals that may not last."""
    replies = _ask_overrides(places.members)
    pages = {whom([reply]): reply.answer or {} for reply in replies if reply.error is None}
    left = tuple(
        MoveOverride(where, each["id"], places.label)
        for where, page in pages.items()
        for each in page["overrides"]
        if each["label"] == places.label
    )
    # Pages of older sidecars say nothing of this; theirs is the answer to the undo.
    unsettled = tuple(line for where in pages for line in _unsettled(where, {**undone.get(where, {}), **pages[where]}))
    silent = tuple(f"{whom([reply])}: {reply.error}" for reply in replies if reply.error is not None)
    concerned = {broker for each in found.progress for broker in (*each.target, *each.replicas)}
    unasked = tuple(sorted(concerned - {reply.broker for reply in replies})) if places.members else ()
    notes = () if places.members else ("no sidecar was asked for overrides of the move: --fleet or --url",)
    return replace(found, overrides=left, unsettled=unsettled, silent_sidecars=silent, unasked=unasked, notes=notes)


def _unsettled(where: str, answer: Mapping[str, Any]) -> Iterator[str]:
    """Yield why an undo at a sidecar may not hold, as far as its answer tells."""
    if why := answer.get("not_stored"):
        yield f"{where}: a restart may bring back what was undone, until this is stored: {why}"
    if not answer.get("in_force", True):
        yield f"{where}: its last change is not in force yet"


def _native(cluster: Cluster, move: Document, view: ClusterView, found: tuple[Progress, ...]) -> NativeFindings:
    topics = {partition.topic for partition in view.partitions}
    throttles = tuple(cluster.throttles(sorted(topics), sorted(view.brokers)))
    on_disks = {str(broker) for broker, _ in move.directories}
    limited = {int(each.name) for each in throttles if each.key == LOG_DIR_RATE and each.name in on_disks}
    seen = NativeConfigs(throttles, view.brokers, cluster.copying(limited))
    if needs_every_list(move, seen):
        others = {partition.topic for partition in cluster.every_partition()} - topics
        seen = seen._replace(throttles=(*throttles, *cluster.throttles(sorted(others), ())))
    return native_findings(move, view, seen, under_way=[each.partition for each in found if each.stage in UNDER_WAY])


def remove(
    cluster: Cluster, move: Document, places: Places, found: Verification, *, force: bool
) -> tuple[list[str], Verification]:
    """Remove what is left behind, unless the move is under way or (without `force`) a broker of it is away; return what
    was removed, one line each, and what a new look finds. Raises ClusterError."""
    if found.clean or found.under_way or (found.is_away and not force):
        return [], found
    undone = undo(places) if found.overrides else {}
    native = found.native.removable(force=force)
    cluster.remove(native)
    removed = [*(str(each) for each in found.overrides if each.where in undone), *map(str, native)]
    return removed, look_until(cluster, move, places, lambda each: each.clean, undone) if removed else found


def undo(places: Places) -> dict[str, Json]:
    """Undo the label's overrides at every sidecar; return the answers of those that did, for a `look` afterwards."""
    body = {"label": places.label, "by": author()}
    replies = at_all(places.members, partial(post, page=UNDO_PATH, body=body))
    return {whom([reply]): dict(reply.answer or {}) for reply in replies if reply.error is None}


def look_until(
    cluster: Cluster,
    move: Document,
    places: Places,
    ready: Callable[[Verification], bool],
    undone: Mapping[str, Json] = MappingProxyType({}),
) -> Verification:
    """Look until it is `ready`, or should have been; return the last findings. Raises ClusterError."""
    deadline = time.monotonic() + EFFECT_SECONDS
    while not ready(found := look(cluster, move, places, undone)) and time.monotonic() < deadline:
        time.sleep(EFFECT_POLL_SECONDS)
    return found


def ask_held(members: Sequence[Member]) -> Held:
    """Ask sidecars for their overrides."""
    replies = _ask_overrides(members)
    answers = {reply.broker: reply for reply in replies if reply.error is None and reply.broker is not None}
    return Held(
        {broker: reply.member for broker, reply in answers.items()},
        {broker: (reply.answer or {})["overrides"] for broker, reply in answers.items()},
        tuple(reply for reply in replies if reply.error is not None),
    )


def _ask_overrides(members: Sequence[Member]) -> list[Reply]:
    """Ask sidecars for their overrides; whoever answers something else has not answered."""
    return [
        reply._replace(error=f"{reply.member.url}{PATH}: the answer is not a sidecar's")
        if reply.error is None and not are_overrides(reply.answer)
        else reply
        for reply in at_all(members, partial(get, page=PATH))
    ]
