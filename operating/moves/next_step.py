"""Decides the next step of a move, from how far the cluster is and which sidecars throttle it.

All that a move is can be asked for: the replicas, the reassignment under way, and the overrides with its label. So a
command that is killed at any moment, and another on another machine, come to the same next step:

    throttled nowhere or in part, not in place      THROTTLE
    throttled, some partitions not started          EXECUTE
    throttled, all under way                        WAIT
    all in place                                    REMOVE

Pure. Invariants: nothing is executed before every broker that sends or fetches is throttled; nothing is removed before
every partition is in place; a move that meets another, or itself, is refused with what to do.
"""

from __future__ import annotations

import json
import math
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from proxy.errors import ConfigurationError, InvalidValueError
from proxy.quotas import parse_rate
from proxy.quotas.override import BROKER, MAX_REASSIGNMENT_CHARACTERS
from reassignment import ROLES, ReassignmentError, Throttle, brokers, move_map, moving, read_assignment

from ..fleet.replies import brokers as named_brokers
from ..quota_words import parse_moment
from .planning import named
from .verification import Progress, Stage

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from reassignment import Document

    from ..fleet.members import Member, Reply
    from .cluster_view import ClusterView
    from .verification import Verification

Json = dict[str, Any]
_LEFT = {stage: stage.value for stage in Stage if stage not in (Stage.NOT_STARTED, Stage.MISSING)}
_LEFT |= {Stage.MOVING: "under way", Stage.DONE: "in place already, where it stays"}


class Step(Enum):
    THROTTLE = "throttle"
    EXECUTE = "execute"
    WAIT = "wait"
    REMOVE = "remove"


class Held(NamedTuple):
    """The overrides that sidecars have.

    members: the sidecars that answer, by broker. overrides: theirs, by broker, the newest last. silent: the others.
    """

    members: Mapping[int, Member]
    overrides: Mapping[int, Sequence[Json]]
    silent: tuple[Reply, ...] = ()

    def of(self, label: str) -> dict[int, list[Json]]:
        """Return those with a label, by broker."""
        found = {broker: [each for each in all_ if each["label"] == label] for broker, all_ in self.overrides.items()}
        return {broker: mine for broker, mine in found.items() if mine}

    def end_of(self, label: str) -> datetime | None:
        """Return when the last of a label's overrides ends; None if any has no end. Raises ConfigurationError."""
        ends = [each.get("until") for mine in self.of(label).values() for each in mine]
        try:
            moments = [parse_moment(end) for end in ends if end is not None]
        except InvalidValueError as error:
            raise ConfigurationError(f"override {label}: until: {error}") from error
        return max(moments, default=None) if len(moments) == len(ends) else None

    @property
    def labels(self) -> dict[str, list[int]]:
        """The brokers by label of their overrides."""
        found: dict[str, list[int]] = {}
        for broker, overrides in self.overrides.items():
            for label in dict.fromkeys(each["label"] for each in overrides if each["label"] is not None):
                found.setdefault(label, []).append(broker)
        return found


def are_overrides(answer: Mapping[str, Any] | None) -> bool:
    """Return True if a sidecar's answer is about overrides, as far as they are read here."""
    found = (answer or {}).get("overrides")
    return isinstance(found, list) and all(_is_override(each) for each in found)


def _is_override(each: Any) -> bool:
    texts = (each.get(key) for key in ("label", "until", "reassignment")) if isinstance(each, dict) else (0,)
    if not all(text is None or isinstance(text, str) for text in texts):
        return False
    changes = each.get("changes")
    return isinstance(changes, list) and all(
        isinstance(change, dict)
        and isinstance(change.get("place"), str)
        and isinstance(change.get("key"), str)
        and "value" in change
        for change in changes
    )


def next_step(
    found: Sequence[Progress], concerned: Iterable[int], throttled: Iterable[int], silent: Iterable[int] = ()
) -> Step:
    """Return the next step of a move that has no obstacles.

    Args:
        found: the progress of each partition.
        concerned: the brokers that send or fetch partitions not in place.
        throttled: those whose sidecars have an override of the move.
        silent: those whose sidecars do not answer. They keep what is under way from nothing, and anything else from
            being started.
    """
    stages = {each.stage for each in found}
    if stages == {Stage.DONE}:
        return Step.REMOVE
    lacking = {*concerned} - {*throttled}
    if Stage.NOT_STARTED in stages:
        return Step.THROTTLE if lacking else Step.EXECUTE
    return Step.THROTTLE if lacking - {*silent} else Step.WAIT


