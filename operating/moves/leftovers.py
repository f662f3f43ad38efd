"""What a reassignment left in a quotas file, and how the file reads without it.

Pure; time is an argument. From lists, in schedules as well, only the entries of moved partitions are removed. A rate is
removed if nothing is left for it to throttle at any time, together with what ``set --for`` put before it. A section
that then has only an `until` is removed, and so is a schedule that is over or has nothing left. `*`, globs, defaults
and rates by the clock do not come from a move: they stay.
Invariant: after removal no list names a partition of the reassignment, and everything else is throttled as before.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from proxy.quotas import REPLICAS_KEYS, effective, parse_quotas, parse_replicas
from proxy.quotas.section_reading import SCHEDULES, UNTIL
from proxy.quotas.sections import DEFAULT
from proxy.roles import Role

from ..editing.facts import Place, facts
from ..editing.rewriting import rewritten
from ..editing.sweeping import is_over

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from proxy.quotas import QuotaFile
    from reassignment import Assignment, TopicPartition

    from ..editing.facts import Path

_BY_THE_CLOCK = ("from", "to", "days")


class FileLeftover(NamedTuple):
    """file: the file that it is in; becomes: the key's value without the leftover; None if the key is removed."""

    place: Place
    value: Any
    becomes: str | None
    file: str = ""

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
    """Look for leftovers of the reassignment `proposed`.

    Args:
        text: of the quotas file.
        proposed: the reassignment.
        now: with an offset.
        source: leads the messages.

    Raises:
        ConfigurationError: the file is not good, or its layout does not allow to edit it.
    """
    parse_quotas(text.encode(), source=source)
    search = _Search(text, proposed, now, source)
    lists = search.lists()
    without_lists = parse_quotas(rewritten(text, _changes(lists), source=source).encode())
    found = [*lists, *search.rates(without_lists)]
    found += search.ends(found)
    over = search.over()
    gone = {int(left.place.section[1]) for left in over}
    clean = rewritten(text, _changes(found), gone=gone, source=source)
    standing = _standing(clean, proposed, now, source)
    notes = (*search.by_the_clock(without_lists), *standing, *search.that_stay(without_lists))
    return FileFindings((*found, *over), clean, notes)


def _changes(found: Iterable[FileLeftover]) -> dict[Place, str | None]:
    return {left.place: left.becomes for left in found}


