"""quotas.toml as values: which section says what, before anyone asks for which broker or when.

Keys and entities are Kafka's own (KIP-73, kafka-configs): rates belong to brokers, replica lists to topics; beyond
Kafka a broker may carry a list that is ``"*"`` or ``""``, topic names may be globs, topics and the traffic with one
other broker or with one rack may have rates of their own inside the broker's, and a section may end (`until`). Reads no
file and no clock. `Draft` reads one section, key by key. Invariants: a section holds only keys that it sets; a key that
is not understood, or is not this kind of section's, is refused.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

from ..errors import InvalidValueError
from ..files.toml_reading import did_you_mean
from ..roles import Role
from .names import SET_TWICE
from .priorities import DEFAULT_PRIORITIES, Priorities
from .rate_source import Deadline, parse_rate_or_source
from .replicas import ReplicaList, parse_replicas
from .units import YEARS, parse_rate, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from .client_entity import ClientEntity
    from .rate_source import RateSource


RATE_KEYS = {f"{role.value}.replication.throttled.rate": role for role in Role}
REPLICAS_KEYS = {f"{role.value}.replication.throttled.replicas": role for role in Role}
UNTIL = "until"
_SECTION_KEYS = (*RATE_KEYS, *REPLICAS_KEYS, UNTIL)
_KEY_OF = {role: key for key, role in RATE_KEYS.items()}


class ClientTraffic(enum.Enum):
    """The direction that a client quota bounds: bytes of Produce requests, or of Fetch responses.

    The value is the metrics' label.
    """

    PRODUCER = "producer"
    CONSUMER = "consumer"

    @property
    def key(self) -> str:
        return f"{self.value}_byte_rate"


CLIENT_KEYS = {traffic.key: traffic for traffic in ClientTraffic}
CATCH_UP_ONLY = "catch_up_only"
LISTENER_RATE = "rate"
"""The key of ``[listener]``."""
_CLIENT_SECTION_KEYS = (*CLIENT_KEYS, CATCH_UP_ONLY, UNTIL)


@dataclass(frozen=True, slots=True)
class Section:
    """A ``[brokers.…]``, ``[peers.…]``, ``[racks.…]``, ``[topics.…]``, ``[clients.…]``, ``[users.…]``, ``[listener]``
    or ``[mode]``: only the keys that it sets."""

    path: str
    """The section's name as it is written in the file: ``topics."clicks-*"``."""
    rates: Mapping[Role, float] = field(default_factory=dict)
    """Bytes per second; of a rate that sets itself, the most that it may be."""
    sources: Mapping[Role, RateSource] = field(default_factory=dict)
    """The sources of those `rates` that set themselves."""
    replicas: Mapping[Role, ReplicaList] = field(default_factory=dict)
    enforce: bool | None = None
    """Whether quotas are enforced; ``[mode]`` alone sets it."""
    listener_rate: float | None = None
    """Bytes per second of everything that leaves through the ingress; ``[listener]`` alone sets it."""
    client_rates: Mapping[ClientTraffic, float] = field(default_factory=dict)
    """Bytes per second; ``[clients.…]`` and ``[users.…]`` alone set them."""
    catch_up_only: bool = False
    """True if only what consumers read behind the tail counts against their rate, which the section sets as well."""
    until: datetime | None = None
    """The end, which in an override is no later than the override; None: it does not end."""

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
        yield from self.clients.values()
        for section in (self.mode, self.listener):
            if section is not None:
                yield section


@dataclass(frozen=True, slots=True)
class QuotaFile:
    """All that one quotas.toml says."""

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


