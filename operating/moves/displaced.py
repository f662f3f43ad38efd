"""Which standing lists of throttled replicas the lists of a move take the place of.

Of one topic one list counts: an exact one goes before a glob's and before a broker's. So the exact list of a move,
which names what is moved, takes the topic out of a standing `*`, on every broker, and takes the place of the exact list
of another move of the same topic. Pure; time is an argument.
Invariant: a warning is told only of replicas that were throttled before and are not any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.quotas import effective
from proxy.quotas.globs import glob_of
from proxy.quotas.keys import quoted
from proxy.quotas.rules import governing
from proxy.roles import Role
from reassignment import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from proxy.quotas import QuotaFile, Quotas, RoleQuota
    from proxy.quotas.replicas import ReplicaList
    from reassignment import RoleName

    Topics = Mapping[RoleName, Collection[str]]
    """Of which the move has lists, by role."""

_MOST_NAMED = 3
_NO_BROKER = -1
"""Only `*` selects something on it."""
_OWN = "the list that topics."
_UNLISTED = 2**31 - 1
"""A partition that only `*` means: a list of single ones, as of another move, is nothing that stands."""


def displaced(
    before: QuotaFile, after: QuotaFile, listed: Topics, readers: Iterable[int], now: datetime
) -> Iterator[str]:
    """Yield a warning for each standing list that throttles less than before.

    Args:
        before: the file without the move.
        after: the file with it.
        listed: the topics of which the move has lists.
        readers: brokers that are known to read the file.
        now: with an offset.
    """
    meant = _meant(before, after, {*readers, *before.base.brokers}, now)
    for role_name, topics in listed.items():
        role = Role(role_name)
        less: dict[str, list[str]] = {}
        for topic in topics:
            for broker, was, is_now in meant:
                if was.of(role).selects(topic, _UNLISTED) and not is_now.of(role).selects(topic, _UNLISTED):
                    less.setdefault(_list_of(before, was.of(role), topic, broker, role, now), []).append(topic)
                    break
        for name, taken in less.items():
            topics_told = _some(sorted(taken), "topic")
            told = f"{name} no longer throttles {topics_told} as {role_name}: the exact list of the move"
            if name.startswith(_OWN) and not any(_stands(after, topic, role) for topic in taken):
                yield (
                    f"{told} is written in its place, and when verify removes that, it does not come back (with --for "
                    "it would)"
                )
            else:
                yield (
                    f"{told} goes before it on every broker, and throttles only what it names, for as long as it stands"
                )


def dropped(
    before: QuotaFile,
    after: QuotaFile,
    listed: Topics,
    moved: Collection[TopicPartition],
    readers: Iterable[int],
    now: datetime,
) -> Iterator[str]:
    """Yield a warning for each topic and role of which single replicas, as of another move, were throttled before.

    Args:
        moved: what the move is about, and, where a cluster was asked, what moves already. Of these the newest word
            counts.
    """
    named = {broker for topics in listed.values() for topic in topics for broker in _brokers_listed(before, topic)}
    meant = _meant(before, after, {*readers, *before.base.brokers, *named}, now)
    for role_name, topics in listed.items():
        role = Role(role_name)
        for topic in sorted(topics):
            gone = [
                (partition, broker)
                for broker, was, is_now in meant
                for partition in was.of(role).partitions_of(topic).ids
                if TopicPartition(topic, partition) not in moved and not is_now.of(role).selects(topic, partition)
            ]
            if gone:
                told = _some([f"{partition}:{broker}" for partition, broker in sorted(gone)], "replica")
                yield (
                    f"topics.{quoted(topic)} throttled {told} as {role_name}, and does so no longer: if another move "
                    "has them, it is not throttled; plan both together, in one reassignment"
                )


def _meant(
    before: QuotaFile, after: QuotaFile, brokers: Iterable[int], now: datetime
) -> list[tuple[int, Quotas, Quotas]]:
    """What both files mean now to each of these brokers."""
    return [(broker, effective(before, broker, now), effective(after, broker, now)) for broker in sorted(brokers)]


def _brokers_listed(file: QuotaFile, topic: str) -> set[int]:
    """The brokers of which some list of the topic has a replica."""
    return {broker for role in Role for found in _lists(file, topic, role) for _, broker in found.entries}


def _stands(file: QuotaFile, topic: str, role: Role) -> bool:
    """Whether the file still has a list of all of the topic's partitions, that holds now or later."""
    return any(_UNLISTED in found.partitions_on(_NO_BROKER) for found in _lists(file, topic, role))


def _lists(file: QuotaFile, topic: str, role: Role) -> Iterator[ReplicaList]:
    """The exact lists of a topic, whenever they hold."""
    for layer in (file.base, *(schedule.layer for schedule in file.schedules)):
        found = layer.topics[topic].replicas.get(role) if topic in layer.topics else None
        if found is not None:
            yield found


def _list_of(file: QuotaFile, quota: RoleQuota, topic: str, broker: int, role: Role, now: datetime) -> str:
    """As messages name the list that counted for a topic."""
    if topic in quota.topics:
        return f"{_OWN}{quoted(topic)} had before"
    glob = next((glob for glob, _ in quota.globs if glob_of(glob).matches(topic)), None)
    if glob is not None:
        return f"topics.{quoted(glob)}"
    section = governing(file, broker, now, role, rate=False)
    return "another list" if section is None else section.path


def _some(names: Sequence[str], noun: str) -> str:
    """The first few of what is in order."""
    named = ", ".join(names[:_MOST_NAMED])
    more = len(names) - _MOST_NAMED
    return named if more <= 0 else f"{named} and {more} more {noun}{'s' if more > 1 else ''}"