class _Search:
    """Args: as `leftovers_in_file`; the text is a good quotas file."""

    def __init__(self, text: str, proposed: Assignment, now: datetime, source: str) -> None:
        self._facts, self._now, self._source = facts(text.encode()), now, source
        self._moved: dict[str, set[int]] = {}
        for topic, partition in proposed:
            self._moved.setdefault(topic, set()).add(partition)
        self._brokers = {broker for replicas in proposed.values() for broker in replicas}

    def lists(self) -> list[FileLeftover]:
        """Return the lists that name partitions which were moved. The brokers in these entries count as brokers of the
        move from here on."""
        found = []
        for place, value in self._places("topics"):
            partitions = self._moved.get(_name(place), set())
            entries = parse_replicas(value).entries if place.key in REPLICAS_KEYS else ()
            if any(partition in partitions for partition, _ in entries):
                self._brokers |= {broker for partition, broker in entries if partition in partitions}
                others = ",".join(f"{p}:{b}" for p, b in entries if p not in partitions)
                found.append(self._left(place, value, others or None))
        # In the order in which the reassignment has the topics; lists of schedules come last.
        order = {topic: number for number, topic in enumerate(self._moved)}
        keys = [f"{role.value}.replication.throttled.replicas" for role in Role]
        return sorted(
            found,
            key=lambda left: (left.place.section[0] == SCHEDULES, order[_name(left.place)], keys.index(left.place.key)),
        )

    def rates(self, rest: QuotaFile) -> list[FileLeftover]:
        """Return the rates of the move's brokers that throttle nothing any more, those that were set for a time as
        well."""
        found = [
            self._left(place, value)
            for place, value in self._of_rates()
            if (place.section[0] != SCHEDULES or not self._is_by_the_clock(place)) and self._is_idle(place, rest)
        ]
        return sorted(found, key=lambda left: (left.place.section[0] == SCHEDULES, *map(str, left.place.section[-1:])))

    def by_the_clock(self, rest: QuotaFile) -> list[str]:
        return [
            f"{self._source}: {self._left(place, value)}: holds at its times, and goes before what is planned next:"
            " it stays"
            for place, value in self._of_rates()
            if self._is_by_the_clock(place) and self._is_idle(place, rest) and _name(place) != DEFAULT
        ]

    def that_stay(self, rest: QuotaFile) -> list[str]:
        """Say which rates of the move's brokers stay, because lists are throttled by them that are not the move's."""
        return [
            f"{self._source}: {self._left(place, value)}: stays, since lists that are not the move's are throttled by "
            f"it; if it is the move's: set {place.key} --broker {_name(place)} --remove"
            for place, value in self._of_rates()
            if place.section[0] != SCHEDULES and _name(place) != DEFAULT and not self._is_idle(place, rest)
        ]

    def ends(self, gone: list[FileLeftover]) -> list[FileLeftover]:
        """Return the `until` of each section that has nothing else left."""
        places = {left.place for left in gone if left.becomes is None}
        sections = dict.fromkeys(left.place.section for left in gone)
        return [
            self._left(place, self._facts[place.path])
            for section in sections
            if (place := Place(section, UNTIL)).path in self._facts
            and all(Place(section, key) in places for key in self._keys(section) if key != UNTIL)
        ]

    def over(self) -> list[FileLeftover]:
        """Return the schedules that have ended and that concern no other topics and brokers."""
        found = []
        for path, value in self._facts.items():
            if path[0] == SCHEDULES and path[2:] == (UNTIL,) and is_over(value, self._now):
                said = [
                    other[2:] for other in self._facts if other[:2] == path[:2] and other[2] in ("brokers", "topics")
                ]
                if said and all(str(what[1]) in self._names() for what in said):
                    found.append(self._left(Place(path[:-1], UNTIL), value))
        return found

    def _names(self) -> set[str]:
        return {DEFAULT, *map(str, self._brokers), *self._moved}

    def _is_idle(self, place: Place, rest: QuotaFile) -> bool:
        """Whether a rate has nothing left to throttle: on its own broker, or, if it is a default, on any broker."""
        role = next(role for role in Role if place.key.startswith(role.value))
        if _name(place) == DEFAULT:
            return not any(throttles_ever(rest, broker, role, self._now) for broker in self._every_broker(rest, role))
        return not throttles_ever(rest, int(_name(place)), role, self._now)

    def _every_broker(self, rest: QuotaFile, role: Role) -> set[int]:
        """Return the brokers of the move, and all that the file names. A default rate may be the only one that bounds a
        broker which has no section and stands in the lists of topics alone."""
        named = {int(_name(place)) for place, _ in self._places("brokers") if _name(place) != DEFAULT}
        lists = (section.replicas[role] for section in rest.sections() if role in section.replicas)
        return self._brokers | named | {broker for found in lists for _, broker in found.entries}

    def _of_rates(self) -> Iterator[tuple[Place, Any]]:
        """Yield the rates of the move's brokers, and default rates that are in schedules."""
        for place, value in self._places("brokers"):
            mine = _name(place) in map(str, self._brokers) or (
                _name(place) == DEFAULT and place.section[0] == SCHEDULES
            )
            if place.key.endswith(".rate") and mine and not self._has_ended(place):
                yield place, value

    def _has_ended(self, place: Place) -> bool:
        """Whether the rate is in a schedule that has ended; `over` finds those."""
        return place.section[0] == SCHEDULES and is_over(self._facts.get((*place.section[:2], UNTIL)), self._now)

    def _is_by_the_clock(self, place: Place) -> bool:
        return place.section[0] == SCHEDULES and any((*place.section[:2], key) in self._facts for key in _BY_THE_CLOCK)

    def _places(self, kind: str) -> Iterator[tuple[Place, Any]]:
        for path, value in self._facts.items():
            place = Place(path[:-1], str(path[-1]))
            if kind in place.section[-2:-1]:
                yield place, value

    def _keys(self, section: Path) -> list[str]:
        return [str(path[-1]) for path in self._facts if path[:-1] == section]

    def _left(self, place: Place, value: Any, becomes: str | None = None) -> FileLeftover:
        shown = value.isoformat() if isinstance(value, datetime) else value
        return FileLeftover(place, shown, becomes, self._source)


def _name(place: Place) -> str:
    return str(place.section[-1])


def throttles_ever(quota_file: QuotaFile, broker: int, role: Role, now: datetime) -> bool:
    """Whether any list selects something on this broker, now or at the time of a schedule."""
    schedules = [schedule.layer for schedule in quota_file.schedules if not schedule.has_ended(now)]
    return any(
        section.holds(now) and role in section.replicas and section.replicas[role].partitions_on(broker)
        for layer in (quota_file.base, *schedules)
        for section in layer.sections_for(broker)
    )


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
