"""Maps topic ids to names: Fetch names no topic since v13 (KIP-516), lists of throttled replicas know no ids.

A broker is asked for the name (`cluster.questions`) when a request has an id that is not known: the topic is
new, or was deleted and created again. Lists that name no topic (`*`) need no names. Until the answer comes, a topic
counts as listed, so that a move does not begin with an unthrottled response of 10 MiB; if no name comes, the topic
passes unthrottled and is counted. Pure: time is an argument.

Invariants: an id that no broker knew is asked for at most once per `AGAIN_SECONDS`, and at most `MAX_AT_ONCE` ids are
asked for at once; the cache is bounded, whatever ids a follower makes up.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from protocol.metadata import NO_ID

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

MAX_UNKNOWN = 10_000
"""The most ids remembered that have no name, since followers may make up as many as they like."""
MAX_AT_ONCE = 2_000
"""The most ids in one question, which is 32 kB then."""
MAX_NAMES = 200_000
"""The most names remembered; with one more, all are forgotten and asked for again. Kafka's largest clusters have some
ten thousand topics."""
AGAIN_SECONDS = 5.0
"""Seconds from a question in vain until an id may be asked for again: its topic may have been made a moment ago."""


class TopicNames:
    """Names by topic id. `generation` grows whenever a name becomes known, or turns out not to be had."""

    def __init__(self) -> None:
        self.generation = 0
        self.unnamed = 0
        """The number of ids for which no broker had a name; each counts once."""
        self._names: dict[bytes, str] = {}
        self._awaited: set[bytes] = set()
        """Ids that requests had and no broker has been asked for yet."""
        self._without: dict[bytes, float] = {}
        """Ids that no broker had a name for, or none answered, each with the time of that. They are asked for again
        when a request has them again, and never count as listed: or they would be throttled now and then."""
        self._again: set[bytes] = set()
        """Ids of `_without` that requests have had again since."""
        self.wanted_more: Callable[[], None] = lambda: None
        """The callback for an id that is to be asked for; set by the part of the process that asks brokers."""

    def of(self, topic_id: bytes) -> str | None:
        """Return the topic's name; None if it is not known yet, in which case it is asked for."""
        name = self._names.get(topic_id)
        if name is None and topic_id not in self._awaited and len(self._awaited) < MAX_UNKNOWN and topic_id != NO_ID:
            (self._again if topic_id in self._without else self._awaited).add(topic_id)
            self.wanted_more()
        return name

    def is_awaited(self, topic_id: bytes) -> bool:
        """True if the name has been or will be asked for, and no broker has answered yet."""
        return topic_id in self._awaited

    def known(self, topic_id: bytes) -> str | None:
        """Return the name if it is known; it is not asked for."""
        return self._names.get(topic_id)

    @property
    def has_awaited(self) -> bool:
        """True: there are ids that are to be asked for at once."""
        return bool(self._awaited)

    def wanted(self, now: float) -> list[bytes]:
        """Return the ids to ask for next: those never asked for first, then those whose time has come again."""
        due = [each for each in self._again if now - self._without.get(each, now) >= AGAIN_SECONDS]
        self._again.clear()
        return [*self._awaited, *due][:MAX_AT_ONCE]

    def learn(self, names: Mapping[bytes, str] | None, asked: Collection[bytes] = (), now: float = 0.0) -> None:
        """Record a broker's answer about the ids in `asked`; `names` None: no broker answered."""
        found = {} if names is None else names
        in_vain = [each for each in asked if each not in found]
        missed = [each for each in in_vain if each in self._awaited]
        self.unnamed += len(missed)
        if missed or any(self._names.get(each) != name for each, name in found.items()):
            self.generation += 1
        if len(self._names) + len(found) > MAX_NAMES:
            self._names.clear()
        self._names.update(found)
        if len(self._without) + len(in_vain) > MAX_UNKNOWN:
            self._without.clear()
        self._without |= dict.fromkeys(in_vain, now)
        for each in found:
            self._without.pop(each, None)
        self._awaited.difference_update(asked, found)


def written(topic: str | bytes) -> str:
    """Return a topic for people: its name, or its id as Kafka's tools write ids (base64url without padding)."""
    return topic if isinstance(topic, str) else base64.urlsafe_b64encode(topic).rstrip(b"=").decode()
