"""quotas.toml as values: which section says what, before anyone asks for which broker or when.

Keys and entities are Kafka's own (KIP-73, kafka-configs): rates belong to brokers, replica lists to topics;
beyond Kafka a broker may carry a list that is ``"*"`` or ``""``, topic names may be globs, topics and the traffic with
one other broker or with one rack may have rates of their own inside the broker's, and a section may end (`until`).
Reads no file and no clock. Invariant: a section holds only keys that it sets.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..roles import Role
from .priorities import DEFAULT_PRIORITIES, Priorities

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from .rate_source import RateSource
    from .replicas import ReplicaList

RATE_KEYS = {f"{role.value}.replication.throttled.rate": role for role in Role}
REPLICAS_KEYS = {f"{role.value}.replication.throttled.replicas": role for role in Role}
DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Section:
    """One ``[brokers.…]``, ``[peers.…]``, ``[racks.…]``, ``[topics.…]`` or ``[mode]``: only the keys that it sets."""

    path: str
    """As it is written in the file: ``topics."clicks-*"``."""
    rates: Mapping[Role, float] = field(default_factory=dict)
    """Bytes per second; of a rate that sets itself, the most that it may be."""
    sources: Mapping[Role, RateSource] = field(default_factory=dict)
    """Of those of `rates` that set themselves."""
    replicas: Mapping[Role, ReplicaList] = field(default_factory=dict)
    enforce: bool | None = None
    """Of ``[mode]`` alone."""
    until: datetime | None = None
    """When it ends, which in an override is no later than the override; None: it does not."""

    def rate_of(self, role: Role) -> float | RateSource:
        """Return the role's rate as this section sets it; the section must set one."""
        return self.sources.get(role, self.rates[role])

    def holds(self, now: datetime) -> bool:
        return self.until is None or now < self.until


@dataclass(frozen=True, slots=True)
class Layer:
    """Sections that are written together: the file's, or those of one override."""

    brokers: Mapping[int, Section] = field(default_factory=dict)
    broker_default: Section | None = None
    topics: Mapping[str, Section] = field(default_factory=dict)
    """By exact topic name."""
    globs: Mapping[str, Section] = field(default_factory=dict)
    mode: Section | None = None
    peers: Mapping[int, Section] = field(default_factory=dict)
    """By the other broker's id: rates of the traffic with it."""
    racks: Mapping[str, Section] = field(default_factory=dict)
    """By the other brokers' rack: rates of the traffic with all of them."""
    override: str = ""
    """Id of the override that it is; empty: of the file."""

    def sections(self) -> Iterator[Section]:
        yield from self.brokers.values()
        yield from self._of_every_broker()

    def sections_for(self, broker_id: int) -> Iterator[Section]:
        """Yield those that can mean something to one broker."""
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
        if self.mode is not None:
            yield self.mode


@dataclass(frozen=True, slots=True)
class QuotaFile:
    """All that one quotas.toml says."""

    base: Layer
    hash: str
    """Short SHA-256 of the file's bytes."""
    priorities: Priorities = DEFAULT_PRIORITIES
    """Who goes first of the replicas that are behind."""
    overrides: tuple[Layer, ...] = ()
    """The layers above the file, newest first (`proxy.quotas.override`)."""

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers in the order in which they count: the newest override first, the file's own sections last."""
        return (*self.overrides, self.base)

    def start_keys(self, now: datetime) -> list[str]:
        """Return the `start_key` of each source with a `within`, which counts from when the file first said it. Sources
        in sections that have ended are left out: if somebody later writes the same again with another `until`, the span
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
