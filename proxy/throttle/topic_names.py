"""What topic ids stand for: Fetch names no topic since v13 (KIP-516), lists of throttled replicas know no ids.

Names come from a broker (`network.topic_name_asking`) when an id is met that nobody knows: a topic is new, or was
deleted and made again. Lists that name no topic (`*`) need none of this. Until the answer comes, a topic counts as
listed, so that a move does not begin with a response of 10 MiB; if none comes, it passes unthrottled and is counted.
Pure: time is an argument.

Invariants: of one id of which no broker said anything it is asked at most once per `AGAIN_SECONDS`, and for at most
`MOST_AT_ONCE` ids at once; what is remembered is bounded, whatever ids a follower makes up.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from protocol.metadata import NO_ID

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

MOST_UNKNOWN = 10_000
MOST_AT_ONCE = 2_000
MOST_NAMES = 200_000
"""Kafka's largest clusters have some ten thousand topics; beyond so many names all are asked for anew."""
AGAIN_SECONDS = 5.0


class TopicNames:
    """Names by topic id. `generation` grows whenever there are new ones, or one that was awaited does not come."""

    def __init__(self) -> None:
        self.generation = 0
        self.unnamed = 0
        """Ids for which a broker was asked in vain; one that is asked for again is not counted again."""
        self._names: dict[bytes, str] = {}
        self._awaited: set[bytes] = set()
        """No broker has been asked since they were met."""
        self._without: dict[bytes, float] = {}
        """No broker had a name for them, or none answered, and when that was: asked for again when they are met, but
        awaited no more, or they would count as listed now and then."""
        self._again: set[bytes] = set()
        """Of those, who was met again since."""
        self.wanted_more: Callable[[], None] = lambda: None
        """Called when a name is wanted that was not; whoever asks brokers puts itself here."""

    def of(self, topic_id: bytes) -> str | None:
        """The topic's name; None if it is not known yet, in which case it is asked for."""
        name = self._names.get(topic_id)
        if name is None and topic_id not in self._awaited and len(self._awaited) < MOST_UNKNOWN and topic_id != NO_ID:
            (self._again if topic_id in self._without else self._awaited).add(topic_id)
            self.wanted_more()
        return name

    def is_awaited(self, topic_id: bytes) -> bool:
        """Its name is on its way, as far as anybody knows."""
        return topic_id in self._awaited

    def known(self, topic_id: bytes) -> str | None:
        """The name without asking, for people."""
        return self._names.get(topic_id)

    @property
    def has_awaited(self) -> bool:
        """Some are to be asked for at once."""
        return bool(self._awaited)

    def wanted(self, now: float) -> list[bytes]:
        """What is to be asked for next, those that are awaited first."""
        due = [each for each in self._again if now - self._without.get(each, now) >= AGAIN_SECONDS]
        self._again.clear()
        return [*self._awaited, *due][:MOST_AT_ONCE]

    def learn(self, names: Mapping[bytes, str] | None, asked: Collection[bytes] = (), now: float = 0.0) -> None:
        """Take what a broker says of the ids it was asked for; None if no broker says."""
        found = {} if names is None else names
        in_vain = [each for each in asked if each not in found]
        missed = [each for each in in_vain if each in self._awaited]
        self.unnamed += len(missed)
        if missed or any(self._names.get(each) != name for each, name in found.items()):
            self.generation += 1
        if len(self._names) + len(found) > MOST_NAMES:
            self._names.clear()
        self._names.update(found)
        if len(self._without) + len(in_vain) > MOST_UNKNOWN:
            self._without.clear()
        self._without |= dict.fromkeys(in_vain, now)
        for each in found:
            self._without.pop(each, None)
        self._awaited.difference_update(asked, found)


def written(topic: str | bytes) -> str:
    """A topic for people: its name, or its id as Kafka's tools write one (base64url without padding)."""
    return topic if isinstance(topic, str) else base64.urlsafe_b64encode(topic).rstrip(b"=").decode()
