"""What the quotas file means for one broker at one moment: the snapshot the data path asks.

The most specific section wins, key by key: exact topic, longest glob, this broker, broker default. A section
whose `until` has passed does not count. Time is an argument. Invariant: a `Quotas` never changes; a new file,
or an `until` that passes, makes a new one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from ..roles import Role
from .replicas import EVERY_PARTITION, NO_PARTITION, Partitions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import datetime

    from .sections import QuotaFile, Section

METADATA_TOPIC = "__cluster_metadata"
"""The KRaft metadata log: throttling it would stop the controller, not a catch-up."""
METADATA_TOPIC_ID = bytes(15) + b"\x01"
"""Uuid.METADATA_TOPIC_ID."""


@dataclass(frozen=True, slots=True)
class RoleQuota:
    """One role's budget and which partitions it is for."""

    bytes_per_second: float = math.inf
    """`math.inf` if unlimited."""
    topics: Mapping[str, Partitions] = field(default_factory=dict)
    """By exact name; here also what a broker's ``*`` must not reach (an empty list exempts a topic)."""
    globs: tuple[tuple[str, Partitions], ...] = ()
    """Most specific first."""
    otherwise: Partitions = NO_PARTITION
    _resolved: dict[str, Partitions] = field(default_factory=dict, init=False, repr=False, compare=False)

    def selects(self, topic: str, partition: int) -> bool:
        """Whether this partition is throttled on this broker in this role. Cheap: one lookup per known
        topic."""
        partitions = self._resolved.get(topic)
        if partitions is None:
            partitions = self._resolved[topic] = self.partitions_of(topic)
        return partition in partitions

    def partitions_of(self, topic: str) -> Partitions:
        if topic == METADATA_TOPIC:
            return NO_PARTITION
        exact = self.topics.get(topic)
        if exact is not None:
            return exact
        return next((listed for glob, listed in self.globs if fnmatchcase(topic, glob)), self.otherwise)

    @property
    def names_topics(self) -> bool:
        """Some list is of a topic or a glob, or exempts one: an id alone does not tell."""
        return bool(self.topics or self.globs)

    @property
    def selects_nothing(self) -> bool:
        """No list selects any partition: nothing on a connection of this role can ever be throttled."""
        return not (self.otherwise or any(self.topics.values()) or any(listed for _, listed in self.globs))

    def listed(self) -> dict[str, str]:
        """What is selected, for people: partitions (or ``*``) by topic or glob; ``*`` is every other
        topic."""
        named = {**self.topics, **dict(self.globs)}
        if self.otherwise:
            named.setdefault("*", self.otherwise)
        return {name: str(partitions) for name, partitions in named.items()}

    @classmethod
    def of_every_topic(cls, bytes_per_second: float) -> RoleQuota:
        return cls(bytes_per_second, otherwise=EVERY_PARTITION)


@dataclass(frozen=True, slots=True)
class Quotas:
    """Both roles' quotas as they hold now."""

    leader: RoleQuota = field(default_factory=RoleQuota)
    follower: RoleQuota = field(default_factory=RoleQuota)
    enforce: bool = True
    """False: observe only, count what would be withheld."""
    hash: str = ""
    """Short SHA-256 of the file's bytes."""
    next_change: datetime | None = None
    """The earliest `until` still ahead: when to work this out again."""

    def of(self, role: Role) -> RoleQuota:
        return self.leader if role is Role.LEADER else self.follower


def effective(quota_file: QuotaFile, broker_id: int, now: datetime) -> Quotas:
    """The quotas of one broker; `now` carries an offset."""
    ends = [section.until for section in quota_file.sections() if section.until is not None]
    return Quotas(
        leader=_role_quota(quota_file, Role.LEADER, broker_id=broker_id, now=now),
        follower=_role_quota(quota_file, Role.FOLLOWER, broker_id=broker_id, now=now),
        enforce=quota_file.enforce,
        hash=quota_file.hash,
        next_change=min((until for until in ends if until > now), default=None),
    )


def broker_sections(quota_file: QuotaFile, broker_id: int, now: datetime) -> tuple[Section, ...]:
    """The sections that hold for this broker, the more specific first."""
    candidates = (quota_file.brokers.get(broker_id), quota_file.broker_default)
    return tuple(section for section in candidates if section is not None and section.holds(now))


def _role_quota(quota_file: QuotaFile, role: Role, *, broker_id: int, now: datetime) -> RoleQuota:
    sections = broker_sections(quota_file, broker_id, now)

    def listed(section: Section) -> Partitions | None:
        replicas = section.replicas.get(role) if section.holds(now) else None
        return None if replicas is None else replicas.partitions_on(broker_id)

    return RoleQuota(
        bytes_per_second=next((s.rates[role] for s in sections if role in s.rates), math.inf),
        topics=dict(_with_a_list(quota_file.topics.items(), listed)),
        globs=tuple(_with_a_list(quota_file.globs, listed)),
        otherwise=next((p for p in map(listed, sections) if p is not None), NO_PARTITION),
    )


def _with_a_list(
    named: Iterable[tuple[str, Section]], listed: Callable[[Section], Partitions | None]
) -> Iterable[tuple[str, Partitions]]:
    for name, section in named:
        partitions = listed(section)
        if partitions is not None:
            yield name, partitions
