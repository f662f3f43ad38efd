"""Selects replicas by the lists of one role, whatever its requests call their topics: names, or ids since Fetch v13.

Pure. Invariant: while the name of a topic id is awaited, the topic counts as listed; without one it does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..quotas.rules import METADATA_TOPIC_ID
from ..topology.topic_names import written

if TYPE_CHECKING:
    from protocol.session.requests import PartitionKey

    from ..quotas.rules import RoleQuota
    from ..topology.topic_names import TopicNames

MAX_FREE_TOPICS = 5_000
"""The most topics of a connection that are remembered as free; with one more, remembering starts again."""


class ReplicaLists:
    """The lists of one role, kept from snapshot to snapshot of the quotas until they change. A value, except that
    brokers tell the names of topic ids later."""

    __slots__ = ("_names", "_quota")

    def __init__(self, quota: RoleQuota, names: TopicNames) -> None:
        self._quota = quota
        self._names = names

    def selects(self, key: PartitionKey) -> bool:
        """True if the lists of this broker and role select the partition.

        So do they for now if its topic's name is awaited.
        """
        topic, partition = key
        quota, names = self._quota, self._names
        if isinstance(topic, str):
            return quota.selects(topic, partition)
        if topic == METADATA_TOPIC_ID:
            return False
        if not quota.names_topics:
            return partition in quota.otherwise
        name = names.of(topic)
        return names.is_awaited(topic) if name is None else quota.selects(name, partition)

    def selects_any_of(self, topic: str | bytes) -> bool:
        quota, names = self._quota, self._names
        if isinstance(topic, str):
            return bool(quota.partitions_of(topic))
        if not quota.names_topics:
            return topic != METADATA_TOPIC_ID and bool(quota.otherwise)
        name = names.known(topic)
        return names.is_awaited(topic) if name is None else bool(quota.partitions_of(name))


class Selection:
    """The lists of one role as they are now. `names` may be shared with the other role."""

    def __init__(self, quota: RoleQuota, names: TopicNames) -> None:
        self.names = names
        self._quota = quota
        self.lists = ReplicaLists(quota, names)
        """The lists, replaced by another object whenever they change."""

    def apply(self, quota: RoleQuota) -> None:
        """Select by the lists of `quota` from now on."""
        if not quota.has_lists_of(self._quota):
            self.lists = ReplicaLists(quota, self.names)
        self._quota = quota

    def topic_name(self, topic: str | bytes) -> str:
        """Return the topic's name, or its id until the name is known, for people and the journal."""
        name = topic if isinstance(topic, str) else self.names.of(topic)
        return written(topic) if name is None else name


class ListedReplicasCache:
    """The partitions of one connection that the lists select, by the lists at the last `renew`.

    `free_topics`: topics of which no partition is selected, as far as they were looked up. To find a topic there costs
    less than to ask the lists.
    """

    __slots__ = ("_lists", "_names", "_names_known", "_selection", "free_topics")

    def __init__(self, selection: Selection) -> None:
        self._selection = selection
        self._names = selection.names
        self._names_known = self._names.generation
        self._lists = selection.lists
        self.free_topics: set[str | bytes] = set()

    def renew(self) -> bool:
        """Use the current lists; return True if they have changed, or names of topics have become known."""
        lists, names_known = self._selection.lists, self._names.generation
        if self._lists is lists and self._names_known == names_known:
            return False
        self._lists, self._names_known = lists, names_known
        self.free_topics.clear()
        return True

    def selects(self, key: PartitionKey) -> bool:
        if self._lists.selects(key):
            return True
        topic = key[0]
        if topic not in self.free_topics and not self._lists.selects_any_of(topic):
            if len(self.free_topics) >= MAX_FREE_TOPICS:
                self.free_topics.clear()
            self.free_topics.add(topic)
        return False