class Of(enum.Enum):
    """The subject of a section: a broker, a peer, a rack, a topic, a client or a user."""

    BROKER = "brokers"
    PEER = "peers"
    RACK = "racks"
    TOPIC = "topics"
    CLIENT = "clients"
    USER = "users"

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys that a section of this kind may have."""
        if self in (Of.CLIENT, Of.USER):
            return _CLIENT_SECTION_KEYS
        return (*RATE_KEYS, UNTIL) if self in (Of.PEER, Of.RACK) else _SECTION_KEYS


_NAMED = {Of.TOPIC: "topic", Of.RACK: "rack", Of.CLIENT: "client", Of.USER: "user"}
"""The kinds of section whose names may have dots, in words."""


@dataclass(slots=True)
class Draft:
    """A section while its keys are read."""

    of: Of
    since: datetime | None = None
    """The time at which the override was made that the section is of: deadlines count from then; None: it is of the
    file."""
    rates: dict[Role, float] = field(default_factory=dict)
    sources: dict[Role, RateSource] = field(default_factory=dict)
    replicas: dict[Role, ReplicaList] = field(default_factory=dict)
    client_rates: dict[ClientTraffic, float] = field(default_factory=dict)
    catch_up_only: bool = False
    until: datetime | None = None
    keys: set[str] = field(default_factory=set)

    def set(self, key: str, value: object, *, path: str) -> None:
        """Set one key of the section. Raises InvalidValueError."""
        if key in self.keys:
            raise InvalidValueError(SET_TWICE)
        self.keys.add(key)
        if key not in self.of.keys:
            raise InvalidValueError(_unknown(path, key, value, self.of))
        if key in RATE_KEYS:
            self._set_rate(RATE_KEYS[key], value, path)
        elif key in REPLICAS_KEYS:
            self.replicas[REPLICAS_KEYS[key]] = _parse_list(value, of_broker=self.of is Of.BROKER)
        elif key in CLIENT_KEYS:
            self.client_rates[CLIENT_KEYS[key]] = parse_rate_above_0(value)
        elif key == CATCH_UP_ONLY:
            if not isinstance(value, bool):
                raise InvalidValueError(f"expected true or false, found {shown(value)}")
            self.catch_up_only = value
        else:
            self.until = parse_until(value)

    def _set_rate(self, role: Role, value: object, path: str) -> None:
        if self.of is not Of.BROKER:
            if isinstance(value, dict):
                raise InvalidValueError(
                    "a rate that sets itself belongs to a broker, in [brokers.…]: expected a rate like "
                    f'"10MiB/s", found {shown(value)}'
                )
            self.rates[role] = parse_rate(value)
            return
        self.rates[role], source = parse_rate_or_source(value, path=f"{path}.{_KEY_OF[role]}")
        if source is None:
            return
        if self.since is not None and source.deadline is not None:
            source = replace(source, deadline=Deadline(at=source.deadline.moment(self.since)))
        self.sources[role] = source


def parse_until(value: object) -> datetime:
    """Parse `until`. Raises InvalidValueError."""
    if isinstance(value, datetime) and value.tzinfo is not None and value.year in YEARS:
        return value
    raise InvalidValueError(f"expected a date and time with an offset, like 2026-12-01T06:00:00Z, found {shown(value)}")


def parse_rate_above_0(value: object) -> float:
    """Parse a rate of clients or of the listener. Raises InvalidValueError."""
    if isinstance(value, dict):
        raise InvalidValueError(f'expected a rate like "10MiB/s", found {shown(value)}')
    rate = parse_rate(value)
    if rate <= 0:
        raise InvalidValueError(f"expected a rate above 0, found {shown(value)}")
    return rate


def _parse_list(value: object, *, of_broker: bool) -> ReplicaList:
    replicas = parse_replicas(value)
    if of_broker and replicas.entries:
        raise InvalidValueError(
            f'expected "*" or "" (partitions are listed per topic, in [topics.…]), found {shown(value)}'
        )
    return replicas


def _unknown(path: str, key: str, value: object, of: Of) -> str:
    if key in REPLICAS_KEYS and of not in (Of.CLIENT, Of.USER):
        return "a list of replicas belongs to a topic or a broker: set it in [topics.…] or [brokers.…]"
    known = of.keys
    ends = known if of in (Of.CLIENT, Of.USER) else _SECTION_KEYS
    rest = next((key.removesuffix(f".{known}") for known in ends if key.endswith(f".{known}")), None)
    if isinstance(value, dict):
        rest = key
    if rest is None or of not in _NAMED:
        return f"unknown key; expected one of {', '.join(known)}{did_you_mean(key, known)}"
    above, kind, name = path.rpartition(": ")[2].rpartition(f"{of.value}.")
    whole = f"{name.strip(chr(34))}.{rest}"
    return f'a {_NAMED[of]} name with dots needs quotes: [{above}{kind}"{whole}"]'
