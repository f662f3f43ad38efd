"""The throttle of a move as overrides: what each broker's sidecar is told, under which label, and until when.

Pure; time is an argument. Invariant: a partition that a sidecar throttles already stays throttled.
"""

from __future__ import annotations

import hashlib
import math
import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from proxy.errors import ConfigurationError
from proxy.quotas import format_rate
from proxy.quotas.globs import glob_of
from proxy.quotas.keys import GLOB_WILDCARD
from proxy.quotas.override import BROKER, PlacedValue

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from reassignment import Document, Throttle

    from .planning import MovePlan

EVERY = "*"
LEAST_SLACK = timedelta(hours=1)
"""A throttle ends at least so long after the planned end of its move, and after at least twice the planned time."""
_NOT_IN_LABEL = re.compile(r"[^A-Za-z0-9._-]+")


class Effective(NamedTuple):
    """The quotas that one sidecar has before the move, from its /config."""

    rates: Mapping[str, float]
    """Bytes per second by role; infinite if unlimited. Of a rate that sets itself the one chosen last."""
    lists: Mapping[str, Mapping[str, str]]
    """By role: partitions, or ``*``, by topic or glob in the order in which they count; ``*`` is every other topic."""
    finer: Mapping[str, Mapping[str, float]]
    """By role: the rates inside the role's rate, by what they bound."""
    enforce: bool


def effective_of(page: Mapping[str, Any]) -> Effective:
    """Return what a sidecar's /config says. Raises KeyError or TypeError if it is not a sidecar's."""
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
    """Return the label of a move: the file's name, and six digits of what is in it, however it is formatted."""
    said = sorted((str(partition), replicas) for partition, replicas in document.assignment.items())
    digest = hashlib.sha256(repr(said).encode()).hexdigest()[:6]
    return f"{_NOT_IN_LABEL.sub('-', path.stem).strip('-.') or 'move'}-{digest}"


def end_of_throttle(plan: MovePlan, lasting: float | None, now: datetime) -> datetime | None:
    """Return when the throttle ends by itself: `lasting` seconds from now, or else some time after the planned end;
    None if nobody knows how long the move takes. Raises ConfigurationError beyond what a date can be."""
    try:
        if lasting is not None:
            return now + timedelta(seconds=lasting)
        if not math.isfinite(plan.total_seconds):
            return None
        planned = timedelta(seconds=plan.total_seconds)
        end = now + planned + max(planned, LEAST_SLACK)
    except OverflowError as error:
        raise ConfigurationError("--for: expected a time that ends before the year 10000") from error
    return end.replace(microsecond=0)


def changes_of(found: Throttle, broker: int, before: Effective) -> list[PlacedValue]:
    """Return what the sidecar of a broker is told: its rates, and lists for what it does not throttle yet."""
    part = found.of_broker(broker)
    changes = []
    for table, name, key, value in part.settings():
        if table == "brokers":
            changes.append(PlacedValue(BROKER, key, value))
            continue
        role = key.partition(".")[0]
        wanted = {partition for partition, _ in part.lists[role][name]}  # type: ignore[index]
        listed = _listed(before.lists[role], name)
        if listed == EVERY or wanted <= listed:  # type: ignore[operator]
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
    """Yield what keeps the sidecar from holding exactly the planned rates, once they are applied."""
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
