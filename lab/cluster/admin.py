"""The lab's administrator: topics, moves and native throttles, through kafka-python's admin client.

Brokers advertise names that only their own hosts files know; the client gets one too, see `lab.cluster.kafka_python`.
Every call blocks: use it from a thread under Trio.
Knows nothing of processes or sidecars. Invariant: an answer that carries an error code becomes a LabError.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..errors import LabError
from ..wire.identifiers import kafka_uuid
from .admin_client import POLL_SECONDS, TIMEOUT_MS, Asker, lab_error
from .kafka_python import (
    AlterConfigOp,
    ConfigResource,
    ConfigResourceType,
    ElectionType,
    KafkaError,
    OffsetSpec,
    TopicPartition,
)

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"

_DELETE_TIMEOUT_MS = 2_000
_AGREED_LOOKS = 5
"""How many looks in a row must show the wanted leaders: any broker may answer, and each hears of a new leader at its
own time."""

Assignment = Mapping[int, Sequence[int]]
"""The broker ids of each partition, the preferred leader first."""


@dataclass(frozen=True, slots=True)
class PartitionState:
    """The state of one partition, as the cluster tells it."""

    partition: int
    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


class Admin(Asker):
    """The requests that the lab makes of its brokers. Blocking."""

    def create_topic(self, topic: str, assignment: Assignment, *, configs: Mapping[str, str] | None = None) -> None:
        """Create a topic with exactly these replicas and wait until every partition has its leader."""
        options = {
            "assignments": {partition: list(replicas) for partition, replicas in assignment.items()},
            "configs": dict(configs or {}),
        }
        self._ask(
            f"creating topic {topic}",
            lambda client: client.create_topics({topic: options}, timeout_ms=TIMEOUT_MS, wait_for_metadata=True),
        )
        # Metadata names a leader before that broker knows that it leads: wait until each leader answers for its
        # partitions.
        self.end_offsets(topic, assignment)

    def delete_topic(self, topic: str) -> None:
        self._ask(f"deleting topic {topic}", lambda client: client.delete_topics([topic], timeout_ms=TIMEOUT_MS))

    def describe(self, topic: str) -> list[PartitionState]:
        """Return leader, replicas and in-sync replicas of each partition, by partition."""
        described = self._ask(f"describing topic {topic}", lambda client: client.describe_topics([topic]))
        states = [
            PartitionState(p["partition_index"], p["leader_id"], tuple(p["replica_nodes"]), tuple(p["isr_nodes"]))
            for p in described[0]["partitions"]
        ]
        return sorted(states, key=lambda state: state.partition)

    def topic_names(self) -> dict[str, str]:
        """Return topic names by topic id, as Kafka writes it (22 characters, KIP-516)."""
        described = self._ask("asking for topic ids", lambda client: client.describe_topics())
        return {kafka_uuid(uuid.UUID(topic["topic_id"])): topic["name"] for topic in described}

    def upgrade_metadata(self, level: int) -> None:
        """Raise `metadata.version`, which KRaft brokers apply at once: followers then send another Fetch version.

        Args:
            level: feature level, such as 21 for 3.9-IV0.

        Raises:
            LabError: the controller refused.
        """
        self._ask(
            f"upgrading metadata.version to {level}",
            lambda client: client.update_features({"metadata.version": level}, timeout_ms=TIMEOUT_MS),
        )

    def reassign(self, topic: str, assignment: Assignment | Mapping[int, None]) -> None:
        """Start moving partitions to these replicas; None as replicas cancels (KIP-455)."""
        wanted = {
            TopicPartition(topic, partition): None if replicas is None else list(replicas)
            for partition, replicas in assignment.items()
        }
        answers = self._ask(
            f"reassigning {topic}",
            lambda client: client.alter_partition_reassignments(wanted, timeout_ms=TIMEOUT_MS),
        )
        refused = {f"{p.topic}-{p.partition}": error.__name__ for p, error in answers.items() if error}
        if refused:
            raise LabError(f"the controller refused to reassign: {refused}")

    def moving(self, topic: str, partitions: Iterable[int]) -> list[int]:
        """Return the partitions whose reassignment has not finished."""
        asked = {topic: list(partitions)}
        ongoing = self._ask("listing reassignments", lambda client: client.list_partition_reassignments(asked))
        return sorted(place.partition for place in ongoing)

    def wait_moved(
        self,
        topic: str,
        partitions: Sequence[int],
        *,
        timeout_seconds: float,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """Wait for reassignments to finish, telling `progress` how many partitions are left.

        Raises:
            LabError: they did not in time.
        """
        deadline = time.monotonic() + timeout_seconds
        while left := self.moving(topic, partitions):
            if progress:
                progress(len(left))
            if time.monotonic() > deadline:
                raise LabError(f"{topic}: partitions {left} still move after {timeout_seconds:g} s")
            time.sleep(POLL_SECONDS)
        if progress:
            progress(0)

    def wait_in_sync(self, topic: str, *, timeout_seconds: float) -> None:
        """Wait until every replica of every partition is in sync. Raises LabError if they are not in time."""
        deadline = time.monotonic() + timeout_seconds
        while behind := [s for s in self.describe(topic) if set(s.in_sync) != set(s.replicas)]:
            if time.monotonic() > deadline:
                raise LabError(f"{topic}: not in sync after {timeout_seconds:g} s: {behind}")
            time.sleep(POLL_SECONDS)

    def set_broker_configs(self, brokers: Iterable[int], configs: Mapping[str, str | None]) -> None:
        """Set dynamic broker configs; None deletes one."""
        self._alter(ConfigResourceType.BROKER, [str(broker) for broker in brokers], configs)

    def set_topic_configs(self, topic: str, configs: Mapping[str, str | None]) -> None:
        """Set topic configs; None deletes one."""
        self._alter(ConfigResourceType.TOPIC, [topic], configs)

    def end_offsets(self, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        """Return the leader's high watermark of each partition."""
        return self._offsets(topic, partitions, OffsetSpec.LATEST)

    def start_offsets(self, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        """Return the log start offset of each partition."""
        return self._offsets(topic, partitions, OffsetSpec.EARLIEST)

    def replica_sizes(self, topic: str, brokers: Iterable[int]) -> dict[tuple[int, int], int]:
        """Return the bytes on disk (DescribeLogDirs) by (broker, partition)."""
        asked = list(brokers)
        answers = self._ask("describing log dirs", lambda client: client.describe_log_dirs([topic], brokers=asked))
        return {
            (answer["broker"], partition["partition_index"]): partition["partition_size"]
            for answer in answers
            for log_dir in answer["log_dirs"]
            for found in log_dir["topics"]
            if found["name"] == topic
            for partition in found["partitions"]
        }

    def elect_preferred_leaders(self, topic: str, leaders: Mapping[int, int], *, timeout_seconds: float = 20.0) -> None:
        """Make each of these brokers, the first replica of its partition, the leader. The election is asked for again
        until all looks agree: a broker may not be known yet to be in sync, or to be the first replica.

        Raises:
            LabError: they did not come to lead in time.
        """
        deadline = time.monotonic() + timeout_seconds
        agreed = 0
        self._elect(topic, leaders)
        while agreed < _AGREED_LOOKS:
            others = [s for s in self.describe(topic) if s.leader != leaders.get(s.partition, s.leader)]
            agreed = 0 if others else agreed + 1
            if others and time.monotonic() > deadline:
                raise LabError(f"{topic}: other leaders than wanted after {timeout_seconds:g} s: {others}")
            time.sleep(POLL_SECONDS)
            if others:
                self._elect(topic, leaders)

    def _elect(self, topic: str, partitions: Iterable[int]) -> None:
        asked = {topic: list(partitions)}
        self._ask(
            f"electing leaders of {topic}",
            lambda client: client.elect_leaders(ElectionType.PREFERRED, asked, raise_errors=False),
        )

    def delete_records(self, topic: str, before: Mapping[int, int]) -> None:
        """Raise the log start offset of each partition to the given offset.

        The leader deletes at once, but answers only when its followers have deleted, too. Below Fetch v5 (inter-broker
        protocol 0.11) they cannot tell it. So what counts is where the log starts.
        """
        places = {TopicPartition(topic, partition): offset for partition, offset in before.items()}
        try:
            self._ask(
                f"deleting records of {topic}",
                lambda client: client.delete_records(places, timeout_ms=_DELETE_TIMEOUT_MS),
            )
        except LabError:
            starts = self.start_offsets(topic, before)
            if any(starts[partition] < offset for partition, offset in before.items()):
                raise

    def _offsets(self, topic: str, partitions: Iterable[int], spec: object) -> dict[int, int]:
        """Ask for offsets, again and again while an answer may still come: a leader that has just been elected does not
        know its high watermark yet and says so (KIP-207), and a new one may not even know that it leads."""
        places = {TopicPartition(topic, partition): spec for partition in partitions}
        deadline = time.monotonic() + TIMEOUT_MS / 1000
        while True:
            try:
                found = self._client.list_partition_offsets(places)
            except (KafkaError, OSError) as error:
                if not getattr(error, "retriable", False) or time.monotonic() > deadline:
                    raise lab_error(f"asking for offsets of {topic}", error) from error
                time.sleep(POLL_SECONDS)
            else:
                return {place.partition: answer.offset for place, answer in found.items()}

    def _alter(self, kind: object, names: Iterable[str], configs: Mapping[str, str | None]) -> None:
        changes = {
            key: (AlterConfigOp.DELETE, None) if value is None else (AlterConfigOp.SET, value)
            for key, value in configs.items()
        }
        resources = [ConfigResource(kind, name, dict(changes)) for name in names]
        self._ask(
            f"setting {', '.join(configs)}", lambda client: client.alter_configs(resources, raise_on_unknown=False)
        )


def wait_end_offsets(admin: Admin, topic: str, reached: Mapping[int, int], *, timeout_seconds: float) -> dict[int, int]:
    """Wait until the high watermark of each partition has reached these offsets. A new leader knows what is committed
    only when its followers have fetched from it, even if it was in sync all the time (KIP-207).

    Raises:
        LabError: it had not in time.
    """
    deadline = time.monotonic() + timeout_seconds
    while True:
        found = admin.end_offsets(topic, reached)
        if all(found[partition] >= offset for partition, offset in reached.items()):
            return found
        if time.monotonic() > deadline:
            raise LabError(f"{topic}: high watermarks {found}, not {dict(reached)}, after {timeout_seconds:g} s")
        time.sleep(POLL_SECONDS)
