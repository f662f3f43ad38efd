"""Which replicas the lists of one role select, whatever its requests call their topics: names, or ids since Fetch v13.

Pure. Invariant: while the name of a topic id is awaited, the topic counts as listed; without one it does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..quotas.rules import METADATA_TOPIC_ID
from .topic_names import written

if TYPE_CHECKING:
    from protocol.session.requests import PartitionKey

    from ..quotas.rules import RoleQuota
    from .topic_names import TopicNames


class Selection:
    """Of one role; `names` may be shared with the other one."""

    def __init__(self, quota: RoleQuota, names: TopicNames) -> None:
        self.names = names
        self._quota = quota
        self._lists = 0

    def apply(self, quota: RoleQuota) -> None:
        """The lists of `quota` select from now on."""
        if quota.listed() != self._quota.listed():
            self._lists += 1
        self._quota = quota

    @property
    def generation(self) -> tuple[int, int]:
        """Changes whenever other partitions are throttled than before."""
        return self._lists, self.names.generation

    def selects(self, key: PartitionKey) -> bool:
        """Whether the lists of this broker and role name this partition: of a topic whose name is awaited they may."""
        topic, partition = key
        if isinstance(topic, str):
            return self._quota.selects(topic, partition)
        if topic == METADATA_TOPIC_ID:
            return False
        if not self._quota.names_topics:
            return partition in self._quota.otherwise
        name = self.names.of(topic)
        return self.names.is_awaited(topic) if name is None else self._quota.selects(name, partition)

    def selects_any_of(self, topic: str | bytes) -> bool:
        if isinstance(topic, str):
            return bool(self._quota.partitions_of(topic))
        if not self._quota.names_topics:
            return topic != METADATA_TOPIC_ID and bool(self._quota.otherwise)
        name = self.names.known(topic)
        return self.names.is_awaited(topic) if name is None else bool(self._quota.partitions_of(name))

    def topic_name(self, topic: str | bytes) -> str:
        """For people and the journal: the topic's name, or its id until that is known."""
        name = topic if isinstance(topic, str) else self.names.of(topic)
        return written(topic) if name is None else name