def concerned_brokers(move: Document, view: ClusterView) -> frozenset[int]:
    """Return the brokers that send or fetch partitions not in place yet."""
    there = {partition: replicas for partition, replicas in move.assignment.items() if partition in view.partitions}
    current = {partition: state.replicas for partition, state in view.partitions.items()}
    ongoing = {partition: each for partition, each in (view.ongoing or {}).items() if partition in there}
    return frozenset(brokers(moving(move_map(there, current, ongoing))))


def obstacles(found: Sequence[Progress]) -> list[str]:
    """Return the obstacles to the move, whoever began it: one line each."""
    lines = []
    if missing := [each.partition for each in found if each.stage is Stage.MISSING]:
        lines.append(f"{named(missing)}: no such partition")
    if elsewhere := [each.partition for each in found if each.stage is Stage.ELSEWHERE]:
        lines.append(
            f"{named(elsewhere)}: already moving to other replicas than these, by another reassignment: wait until it "
            "is done, or cancel that one"
        )
    return lines


def remains(found: Verification) -> list[str]:
    """Return a line for each stage of partitions that are no longer as they were, each throttle, and where throttles
    are not known."""
    lines = []
    for stage, word in _LEFT.items():
        if these := [each.partition for each in found.progress if each.stage is stage]:
            lines.append(f"{named(these, len(these))}: {word}")
    lines += [*map(str, found.overrides), *found.unsettled]
    return [f"  {line}" for line in (*lines, *(f"not known: {line}" for line in found.unknown))]


def refuse_second(found: Sequence[Progress], held: Held, label: str, *, resume: str, adopt: str, cancel: str) -> None:
    """Raise ConfigurationError if a move of this label, or of these partitions, is under way already. `resume`, `adopt`
    and `cancel` are the commands to go on with it, also without its throttle, and to take it back."""
    how = f"go on with it: {resume}; take it back: {cancel}"
    problems = obstacles(found)
    if at := held.of(label):
        problems.append(f"{label}: this move has been begun, its throttle is at {named_brokers(at)}: {how}")
    elif under_way := [each.partition for each in found if each.stage is Stage.MOVING]:
        problems.append(
            f"{named(under_way)}: already moving to these replicas, without a throttle of the label {label}: "
            f"throttle it and go on: {adopt}; to take it back, cancel that reassignment"
        )
    if problems:
        raise ConfigurationError(problems)


def unknown_label(label: str, held: Held) -> str:
    """Return that no sidecar has a label, and which there are."""
    there = ", ".join(f"{each} ({named_brokers(at)})" for each, at in sorted(held.labels.items())) or "none at all"
    away = "".join(f"; {reply.error}" for reply in held.silent)
    return f"{label}: no sidecar that answers has an override with this label; labels there are: {there}{away}"


def kept_reassignment(move: Document) -> str | None:
    """Return the reassignment as overrides keep it, of one line; None if it is too long for them."""
    rows = [
        {"topic": topic, "partition": partition, "replicas": replicas}
        for (topic, partition), replicas in sorted(move.assignment.items())
    ]
    text = json.dumps({"version": 1, "partitions": rows}, separators=(",", ":"))
    return text if len(text) <= MAX_REASSIGNMENT_CHARACTERS else None


def reassignment_of(label: str, held: Held) -> Document | None:
    """Return the reassignment that the overrides of a label keep; None if they keep none. Raises ConfigurationError if
    they keep several, which are different moves."""
    kept = {each["reassignment"] for mine in held.of(label).values() for each in mine if each.get("reassignment")}
    if len(kept) > 1:
        raise ConfigurationError(f"{label}: {len(kept)} different reassignments have this label: name the file of one")
    try:
        return read_assignment(kept.pop(), f"override {label}") if kept else None
    except ReassignmentError as error:
        raise ConfigurationError(error.problems) from error


def throttle_as_before(wanted: Throttle, held: Held, label: str) -> Throttle | None:
    """Return `wanted` for the brokers that have no override of the label, with the rates of those that have: the same
    role's largest. None if no broker has any, so that a rate must be named."""
    rates: dict[str, int] = {}
    finish_by = None
    for change in (change for mine in held.of(label).values() for each in mine for change in each["changes"]):
        role, _, kind = change["key"].partition(".replication.throttled.")
        if change["place"] == BROKER and role in ROLES and kind == "rate":
            value = change["value"]
            if isinstance(value, dict):
                finish_by, value = value.get("finish_by"), value.get("max")
            rate = _rate(label, value)
            if math.isfinite(rate):
                rates[role] = max(rates.get(role, 0), int(rate))
    if not rates:
        return None
    most = max(rates.values())
    lacking = {key: rates.get(key[1], most) for key in wanted.rates if key[0] not in held.of(label)}
    return Throttle(lacking, wanted.lists, finish_by)


def _rate(label: str, value: Any) -> float:
    try:
        return parse_rate(value)
    except InvalidValueError as error:
        raise ConfigurationError(f"override {label}: rate: {error}") from error
