"""The effective quotas of a broker at one moment, of the quotas file and the overrides: the data path's snapshot.

Overrides go before the file, the newest first: what one of them says of a topic, by name, by glob or for the whole
broker, hides what is below. Inside the file the most specific section wins, key by key: exact topic, longest glob, this
broker, broker default. A section whose `until` has passed does not count. Time is an argument. Invariant: a `Quotas`
never changes; a new file, an override, or an `until` that passes makes a new one. The changes ahead (`changes_ahead`)
are those that traffic meets: the end of a section that hides nothing is not one.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from ..roles import Role
from .client_rates import NO_CLIENT_RATES, ClientRates, client_rates
from .finer_rates import NO_FINER_RATES, FinerRates
from .keys import ENFORCE, LISTENER_RATE, RATES, REPLICAS
from .names import glob_of, specificity
from .priorities import DEFAULT_PRIORITIES, Priorities
from .replicas import EVERY_PARTITION, NO_PARTITION, Partitions
from .units import format_rate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime

    from .keys import QuotaKey, Rate
    from .rate_source import RateSource
    from .sections import Layer, QuotaFile, Section


MAX_TOPIC_BYTES = 249
"""The longest name of a topic (org.apache.kafka.common.internals.Topic); a longer name in a request is made up."""
MAX_RESOLVED = 20_000
"""The most topics whose listed partitions are remembered; those of more topics are worked out each time."""
METADATA_TOPIC = "__cluster_metadata"
"""The KRaft metadata log: throttling it would stop the controller, not a catch-up."""
METADATA_TOPIC_ID = bytes(15) + b"\x01"
"""The id of that topic (Kafka's Uuid.METADATA_TOPIC_ID)."""
MAX_REMEMBERED = 8
"""The most moments of a layer that are remembered."""
_Name = TypeVar("_Name", int, str)


@dataclass(frozen=True, slots=True)
class RoleQuota:
    """The quota of a role: its rate, and the partitions that it is for."""

    bytes_per_second: float = math.inf
    """The rate; `math.inf` if unlimited. For a rate that sets itself, the one that was chosen last; until one has been
    chosen, the most that it may be."""
    topics: Mapping[str, Partitions] = field(default_factory=dict)
    """The listed partitions by exact topic, including topics that a broker's ``*`` must not reach (an empty list
    exempts a topic)."""
    globs: tuple[tuple[str, Partitions], ...] = ()
    """The first that matches counts."""
    otherwise: Partitions = NO_PARTITION
    source: RateSource | None = None
    """The source of a rate that sets itself; None: the rate is fixed."""
    finer: FinerRates = NO_FINER_RATES
    """The rates of racks, peers and topics inside it."""
    _resolved: dict[str, Partitions] = field(default_factory=dict, init=False, repr=False, compare=False)
    _named: list[tuple[str, ...]] = field(default_factory=list, init=False, repr=False, compare=False)
    """The cached `named`, which takes 20 ms for 50 000 topics."""

    def at(self, bytes_per_second: float) -> RoleQuota:
        """Return the same with another rate. The lists' caches are shared."""
        if bytes_per_second == self.bytes_per_second:
            return self
        return replace(self, bytes_per_second=bytes_per_second)._knowing(self)

    def sharing_lists_of(self, other: RoleQuota) -> RoleQuota:
        """Return the same quota. If its lists are equal to those of `other`, it has the very objects of `other`: so
        `has_lists_of` need not compare long lists."""
        if (self.topics, self.globs, self.otherwise) != (other.topics, other.globs, other.otherwise):
            return self
        shared = replace(self, topics=other.topics, globs=other.globs, otherwise=other.otherwise)
        return shared._knowing(other)

    def _knowing(self, other: RoleQuota) -> RoleQuota:
        """Return a copy that shares the lookup caches of a quota with the same lists."""
        object.__setattr__(self, "_resolved", other._resolved)
        object.__setattr__(self, "_named", other._named)
        return self

    def rate_in_words(self) -> str:
        """Describe the rate as the file has it: ``4.00 MiB/s (4194304 B/s)``, or the aim of a rate that sets itself."""
        return format_rate(self.bytes_per_second) if self.source is None else str(self.source)

    def selects(self, topic: str, partition: int) -> bool:
        """Return True if this partition is throttled on this broker in this role. Cheap: one lookup per known
        topic. Memory is bounded, whatever names a peer makes up."""
        partitions = self._resolved.get(topic)
        if partitions is None:
            if len(self._resolved) >= MAX_RESOLVED:
                self._resolved.clear()
            partitions = self.partitions_of(topic)
            if len(topic) <= MAX_TOPIC_BYTES:
                self._resolved[topic] = partitions
        return partition in partitions

    def partitions_of(self, topic: str) -> Partitions:
        """Return those of a topic that are listed; of a name that is too long for a topic none."""
        if topic == METADATA_TOPIC or len(topic) > MAX_TOPIC_BYTES:
            return NO_PARTITION
        exact = self.topics.get(topic)
        if exact is not None:
            return exact
        return next((listed for glob, listed in self.globs if glob_of(glob).matches(topic)), self.otherwise)

    @property
    def names_topics(self) -> bool:
        """True if some list names or exempts a topic or a glob: then a topic's id alone does not tell whether it is
        listed."""
        return bool(self.topics or self.globs)

    @property
    def named(self) -> tuple[str, ...]:
        """The topics of which a list names partitions here, in order; globs may match later topics."""
        if not self._named:
            self._named.append(tuple(sorted(topic for topic, listed in self.topics.items() if listed)))
        return self._named[0]

    @property
    def selects_nothing(self) -> bool:
        """True if no list selects any partition: nothing on a connection of this role can ever be throttled."""
        return not (self.otherwise or self.named or any(listed for _, listed in self.globs))

    def listed(self) -> dict[str, str]:
        """Describe the selection, for people: partitions (or ``*``) by topic or glob; ``*`` is every other topic."""
        return {name: str(partitions) for name, partitions in self.lists().items()}

    def has_lists_of(self, other: RoleQuota) -> bool:
        """Return True if the lists of both are the same objects, as after a change of the rate alone."""
        return self.topics is other.topics and self.globs is other.globs and self.otherwise is other.otherwise

    def lists(self) -> dict[str, Partitions]:
        """Return the same as `listed`, but not yet as text: to write it out takes 2 µs for each partition."""
        named = {**self.topics, **dict(self.globs)}
        if self.otherwise:
            named.setdefault("*", self.otherwise)
        return named

    @classmethod
    def of_every_topic(cls, bytes_per_second: float) -> RoleQuota:
        return cls(bytes_per_second, otherwise=EVERY_PARTITION)


@dataclass(frozen=True, slots=True)
class Quotas:
    """Both roles' quotas as they hold now."""

    leader: RoleQuota = field(default_factory=RoleQuota)
    follower: RoleQuota = field(default_factory=RoleQuota)
    enforce: bool = True
    """False to observe only: bytes that would be withheld are counted."""
    hash: str = ""
    """The short SHA-256 of the file's bytes."""
    next_change: datetime | None = None
    """The time to work this out again: the earliest `until` ahead."""
    priorities: Priorities = DEFAULT_PRIORITIES
    """The order in which replicas that are behind go."""
    clients: ClientRates = NO_CLIENT_RATES
    """The rates of clients of the ingress."""
    listener_bytes_per_second: float = math.inf
    """The rate of everything that leaves through the ingress."""
    until: Mapping[Role, datetime] = field(default_factory=dict)
    """The time at which something that a role's quota is made of ends by an `until`; no entry if nothing does."""

    def of(self, role: Role) -> RoleQuota:
        return self.leader if role is Role.LEADER else self.follower

    def means_the_same_as(self, other: Quotas) -> bool:
        """Return True if traffic is treated alike under both."""
        mine, others = (
            (each.leader, each.follower, each.enforce, each.priorities, each.clients, each.listener_bytes_per_second)
            for each in (self, other)
        )
        return mine == others


def effective(quota_file: QuotaFile, broker_id: int, now: datetime) -> Quotas:
    """Return the quotas of a broker; `now` carries an offset."""
    layers = [_resolved(layer, broker_id, now) for layer in quota_file.layers]
    found = {role: _laid(layer.roles[role] for layer in reversed(layers)) for role in Role}
    mode = governing_mode(quota_file, now)
    listener = _first_saying(LISTENER_RATE, (layer.listener for layer in quota_file.layers), now)
    ends = {role: _first_end(said.ends(), None if mode is None else mode.until) for role, said in found.items()}
    changes = (layer.next_change for layer in layers if layer.next_change is not None)
    return Quotas(
        leader=found[Role.LEADER].quota(),
        follower=found[Role.FOLLOWER].quota(),
        enforce=mode is None or mode.values[ENFORCE],
        hash=quota_file.hash,
        priorities=quota_file.priorities,
        clients=client_rates(quota_file.layers, now),
        listener_bytes_per_second=LISTENER_RATE.default if listener is None else listener.values[LISTENER_RATE],
        next_change=min(changes, default=None),
        until={role: end for role, end in ends.items() if end is not None},
    )


def governing_mode(quota_file: QuotaFile, now: datetime) -> Section | None:
    """Return the section that says whether quotas are enforced; None if nothing says it."""
    return _first_saying(ENFORCE, (layer.mode for layer in quota_file.layers), now)


def _first_saying(key: QuotaKey[Any], sections: Iterable[Section | None], now: datetime) -> Section | None:
    return next((each for each in sections if each is not None and key in each.values and each.holds(now)), None)


class _Rated(NamedTuple):
    rate: Rate
    until: datetime | None


class _Listed(NamedTuple):
    partitions: Partitions
    until: datetime | None
    """The end of the section; None as well where it lists nothing on this broker."""


_Value = TypeVar("_Value", _Rated, _Listed)


@dataclass(slots=True)
class _ByTopic(Generic[_Value]):
    """Values by exact name, and by glob in the order in which globs count."""

    topics: dict[str, _Value] = field(default_factory=dict)
    globs: dict[str, _Value] = field(default_factory=dict)

    def lay(self, newer: _ByTopic[_Value]) -> None:
        """Put another layer's values above these: its globs hide topics as well."""
        if newer.globs:
            above = [glob_of(glob) for glob in newer.globs]
            self.topics = {
                name: value for name, value in self.topics.items() if not any(glob.matches(name) for glob in above)
            }
            self.globs = newer.globs | {glob: value for glob, value in self.globs.items() if glob not in newer.globs}
        self.topics.update(newer.topics)

    def values(self) -> Iterator[_Value]:
        yield from self.topics.values()
        yield from self.globs.values()


@dataclass(slots=True)
class _OfRole:
    """All that a layer says of a role at a moment, or several layers together."""

    rate: _Rated | None = None
    otherwise: _Listed | None = None
    hides_lists: bool = False
    """True for an override's list of the whole broker: it hides every list below it."""
    peers: dict[int, _Rated] = field(default_factory=dict)
    racks: dict[str, _Rated] = field(default_factory=dict)
    rates: _ByTopic[_Rated] = field(default_factory=_ByTopic)
    lists: _ByTopic[_Listed] = field(default_factory=_ByTopic)

    def lay(self, newer: _OfRole) -> None:
        """Put a newer layer above this. The work is mostly that of updating dictionaries."""
        self.rate = newer.rate or self.rate
        self.otherwise = newer.otherwise or self.otherwise
        self.peers.update(newer.peers)
        self.racks.update(newer.racks)
        self.rates.lay(newer.rates)
        if newer.hides_lists:
            self.lists = _ByTopic()
        self.lists.lay(newer.lists)

    def ends(self) -> Iterator[datetime | None]:
        """Yield the ends of the quota's sections."""
        for value in (self.rate, self.otherwise):
            if value is not None:
                yield value.until
        for values in (self.peers.values(), self.racks.values(), self.rates.values(), self.lists.values()):
            yield from (value.until for value in values)

    def quota(self) -> RoleQuota:
        return RoleQuota(
            bytes_per_second=math.inf if self.rate is None else self.rate.rate.bytes_per_second,
            topics={name: each.partitions for name, each in self.lists.topics.items()},
            globs=tuple((name, each.partitions) for name, each in self.lists.globs.items()),
            otherwise=NO_PARTITION if self.otherwise is None else self.otherwise.partitions,
            source=None if self.rate is None else self.rate.rate.source,
            finer=self._finer(),
        )

    def _finer(self) -> FinerRates:
        topics, globs = self.rates.topics, self.rates.globs
        if not (self.racks or self.peers or topics or globs):
            return NO_FINER_RATES
        return FinerRates(
            peers={broker_id: each.rate.bytes_per_second for broker_id, each in self.peers.items()},
            topics={name: each.rate.bytes_per_second for name, each in topics.items()},
            globs=tuple((name, each.rate.bytes_per_second) for name, each in globs.items()),
            racks={name: each.rate.bytes_per_second for name, each in self.racks.items()},
        ).meant()


@dataclass(frozen=True, slots=True)
class _Resolved:
    """A layer at a moment, for a broker."""

    roles: Mapping[Role, _OfRole]
    next_change: datetime | None


def _resolved(layer: Layer, broker_id: int, now: datetime) -> _Resolved:
    """Resolve a layer: once between two of its ends, so that a change of an override costs nothing in the others."""
    ends: list[datetime] | None = layer.memo.get((broker_id, None))
    if ends is None:
        found = {section.until for section in layer.sections_for(broker_id) if section.until is not None}
        ends = layer.memo[broker_id, None] = sorted(found)
    ended = bisect_right(ends, now)
    known: _Resolved | None = layer.memo.get((broker_id, ended))
    if known is None:
        roles = {role: _of_role(layer, role, broker_id, now) for role in Role}
        known = layer.memo[broker_id, ended] = _Resolved(roles, ends[ended] if ended < len(ends) else None)
        if len(layer.memo) > MAX_REMEMBERED:
            layer.memo.clear()
    return known


def _of_role(layer: Layer, role: Role, broker_id: int, now: datetime) -> _OfRole:
    own, rate, replicas = layer.brokers.get(broker_id), RATES[role], REPLICAS[role]
    brokers = [each for each in (own, layer.broker_default) if each is not None and each.holds(now)]

    def rates(sections: Mapping[_Name, Section]) -> dict[_Name, _Rated]:
        return {
            name: _Rated(each.values[rate], each.until)
            for name, each in sections.items()
            if rate in each.values and each.holds(now)
        }

    def lists(sections: Mapping[_Name, Section]) -> dict[_Name, _Listed]:
        found: dict[_Name, _Listed] = {}
        for name, each in sections.items():
            if replicas in each.values and each.holds(now):
                partitions = each.values[replicas].partitions_on(broker_id)
                found[name] = _Listed(partitions, each.until if partitions else None)
        return found

    globs = {glob: layer.globs[glob] for glob in sorted(layer.globs, key=specificity)}
    otherwise = next(iter(lists(dict(enumerate(brokers))).values()), None)
    return _OfRole(
        rate=next(iter(rates(dict(enumerate(brokers))).values()), None),
        otherwise=otherwise,
        hides_lists=otherwise is not None and bool(layer.override),
        peers=rates(layer.peers),
        racks=rates(layer.racks),
        rates=_ByTopic(rates(layer.topics), rates(globs)),
        lists=_ByTopic(lists(layer.topics), lists(globs)),
    )


def _laid(layers: Iterable[_OfRole]) -> _OfRole:
    """Combine layers, the oldest lowest."""
    found = _OfRole()
    for layer in layers:
        found.lay(layer)
    return found


def _first_end(ends: Iterable[datetime | None], other: datetime | None) -> datetime | None:
    return min((end for end in (*ends, other) if end is not None), default=None)


MAX_MOMENTS = 100
"""The most moments at which something could change that are looked at."""


class Change(NamedTuple):
    at: datetime
    before: Quotas
    after: Quotas


def changes_ahead(
    quota_file: QuotaFile, broker_id: int, now: datetime, *, moments: int = MAX_MOMENTS
) -> Iterator[Change]:
    """Yield the changes ahead, in order of time, worked out as they are asked for."""
    before = effective(quota_file, broker_id, now)
    at = before.next_change
    for _ in range(moments):
        if at is None:
            return
        after = effective(quota_file, broker_id, at)
        if not after.means_the_same_as(before):
            yield Change(at, before, after)
            before = after
        at = after.next_change
