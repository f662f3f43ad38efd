"""Which section says what holds: does a change of quotas.toml take effect, or does another section go first?

A value at one place may be in force nowhere: a schedule of the same section goes before it, a broker's own section
before the default, a glob for every topic before a broker's list. Works by `rules.governing`, the order in which the
sidecar itself looks. Pure; time is an argument. Invariant: no shadow is told for a value that holds.
"""

from __future__ import annotations

import re
from datetime import UTC
from typing import TYPE_CHECKING, NamedTuple

from proxy.quotas.rate_reading import parse_rate_or_source
from proxy.quotas.rate_source import RateSource
from proxy.quotas.replicas import ReplicaList, parse_replicas
from proxy.quotas.rules import Quotas, effective, governing, governing_mode
from proxy.quotas.sections import DEFAULT, RATE_KEYS, REPLICAS_KEYS
from proxy.quotas.units import format_rate

from .facts import Place, written

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from proxy.quotas.sections import QuotaFile, Section

    from .editing import Assign

Said = float | bool | ReplicaList | RateSource
_OF_SCHEDULE = re.compile(r"schedules\[([0-9]+)\]\.(?:mode|brokers|peers|racks|topics)")
_MOST_MOMENTS = 50
_NOTHING = "nothing"
"""What a section says that has ended."""


class Shadow(NamedTuple):
    """A section that goes before a place.

    Args:
        place: that was to change.
        broker: on which it goes first; None: on every one that the file does not name.
        section: as messages name it: ``schedules[0].brokers.101``.
        said: what it says, in words.
        ends: when it stops going first, by itself; None: never.
    """

    place: Place
    broker: int | None
    section: str
    said: str
    ends: datetime | None

    def __str__(self) -> str:
        where = " on every other broker" if self.broker is None else f" on broker {self.broker}"
        where = where if self.place.section[0] == "brokers" else ""
        ends = "" if self.ends is None else f" until {self.ends.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
        if self.said == _NOTHING:
            return f"{self.section} has ended, so nothing sets this value"
        return f"{self.section} goes first{where}{ends}, and says {self.said}"

    @property
    def is_the_brokers_own(self) -> bool:
        """The default was to change, and a section of the broker's own has a value."""
        return self.place.section[-1] == DEFAULT and not self.section.endswith(f"brokers.{DEFAULT}")


def found_at(quota_file: QuotaFile, place: Place, broker_id: int, now: datetime) -> tuple[Section, Said] | None:
    """Who says what holds of `place` for one broker, and what; None if nobody does."""
    if place.section == ("mode",):
        mode = governing_mode(quota_file, now)
        return None if mode is None else (mode, mode.enforce is not False)
    kind, name = map(str, place.section)
    rate, of = place.key in RATE_KEYS, None if kind == "brokers" else (kind, name)
    role = (RATE_KEYS | REPLICAS_KEYS)[place.key]
    section = governing(quota_file, broker_id, now, role, rate=rate, of=of)
    if section is None:
        return None
    return section, section.rate_of(role) if rate else section.replicas[role]


def wanted(place: Place, wish: Assign) -> Said:
    """Raises InvalidValueError."""
    if place.section == ("mode",):
        return wish.value is True
    if place.key not in RATE_KEYS:
        return parse_replicas(wish.value)
    rate, source = parse_rate_or_source(wish.value)
    return rate if source is None else source


def shadow_of(
    quota_file: QuotaFile, place: Place, wish: Assign, broker: tuple[int | None, int], now: datetime
) -> Shadow | None:
    """What goes before a value that is in the file; None if the value holds, until its end if it has one.

    `broker`: as told, and an id to ask with.
    """
    value, (told, broker_id) = wanted(place, wish), broker
    for at in moments(quota_file, broker_id, now, wish.until):
        found = found_at(quota_file, place, broker_id, at)
        if found is None or found[1] != value:
            return shadowed(quota_file, place, told, found, at)
    return _behind_a_glob(quota_file, place, told, broker_id, now)


def shadowed(
    quota_file: QuotaFile, place: Place, broker: int | None, found: tuple[Section, Said] | None, now: datetime
) -> Shadow:
    if found is None:
        return Shadow(place, broker, written(place.section), _NOTHING, None)
    section, said = found
    return Shadow(place, broker, section.path, _shown(said), ends_of(quota_file, section, now))


def moments(quota_file: QuotaFile, broker_id: int, now: datetime, until: datetime | None) -> Iterator[datetime]:
    """`now`, and if there is an `until` each moment before it at which something may change."""
    yield now
    at = effective(quota_file, broker_id, now).next_change
    for _ in range(_MOST_MOMENTS):
        if until is None or at is None or at >= until:
            return
        yield at
        at = effective(quota_file, broker_id, at).next_change


def _behind_a_glob(
    quota_file: QuotaFile, place: Place, told: int | None, broker_id: int, now: datetime
) -> Shadow | None:
    """A list of a broker is for topics that no other list names, and `*` names all."""
    if place.section[0] != "brokers" or place.key not in REPLICAS_KEYS:
        return None
    every = Place(("topics", "*"), place.key)
    found = found_at(quota_file, every, broker_id, now)
    return None if found is None else shadowed(quota_file, place, told, found, now)


def ends_of(quota_file: QuotaFile, section: Section, now: datetime) -> datetime | None:
    """Return when a section that holds stops doing so, by its own `until` or by its schedule; None: never."""
    ends = [section.until] if section.until is not None else []
    in_schedule = _OF_SCHEDULE.match(section.path)
    if in_schedule:
        change = quota_file.schedules[int(in_schedule[1])].next_change(now)
        ends += [change] if change is not None else []
    return min(ends, default=None)


def _shown(said: Said) -> str:
    if isinstance(said, bool):
        return "true" if said else "false"
    if isinstance(said, ReplicaList):
        return '"*"' if said.every else '"' + ",".join(f"{p}:{b}" for p, b in said.entries) + '"'
    return str(said) if isinstance(said, RateSource) else format_rate(said)


def same_from(one: QuotaFile, other: QuotaFile, brokers: list[int], now: datetime) -> bool:
    """Whether both mean the same to these brokers, now and at every change ahead."""
    return all(_same_for(one, other, broker_id, now) for broker_id in brokers)


def _same_for(one: QuotaFile, other: QuotaFile, broker_id: int, now: datetime) -> bool:
    at: datetime | None = now
    for _ in range(_MOST_MOMENTS):
        if at is None:
            return True
        pair: list[Quotas] = [effective(each, broker_id, at) for each in (one, other)]
        if not pair[0].means_the_same_as(pair[1]):
            return False
        at = min((each.next_change for each in pair if each.next_change is not None), default=None)
    return True
