"""What a cluster says of itself, as values. Pure; knows nobody who asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reassignment import Ongoing, TopicPartition

    Sizes = Mapping[tuple[int, TopicPartition], int]
    """Bytes on disk by broker and partition."""

BROKER_KEYS = (
    "leader.replication.throttled.rate",
    "follower.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
)
"""What kafka-reassign-partitions sets on brokers, and its --verify takes back."""
TOPIC_KEYS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")


class PartitionState(NamedTuple):
    """leader: None while there is none."""

    leader: int | None
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


class ClusterView(NamedTuple):
    """One look at a cluster.

    partitions: of the topics asked for; those that do not exist are missing.
    ongoing: every reassignment under way; None if the brokers cannot tell (before 2.4, KIP-455).
    sizes: of those partitions' replicas; empty if the brokers did not say.
    brokers: that are alive.
    """

    partitions: Mapping[TopicPartition, PartitionState]
    ongoing: Mapping[TopicPartition, Ongoing] | None
    sizes: Sizes
    brokers: frozenset[int]


class NativeThrottle(NamedTuple):
    """A dynamic config of the broker's own quota that is set.

    name: of the topic, or id of the broker; empty for every broker's default.
    """

    kind: Literal["topic", "broker"]
    name: str
    key: str
    value: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name or 'default'}: {self.key} = {self.value or '(empty)'}"
