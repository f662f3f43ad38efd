"""What a reassignment left in a quotas file, and how the file reads without it.

Pure; time is an argument. Lists lose the entries of the partitions that were moved and keep all others; a rate goes
when nothing is left for it to throttle; a section that only says until when goes as well. `*`, globs and defaults are
no move's: they stay.
Invariant: after removal no list names a partition of the reassignment, and everything else is throttled as before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ..quotas import effective, parse_quotas, parse_replicas
from ..quotas.facts import Place
from ..quotas.rewriting import Said, rewritten
from ..roles import Role

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from reassignment import Assignment, TopicPartition


class FileLeftover(NamedTuple):
    """becomes: what the key shall say; None if it goes."""

    place: Place
    value: Any
    becomes: str | None

    def __str__(self) -> str:
        return f"{self.place} = {self.value!r}".replace("'", '"') + (
            "" if self.becomes is None else f' (others stay: "{self.becomes}")'
        )


class FileFindings(NamedTuple):
    """text: the file without the leftovers."""

    leftovers: tuple[FileLeftover, ...]
    text: str
    notes: tuple[str, ...]


def leftovers_in_file(text: str, proposed: Assignment, now: datetime, *, source: str) -> FileFindings:
    """Look for them.

    Args:
        text: of the quotas file.
        proposed: the reassignment.
        now: with an offset.
        source: leads the messages.

    Raises:
        ConfigurationError: the file is not good, or its layout does not allow to edit it.
    """
    parse_quotas(text.encode(), source=source)
    lists, throttlers = _lists(text, proposed)
    without_lists = rewritten(text, {found.place: found.becomes for found in lists}, source=source)
    rates = _rates(without_lists, throttlers, now)
    without_rates = rewritten(without_lists, {found.place: None for found in rates}, source=source)
    ends = _ends(without_rates, [found.place for found in (*lists, *rates)])
    clean = rewritten(without_rates, {found.place: None for found in ends}, source=source)
    return FileFindings((*lists, *rates, *ends), clean, tuple(_standing(clean, proposed, now, source)))


def _lists(text: str, proposed: Assignment) -> tuple[list[FileLeftover], set[int]]:
    """The lists that name what was moved, and the brokers that have to do with it."""
    moved: dict[str, set[int]] = {}
    for topic, partition in proposed:
        moved.setdefault(topic, set()).add(partition)
    brokers = {broker for replicas in proposed.values() for broker in replicas}
    document, found = Said(text), []
    for topic, partitions in moved.items():
        for role in Role:
            place = Place(("topics", topic), f"{role.value}.replication.throttled.replicas")
            value = document.at(place)
            entries = () if value is None else parse_replicas(value).entries
            mine = [entry for entry in entries if entry[0] in partitions]
            if mine:
                brokers |= {broker for _, broker in mine}
                others = ",".join(f"{p}:{b}" for p, b in entries if p not in partitions)
                found.append(FileLeftover(place, value, others or None))
    return found, brokers


def _rates(text: str, brokers: set[int], now: datetime) -> list[FileLeftover]:
    """Rates of these brokers that throttle nothing (any more)."""
    quotas, document = parse_quotas(text.encode()), Said(text)
    return [
        FileLeftover(place, value, None)
        for broker in sorted(brokers)
        for role in Role
        if (value := document.at(place := _rate(broker, role))) is not None
        and effective(quotas, broker, now).of(role).selects_nothing
    ]


def _rate(broker: int, role: Role) -> Place:
    return Place(("brokers", str(broker)), f"{role.value}.replication.throttled.rate")


def _ends(text: str, gone: Iterable[Place]) -> list[FileLeftover]:
    """The `until` of sections that say nothing else any more."""
    document, found = Said(text), []
    for section in dict.fromkeys(place.section for place in gone):
        place = Place(section, "until")
        value = document.at(place)
        keys = [f"{role.value}.replication.throttled.{what}" for role in Role for what in ("rate", "replicas")]
        if value is not None and all(document.at(Place(section, key)) is None for key in keys):
            found.append(FileLeftover(place, value.isoformat(), None))
    return found


def _standing(text: str, proposed: Assignment, now: datetime, source: str) -> list[str]:
    quotas = parse_quotas(text.encode())
    return [
        f"{source}: broker {broker} throttles {len(found)} of these partitions as {role.value} by a list that is not"
        " the move's: it stays"
        for broker in sorted({broker for replicas in proposed.values() for broker in replicas})
        for role in Role
        if (found := _selected(effective(quotas, broker, now).of(role), proposed))
    ]


def _selected(quota: Any, proposed: Assignment) -> list[TopicPartition]:
    return [partition for partition in proposed if quota.selects(*partition)]
