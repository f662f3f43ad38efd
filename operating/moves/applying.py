"""The throttle of a move as overrides: each sidecar's rates and lists, their label, and their end.

`apply` makes them (``plan --apply``), decreases first; blocking, all else is pure. Invariants: a partition that a
sidecar throttles already stays throttled; a broker of the move for which no sidecar is named is an error before
anything is changed; one whose sidecar does not answer is named, and the exit status shows it.
"""

from __future__ import annotations

import hashlib
import math
import re
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from proxy.control.override_routes import PATH
from proxy.errors import ConfigurationError
from proxy.quotas import format_rate
from proxy.quotas.names import GLOB_WILDCARD, glob_of
from proxy.quotas.override import BROKER, PlacedValue, new_id

from ..fleet.members import at_all, author, get, post
from ..fleet.replies import brokers, error_lines, result_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from reassignment import Document, Throttle

    from ..fleet.members import Member, Reply
    from .planning import MovePlan


EVERY = "*"
MIN_SLACK = timedelta(hours=1)
"""A throttle ends at least so long after the planned end of its move, and after at least twice the planned time."""
_NOT_IN_LABEL = re.compile(r"[^A-Za-z0-9._-]+")


class Effective(NamedTuple):
    """The quotas that a sidecar has before the move, from its /config."""

    rates: Mapping[str, float]
    """Bytes per second by role; infinite if unlimited. Of a rate that sets itself the last choice."""
    lists: Mapping[str, Mapping[str, str]]
    """The partitions, or ``*``, by role and by topic or glob, in the order in which they count; ``*`` is every other
    topic."""
    finer: Mapping[str, Mapping[str, float]]
    """The rates inside the role's rate, by role and entity."""
    enforce: bool


def effective_of(page: Mapping[str, Any]) -> Effective:
    """Parse a sidecar's /config. Raises KeyError or TypeError if it is not a sidecar's."""
    quotas = page["effective_quotas"]
    roles = {role: quotas[role] for role in ("leader", "follower")}
    rates = {role: each["bytes_per_second"] for role, each in roles.items()}
    return Effective(
        {role: math.inf if rate is None else float(rate) for role, rate in rates.items()},
        {role: dict(each["replicas"]) for role, each in roles.items()},
        {role: dict(each.get("finer_bytes_per_second", {})) for role, each in roles.items()},
        bool(quotas["enforce"]),
    )


def label_of(path: Path, document: Document) -> str:
    """Return the label of a move: the file's name, and six digits of a hash of its content, however it is formatted."""
    said = sorted((str(partition), replicas) for partition, replicas in document.assignment.items())
    digest = hashlib.sha256(repr(said).encode()).hexdigest()[:6]
    return f"{_NOT_IN_LABEL.sub('-', path.stem).strip('-.') or 'move'}-{digest}"


def end_of_throttle(
    plan: MovePlan, lasting: float | None, now: datetime, deadline: datetime | None = None
) -> datetime | None:
    """Return when the throttle ends by itself: `lasting` seconds from now, or else some time after the planned end, or
    after the deadline until which rates that set themselves may take; None if the move's length is unknown. Raises
    ConfigurationError beyond what a date can be."""
    try:
        if lasting is not None:
            return now + timedelta(seconds=lasting)
        if not math.isfinite(plan.total_seconds):
            return None
        planned = timedelta(seconds=plan.total_seconds)
        if deadline is not None:
            planned = max(planned, deadline - now)
        end = now + planned + max(planned, MIN_SLACK)
    except OverflowError as error:
        raise ConfigurationError("--for: expected a time that ends before the year 10000") from error
    return end.replace(microsecond=0)


def changes_of(found: Throttle, broker: int, before: Effective) -> list[PlacedValue]:
    """Return the changes for a broker's sidecar: its rates, and lists of moving partitions.

    A list that is there already may be an override's, which ends before this one: the override of the same move at
    another rate. Where every partition of a topic is listed, as by a standing ``*``, no list is sent.
    """
    part = found.of_broker(broker)
    changes = []
    for table, name, key, value in part.settings():
        if table == "brokers":
            changes.append(PlacedValue(BROKER, key, value))
            continue
        role = key.partition(".")[0]
        wanted = {partition for partition, _ in part.lists[role][name]}  # type: ignore[index]
        listed = _listed(before.lists[role], name)
        if listed == EVERY:
            continue
        entries = sorted(wanted | listed)  # type: ignore[operator]
        changes.append(PlacedValue(f"topics.{name}", key, ",".join(f"{each}:{broker}" for each in entries)))
    return changes


