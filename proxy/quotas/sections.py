"""quotas.toml as values: its sections, before they are combined for a broker and a moment.

Entities are Kafka's own (KIP-73, kafka-configs): rates belong to brokers, replica lists to topics; beyond Kafka a
broker may carry a list that is ``"*"`` or ``""``, topic names may be globs, topics and the traffic with one other
broker or with a rack may have rates of their own inside the broker's, and a section may end (`until`). Reads no file
and no clock. `Draft` reads one section, key by key; `keys` declares them. Invariants: a section holds only keys that it
sets; a key that is not understood, or is not this kind of section's, is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..errors import InvalidValueError
from ..files.toml_reading import did_you_mean
from .keys import ALL, BY_KIND, OF_OVERRIDES, RATES, UNTIL, Position, SectionKind, T
from .names import SET_TWICE
from .priorities import DEFAULT_PRIORITIES, Priorities

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from ..roles import Role
    from .client_entity import ClientEntity
    from .keys import QuotaKey
    from .rate_source import RateSource


@dataclass(frozen=True, slots=True)
class Section:
    """A ``[brokers.…]``, ``[peers.…]``, ``[racks.…]``, ``[topics.…]``, ``[clients.…]``, ``[users.…]``, ``[listener]``
    or ``[mode]``: only the keys that it sets."""

    path: str
    """The section's name as it is written in the file: ``topics."clicks-*"``."""
    values: Mapping[QuotaKey[Any], Any] = field(default_factory=dict)
    """The values, as the declarations of their keys parse them."""
    until: datetime | None = None
    """The end, which in an override is no later than the override; None: it does not end."""

    def get(self, key: QuotaKey[T]) -> T | None:
        """Return the value of a key; None if the section does not set it."""
        return self.values.get(key)

    @property
    def sources(self) -> dict[Role, RateSource]:
        """The sources of the rates that set themselves."""
        rates = ((role, self.get(key)) for role, key in RATES.items())
        return {role: rate.source for role, rate in rates if rate is not None and rate.source is not None}

    def holds(self, now: datetime) -> bool:
        return self.until is None or now < self.until


@dataclass(frozen=True, slots=True)
class Layer:
    """Sections that are written together: the file's, or those of an override."""

    brokers: Mapping[int, Section] = field(default_factory=dict)
    broker_default: Section | None = None
    topics: Mapping[str, Section] = field(default_factory=dict)
    """The sections of topics, by exact name."""
    globs: Mapping[str, Section] = field(default_factory=dict)
    mode: Section | None = None
    peers: Mapping[int, Section] = field(default_factory=dict)
    """Rates of the traffic with another broker, by its id."""
    racks: Mapping[str, Section] = field(default_factory=dict)
    """Rates of the traffic with all brokers of another rack, by its name."""
    clients: Mapping[ClientEntity, Section] = field(default_factory=dict)
    """Rates of clients and of users."""
    listener: Section | None = None
    override: str = ""
    """The id of the override; empty for the file."""
    memo: dict[tuple[int, int | None], Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """The layer as `rules` has resolved it, by broker and moment."""

    def sections(self) -> Iterator[Section]:
        yield from self.brokers.values()
        yield from self._of_every_broker()

    def sections_for(self, broker_id: int) -> Iterator[Section]:
        """Yield those that can mean something to a broker."""
        if broker_id in self.brokers:
            yield self.brokers[broker_id]
        yield from self._of_every_broker()

    def _of_every_broker(self) -> Iterator[Section]:
        if self.broker_default is not None:
            yield self.broker_default
        yield from self.peers.values()
        yield from self.racks.values()
        yield from self.topics.values()
        yield from self.globs.values()
        yield from self.clients.values()
        for section in (self.mode, self.listener):
            if section is not None:
                yield section


@dataclass(frozen=True, slots=True)
class QuotaFile:
    """The content of a quotas.toml."""

    base: Layer
    hash: str
    """The short SHA-256 of the file's bytes."""
    priorities: Priorities = DEFAULT_PRIORITIES
    """The order in which replicas that are behind go."""
    overrides: tuple[Layer, ...] = ()
    """The layers above the file, newest first (`proxy.quotas.override`)."""

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers in the order in which they count: the newest override first, the file's own sections last."""
        return (*self.overrides, self.base)

    def start_keys(self, now: datetime) -> list[str]:
        """Return the `start_key` of each source with a `within`, which counts from when the file first said it. Sources
        in sections that have ended are left out: if the same is later written again with another `until`, the span
        begins anew then."""
        return [
            source.start_key
            for section in self.sections()
            if section.holds(now)
            for source in section.sources.values()
            if source.start_key is not None
        ]

    def sections(self) -> Iterator[Section]:
        for layer in self.layers:
            yield from layer.sections()


_NAMED = {
    SectionKind.TOPIC: "topic",
    SectionKind.RACK: "rack",
    SectionKind.CLIENT: "client",
    SectionKind.USER: "user",
}
"""The kinds of section whose names may have dots, in words."""


@dataclass(slots=True)
class Draft:
    """A section while its keys are read."""

    kind: SectionKind
    path: str
    since: datetime | None = None
    """The time at which the override was made that the section is of; None: it is of the file."""
    values: dict[QuotaKey[Any], Any] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)

    def set(self, name: str, value: object) -> None:
        """Set a key of the section. Raises InvalidValueError."""
        if name in self.seen:
            raise InvalidValueError(SET_TWICE)
        self.seen.add(name)
        key = BY_KIND[self.kind].get(name)
        if key is None:
            raise InvalidValueError(self._unknown(name, value))
        if self.since is not None and key not in OF_OVERRIDES:
            raise InvalidValueError(f"is not for overrides: {key.meaning}")
        self.values[key] = key.parse(value, Position(self.kind, f"{self.path}.{name}", self.since))

    def missing(self) -> Iterator[tuple[str, str]]:
        """Yield the key that misses another, or is missing itself, and the expected text."""
        for key in BY_KIND[self.kind].values():
            if key.is_required and key.name not in self.seen:
                yield key.name, f"expected {key.values}, found none"
            beside = key.beside
            if beside is not None and self.values.get(key) and beside not in self.values:
                yield key.name, f"expected {beside.name} in the same section, the rate that it is about; found none"

    def section(self, until: datetime | None) -> Section:
        """Return the section; `until`: the end of the override that it is of."""
        ends = [end for end in (self.values.pop(UNTIL, None), until) if end is not None]
        return Section(self.path, self.values, min(ends, default=None))

    def _unknown(self, name: str, value: object) -> str:
        known = tuple(BY_KIND[self.kind])
        rest = next((name.removesuffix(f".{each}") for each in known if name.endswith(f".{each}")), None)
        if isinstance(value, dict):
            rest = name
        if rest is not None and self.kind in _NAMED:
            above, kind, own = self.path.rpartition(": ")[2].rpartition(f"{self.kind.value}.")
            whole = f"{own.strip(chr(34))}.{rest}"
            return f'a {_NAMED[self.kind]} name with dots needs quotes: [{above}{kind}"{whole}"]'
        expected = f"one of {', '.join(known)}" if self.kind.has_names else " or ".join(known)
        return f"unknown key; expected {expected}{_place_of(name) or did_you_mean(name, known)}"


def _place_of(name: str) -> str:
    """Return the kinds of section that have such a key, as an addition to a message; empty if none has."""
    kinds = [kind for key in ALL if key.name == name for kind in key.kinds]
    written = [f"[{kind.value}.…]" if kind.has_names else f"[{kind.value}]" for kind in kinds]
    return f" ({name} belongs in {' or '.join(written)})" if written else ""
