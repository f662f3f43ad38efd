"""The effective quotas of one broker at one moment, of the quotas file and the overrides: the data path's snapshot.

Overrides go before the file, the newest first: what one of them says of a topic, by name, by glob or for the whole
broker, hides what is below. Inside the file the most specific section wins, key by key: exact topic, longest glob, this
broker, broker default. A section whose `until` has passed does not count. Time is an argument. Invariant: a `Quotas`
never changes; a new file, an override, or an `until` that passes makes a new one. The changes ahead (`changes_ahead`)
are those that traffic meets: the end of a section that hides nothing is not one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

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
    from .replicas import ReplicaList
    from .sections import Layer, QuotaFile, Section


MAX_TOPIC_BYTES = 249
"""The longest name of a topic (org.apache.kafka.common.internals.Topic); a longer name in a request is made up."""
MAX_RESOLVED = 20_000
"""The most topics whose listed partitions are remembered; those of more topics are worked out each time."""
METADATA_TOPIC = "__cluster_metadata"
"""The KRaft metadata log: throttling it would stop the controller, not a catch-up."""
METADATA_TOPIC_ID = bytes(15) + b"\x01"
"""The id of that topic (Kafka's Uuid.METADATA_TOPIC_ID)."""
_Name = TypeVar("_Name", int, str)


@dataclass(frozen=True, slots=True)
class RoleQuota:
    """The quota of one role: its rate, and the partitions that it is for."""

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
        """Return the same with another rate. What is remembered of the lists is shared, not worked out again."""
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
        """The topics of which a list names partitions here, in order; globs may match what is yet to come."""
        if not self._named:
            self._named.append(tuple(sorted(topic for topic, listed in self.topics.items() if listed)))
        return self._named[0]

    @property
    def selects_nothing(self) -> bool:
        """True if no list selects any partition: nothing on a connection of this role can ever be throttled."""
        return not (self.otherwise or self.named or any(listed for _, listed in self.globs))

    def listed(self) -> dict[str, str]:
        """Return what is selected, for people: partitions (or ``*``) by topic or glob; ``*`` is every other
        topic."""
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
    """False to observe only: what would be withheld is counted."""
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
    """Return the quotas of one broker; `now` carries an offset."""
    found = {role: _Sought(quota_file, role, broker_id, now) for role in Role}
    mode = governing_mode(quota_file, now)
    listener = _first_saying(LISTENER_RATE, (layer.listener for layer in quota_file.layers), now)
    ends = {role: _first_end([*([mode] if mode else []), *sought.ending()]) for role, sought in found.items()}
    return Quotas(
        leader=found[Role.LEADER].quota(),
        follower=found[Role.FOLLOWER].quota(),
        enforce=mode is None or mode.values[ENFORCE],
        hash=quota_file.hash,
        priorities=quota_file.priorities,
        clients=client_rates(quota_file.layers, now),
        listener_bytes_per_second=LISTENER_RATE.default if listener is None else listener.values[LISTENER_RATE],
        next_change=min(_changes(quota_file, broker_id, now), default=None),
        until={role: end for role, end in ends.items() if end is not None},
    )


def governing_mode(quota_file: QuotaFile, now: datetime) -> Section | None:
    """Return the section that says whether quotas are enforced; None if nothing says it."""
    return _first_saying(ENFORCE, (layer.mode for layer in quota_file.layers), now)


def _first_saying(key: QuotaKey[Any], sections: Iterable[Section | None], now: datetime) -> Section | None:
    return next((each for each in sections if each is not None and key in each.values and each.holds(now)), None)


def _changes(quota_file: QuotaFile, broker_id: int, now: datetime) -> Iterator[datetime]:
    for layer in quota_file.layers:
        for section in layer.sections_for(broker_id):
            if section.until is not None and section.until > now:
                yield section.until


def _first_end(sections: Iterable[Section]) -> datetime | None:
    return min((section.until for section in sections if section.until is not None), default=None)


class _Sought:
    """One role's quota while the sections that make it up are looked for."""

    def __init__(self, quota_file: QuotaFile, role: Role, broker_id: int, now: datetime) -> None:
        self._broker_id = broker_id
        self._rate_key, self._list_key = rate, replicas = RATES[role], REPLICAS[role]
        layers = quota_file.layers
        own = [layer.brokers.get(broker_id) for layer in layers] + [layer.broker_default for layer in layers]
        self._rate = _first_saying(rate, own, now)
        self._otherwise = _first_saying(replicas, own, now)
        self._peer_rates = _first_named(rate, (layer.peers for layer in layers), now)
        self._rack_rates = _first_named(rate, (layer.racks for layer in layers), now)
        self._topic_rates, self._glob_rates = _by_topic(rate, layers, now)
        for number, override in enumerate(quota_file.overrides):
            section = override.brokers.get(broker_id)
            if section is not None and section is self._otherwise:
                # What an override says of the whole broker hides every list below it.
                layers = layers[: number + 1]
                break
        self._topics, self._globs = _by_topic(replicas, layers, now)

    def ending(self) -> Iterator[Section]:
        """Yield the sections that something of this quota is from, and that end."""
        if self._rate is not None:
            yield self._rate
        for named in (self._rack_rates, self._peer_rates, self._topic_rates, self._glob_rates):
            yield from named.values()
        lists = (self._otherwise, *self._topics.values(), *self._globs.values())
        # Lists are long, and most sections have no end: whether this broker is listed is asked last.
        ending = (section for section in lists if section is not None and section.until is not None)
        yield from (section for section in ending if self._listed(section))

    def quota(self) -> RoleQuota:
        rate: Rate = self._rate_key.default if self._rate is None else self._rate.values[self._rate_key]
        return RoleQuota(
            bytes_per_second=rate.bytes_per_second,
            topics={name: self._listed(section) for name, section in self._topics.items()},
            globs=tuple((name, self._listed(section)) for name, section in self._globs.items()),
            otherwise=NO_PARTITION if self._otherwise is None else self._listed(self._otherwise),
            source=rate.source,
            finer=self._finer(),
        )

    def _finer(self) -> FinerRates:
        if not (self._rack_rates or self._peer_rates or self._topic_rates or self._glob_rates):
            return NO_FINER_RATES
        return FinerRates(
            peers=self._rates_of(self._peer_rates),
            topics=self._rates_of(self._topic_rates),
            globs=tuple(self._rates_of(self._glob_rates).items()),
            racks=self._rates_of(self._rack_rates),
        ).meant()

    def _rates_of(self, named: Mapping[_Name, Section]) -> dict[_Name, float]:
        return {name: section.values[self._rate_key].bytes_per_second for name, section in named.items()}

    def _listed(self, section: Section) -> Partitions:
        replicas: ReplicaList = section.values[self._list_key]
        return replicas.partitions_on(self._broker_id)


def _first_named(key: QuotaKey[Any], layers: Iterable[Mapping[_Name, Section]], now: datetime) -> dict[_Name, Section]:
    """Return the section of each name that goes first for a key."""
    first: dict[_Name, Section] = {}
    for named in layers:
        for name, section in named.items():
            if key in section.values and section.holds(now):
                first.setdefault(name, section)
    return first


def _by_topic(
    key: QuotaKey[Any], layers: Iterable[Layer], now: datetime
) -> tuple[dict[str, Section], dict[str, Section]]:
    """Return the sections that count by exact topic name, and by glob in the order in which globs count."""
    topics: dict[str, Section] = {}
    globs: dict[str, Section] = {}
    for layer in layers:
        above = [glob_of(glob) for glob in globs]
        for name, section in _first_named(key, [layer.topics], now).items():
            if name not in topics and not any(glob.matches(name) for glob in above):
                topics[name] = section
        found = _first_named(key, [layer.globs], now)
        for name in sorted(found, key=specificity):
            globs.setdefault(name, found[name])
    return topics, globs


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
