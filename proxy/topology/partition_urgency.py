"""Ranks partitions by need: how urgent it is that a replica of theirs that is behind catches up.

A broker tells how many replicas of a partition are in sync (`cluster.questions`); the quotas' priorities give it its
meaning. Shared by both roles, since it is the same cluster. Pure: time is an argument.

Invariant: a partition of which no broker has told has no urgency; what is remembered is bounded, and of topics alone
that are behind.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..quotas.priorities import Need, Priorities

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from protocol.metadata import ReplicaCount
    from protocol.session.requests import PartitionKey
    from protocol.wire.topics import Topic

    from .topic_names import TopicNames

AGAIN_SECONDS = 3.0
"""The age of a broker's answer about a topic at which the broker is asked again."""
MAX_TOPICS = 2_000
"""The most topics whose partitions are looked at; replicas of others are of no urgency."""
MAX_PARTITIONS = 100_000
"""The most partitions in need that are remembered."""


class PartitionUrgency:
    """The partitions that lack replicas in sync; one per process, for both roles."""

    def __init__(self, names: TopicNames) -> None:
        self._names = names
        self.priorities = Priorities()
        self._told: dict[Topic, Mapping[int, ReplicaCount]] = {}
        self._asked_at: dict[Topic, float] = {}
        """The time at which each topic was last asked for of which some replica is behind; minus infinity: never."""
        self._of_topics: dict[Topic, int] = {}
        self._of_partitions: dict[PartitionKey, int] = {}
        self._of_topic: dict[Topic, list[PartitionKey]] = {}
        """The partitions of `known`, by topic: an answer about a topic costs nothing for the others."""
        self.known: dict[PartitionKey, Need] = {}
        """The partitions in need; of all others nothing is missing, or no broker has told."""
        self.is_any = False
        """True if any partition is urgent; if not, all replicas are alike."""

    def apply(self, priorities: Priorities) -> None:
        """Put priorities in force."""
        if priorities != self.priorities:
            self.priorities = priorities
            self._work_out()

    def urgency_of(self, key: PartitionKey) -> int:
        """Return the replica's urgency: replicas with a greater one go first; 0 is none."""
        return max(self._of_partitions.get(key, 0), self._of_topics.get(key[0], 0))

    def look(self, behind: Iterable[Topic]) -> None:
        """Record all topics of which some replica is behind now."""
        wanted = dict.fromkeys(behind)
        for topic in self._asked_at.keys() - wanted.keys():
            del self._asked_at[topic]
            self._told.pop(topic, None)
            self._take(topic)
        for topic in wanted:
            if topic not in self._asked_at and len(self._asked_at) < MAX_TOPICS:
                self._asked_at[topic] = -math.inf
        self._name_topics()

    def due(self, now: float) -> list[Topic]:
        """Return the topics to ask a broker for now, the one that was asked for longest ago first."""
        if not self.priorities.asks_who_is_in_sync:
            return []
        due = [topic for topic, asked_at in self._asked_at.items() if now - asked_at >= AGAIN_SECONDS]
        return sorted(due, key=self._asked_at.__getitem__)

    def learn(
        self, told: Mapping[Topic, Mapping[int, ReplicaCount]] | None, asked: Collection[Topic], now: float
    ) -> None:
        """Record a broker's answer about the topics that it was asked for; None: no broker answered."""
        for topic in asked:
            if topic in self._asked_at:
                self._asked_at[topic] = now
                self._told.pop(topic, None)
                if told is not None and topic in told:
                    self._told[topic] = told[topic]
                self._take(topic)
        self._name_topics()

    def _work_out(self) -> None:
        """Work out the need of every known partition anew, since the priorities have changed."""
        for topic in tuple(self._of_topic):
            self._take(topic)
        self._name_topics()

    def _take(self, topic: Topic) -> None:
        """Work out the needs of a topic's partitions anew, from a broker's last answer about it."""
        for key in self._of_topic.pop(topic, ()):
            self._of_partitions.pop(key, None)
            self.known.pop(key, None)
        partitions = self._told.get(topic)
        if partitions is None:
            return
        priorities, found = self.priorities, self._of_topic.setdefault(topic, [])
        fewest = min((each.replicas for each in partitions.values()), default=0)
        for partition, has in partitions.items():
            need = priorities.need_of(has, fewest)
            urgency = priorities.urgency_of_need(need)
            if (need is Need.MOVES and not urgency) or len(self.known) >= MAX_PARTITIONS:
                continue
            key = (topic, partition)
            found.append(key)
            self.known[key] = need
            if urgency:
                self._of_partitions[key] = urgency

    def _name_topics(self) -> None:
        """Look for names of ids, which become known later."""
        priorities = self.priorities
        self._of_topics = {}
        if any(not isinstance(each, Need) for each in priorities.order):
            named = ((topic, priorities.urgency_of_topic(self._name(topic))) for topic in self._asked_at)
            self._of_topics = {topic: urgency for topic, urgency in named if urgency}
        self.is_any = bool(self._of_topics or self._of_partitions)

    def _name(self, topic: Topic) -> str:
        """Return the topic's name, empty while it is not known. No entry of the order fits the empty name, except a
        glob that fits every name."""
        return topic if isinstance(topic, str) else self._names.of(topic) or ""
