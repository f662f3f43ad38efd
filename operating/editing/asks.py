"""What an operator asks for, and which brokers it names: those on which it has to hold.

A value in one broker's section is asked for that broker. A value in the default section is asked for every broker that
reads the file, even for one that has a value of its own, unless the default alone is asked for: an operator who names
no broker means all of them, most of all in a hurry. Pure. Invariant: brokers that the file does not name are
represented by an id that the file does not have.
"""

from __future__ import annotations

import tomllib
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from proxy.errors import InvalidValueError
from proxy.quotas.keys import MOST_BROKER_ID
from proxy.quotas.replicas import parse_replicas
from proxy.quotas.section_reading import SCHEDULES
from proxy.quotas.sections import DEFAULT, REPLICAS_KEYS

from .editing import Assign
from .facts import Place, facts
from .shadows import found_at

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from datetime import datetime

    from proxy.quotas.sections import QuotaFile

    from .editing import Wish
    from .facts import Path


class Ask(NamedTuple):
    """One thing that an operator asks for.

    Args:
        place: where the value stands, in one of the file's own sections (not in a schedule).
        wish: what is to stand there.
        alone: matters only if `place` is in the default section. True: brokers with a value of their own keep it.
            False: every broker is to have what the default says.
    """

    place: Place
    wish: Wish
    alone: bool = False


class Brokers(NamedTuple):
    """The brokers that a file is for. `every`: for each of them how messages name it (None: any broker that the file
    does not name), and an id by which the rules are asked. `shared`: other brokers may read the file as well."""

    every: tuple[tuple[int | None, int], ...]
    shared: bool

    @classmethod
    def of(cls, content: bytes, asks: Sequence[Ask], known: Iterable[int], readers: Collection[int] | None) -> Brokers:
        if readers is not None:
            return cls(tuple((broker, broker) for broker in sorted(readers)), shared=False)
        ids = {broker for ask in asks for broker in _id_in(ask.place.section)}
        if all(_id_in(ask.place.section) for ask in asks):
            # A section of one broker means nothing to any other.
            return cls(tuple((broker, broker) for broker in sorted(ids)), shared=True)
        ids |= set(known)
        with suppress(UnicodeDecodeError, RecursionError, tomllib.TOMLDecodeError):
            found = facts(content)
            sections = (path[2:4] if path[0] == SCHEDULES else path[:2] for path in found)
            ids |= {broker for section in sections for broker in _id_in(section)}
            ids |= {broker for ask in asks for broker in _listed(ask, found)}
        other = next(broker for broker in range(MOST_BROKER_ID, 0, -1) if broker not in ids)
        return cls((*((broker, broker) for broker in sorted(ids)), (None, other)), shared=True)

    def named_by(self, ask: Ask, file: QuotaFile, now: datetime) -> list[tuple[int | None, int]]:
        """On whom what is asked for has to hold."""
        section = ask.place.section
        if section[0] != "brokers":
            # What is of a topic, a peer or a rack, and the mode, are from the same section for every broker.
            return [self.every[-1]]
        if section[1] != DEFAULT:
            return [(broker, broker) for broker in _id_in(section)]
        if not ask.alone:
            return list(self.every)
        if self.shared:
            return [self.every[-1]]
        found = ((broker, found_at(file, ask.place, broker[1], now)) for broker in self.every)
        of_default = [broker for broker, said in found if said is None or said[0].path.endswith(f"brokers.{DEFAULT}")]
        return of_default or list(self.every)


def _listed(ask: Ask, found: Mapping[Path, object]) -> set[int]:
    """The brokers that lists name at this place, those of schedules and the one that is asked for: each throttles
    something of its own."""
    if ask.place.key not in REPLICAS_KEYS:
        return set()
    lists = [value for path, value in found.items() if path[-len(ask.place.path) :] == ask.place.path]
    lists += [ask.wish.value] if isinstance(ask.wish, Assign) else []
    listed = set[int]()
    for value in lists:
        # What is no list is for the file's own parser to say.
        with suppress(InvalidValueError):
            listed |= {broker for _, broker in parse_replicas(value).entries}
    return listed


def _id_in(section: Path) -> tuple[int, ...]:
    if len(section) > 1 and section[0] == "brokers" and str(section[1]).isascii() and str(section[1]).isdecimal():
        return (int(section[1]),)
    return ()
