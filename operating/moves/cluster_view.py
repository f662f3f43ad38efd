"""The state of a cluster, as values. Pure; knows no command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reassignment import Ongoing, TopicPartition

    Sizes = Mapping[tuple[int, TopicPartition], int]
    """Bytes on disk by broker and partition."""

LOG_DIR_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
BROKER_KEYS = ("leader.replication.throttled.rate", "follower.replication.throttled.rate", LOG_DIR_RATE)
"""The configs that kafka-reassign-partitions sets on brokers, and its --verify takes back."""
TOPIC_KEYS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")


class PartitionState(NamedTuple):
    """The replicas of a partition. leader: None while there is none."""

    leader: int | None
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


class LogDirectory(NamedTuple):
    """A log directory in which a broker has a replica.

    path: of the log directory; empty if nothing but a copy is there.
    copied_bytes: the size of the copy that the broker is making in another directory; None if it makes none.
    """

    path: str
    copied_bytes: int | None = None


class ClusterView(NamedTuple):
    """One look at a cluster.

    partitions: of the topics asked for; those that do not exist are missing.
    ongoing: every reassignment under way; None if the brokers cannot tell (before 2.4, KIP-455).
    sizes: of those partitions' replicas; empty if the brokers did not say.
    brokers: that are alive.
    directories: of those partitions' replicas, by broker and partition; empty if the brokers did not say.
    """

    partitions: Mapping[TopicPartition, PartitionState]
    ongoing: Mapping[TopicPartition, Ongoing] | None
    sizes: Sizes
    brokers: frozenset[int]
    directories: Mapping[tuple[int, TopicPartition], LogDirectory] = {}


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


class NativeConfigs(NamedTuple):
    """The throttles that brokers show of their own.

    throttles: that are set on topics and brokers.
    answered: the brokers that showed theirs.
    copying: brokers that copy any replica between their disks, or do not tell, of those for which it was asked; each
        with the words for it.
    """

    throttles: tuple[NativeThrottle, ...] = ()
    answered: frozenset[int] = frozenset()
    copying: Mapping[int, str] = {}