def _listed(lists: Mapping[str, str], topic: str) -> set[int] | str:
    """Return the partitions of a topic that are throttled already, or EVERY."""
    text = lists.get(topic)
    if text is None:
        matching = (each for glob, each in lists.items() if GLOB_WILDCARD.search(glob) and glob_of(glob).matches(topic))
        text = next(matching, "")
    return EVERY if text == EVERY else {int(each) for each in text.split(",") if each.isdecimal()}


def lowers(found: Throttle, broker: int, before: Effective) -> bool:
    """True if a rate of the broker falls: such changes are sent first, so that rates that shift between brokers never
    add up to more than before or after."""
    return any(rate < before.rates[role] for (each, role), rate in found.rates.items() if each == broker)


def warnings(found: Throttle, broker: int, after: Effective) -> Iterator[str]:
    """Yield the reasons why the sidecar will not hold exactly the planned rates."""
    if not after.enforce:
        yield f"broker {broker}: mode.enforce is false: it only counts what it would hold back"
    for (each, role), rate in found.rates.items():
        if each != broker:
            continue
        for entity, inner in after.finer[role].items():
            if inner < rate:
                yield (
                    f"broker {broker} as {role}: inside the planned {format_rate(rate)}, {entity} has "
                    f"{format_rate(inner)}: what it bounds takes longer"
                )


class Application(NamedTuple):
    """The result: lines for the operator, and whether every sidecar concerned has it in force."""

    lines: list[str]
    is_complete: bool


def apply(
    found: Throttle,
    members: Sequence[Member],
    *,
    label: str,
    reason: str,
    until: datetime | None,
    where: str,
    reassignment: str | None = None,
) -> Application:
    """Make the overrides. `reassignment`: what they keep for `move --resume`. Raises ConfigurationError: nothing has
    been changed."""
    now = datetime.now(UTC)
    asked = at_all(members, partial(get, page=PATH))
    by_broker = {reply.broker: reply.member for reply in asked if reply.broker is not None}
    silent = [reply for reply in asked if reply.error is not None]
    concerned = found.brokers()
    missing = unnamed(concerned, by_broker, silent)
    away = {*missing, *(reply.broker for reply in silent)}
    answering = {broker: by_broker[broker] for broker in concerned if broker not in away}
    states, unreadable = _states(answering)
    new = {"id": new_id(), "label": label, "by": author(), "until": until, "reason": reason}
    if reassignment is not None:  # older sidecars do not know it, and are sent it by `move` alone
        new["reassignment"] = reassignment

    def told(broker: int) -> Reply:
        changes = changes_of(found, broker, states[broker])
        return post(answering[broker], PATH, {**new, "changes": changes})

    falling = [broker for broker in states if lowers(found, broker, states[broker])]
    replies = [*at_all(falling, told), *at_all([each for each in states if each not in falling], told)]
    lines = [*result_lines(replies, now), *error_lines([*[r for r in silent if r.broker in concerned], *unreadable])]
    made = {broker: answering[broker] for broker in states}
    after, _ = _states(made)
    for broker in sorted(after):
        lines += [f"warning: {warning}" for warning in warnings(found, broker, after[broker])]
    if any(reply.error is None for reply in replies):
        lines.append(f"undo: throttle-sidecar undo {new['id']}{where}")
    complete = len(replies) == len(concerned) and all(
        reply.error is None and (reply.answer or {}).get("in_force") for reply in replies
    )
    return Application(lines, complete)


def unnamed(concerned: Iterable[int], named: Iterable[int | None], silent: Iterable[Reply]) -> list[int]:
    """Return the brokers for which no sidecar answers; one that is silent may be theirs. Raises ConfigurationError if
    none can be."""
    missing = sorted({*concerned} - {*named})
    if missing and all(reply.broker is not None for reply in silent):
        raise ConfigurationError(
            f"{brokers(missing)} of the move: no sidecar is named for it: expected one in --fleet or --url"
        )
    return missing


def _states(answering: dict[int, Member]) -> tuple[dict[int, Effective], list[Reply]]:
    """Return the present throttle of each sidecar, and the replies of those that do not report it."""
    replies = at_all(list(answering.values()), partial(_config))
    states, unreadable = {}, []
    for broker, reply in zip(answering, replies, strict=True):
        try:
            states[broker] = effective_of(reply.answer or {})
        except (KeyError, TypeError, ValueError):
            unreadable.append(reply if reply.error else reply._replace(error="its /config is not a sidecar's"))
    return states, unreadable


def _config(member: Member) -> Reply:
    return get(member._replace(broker=None), "/config")
