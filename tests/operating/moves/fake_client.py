"""Stands in for kafka-python's admin client: the same calls, answers as real brokers gave them, kept in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kafka.errors import KafkaError, NodeNotReadyError, NoReassignmentInProgressError

from operating.client.kafka_python import AlterConfigOp, ConfigResourceType

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_KINDS = {ConfigResourceType.TOPIC: "topic", ConfigResourceType.BROKER: "broker"}


class Place(NamedTuple):
    """As kafka.TopicPartition."""

    topic: str
    partition: int


class FakeClient:
    """A cluster of brokers 101 to 104.

    Args:
        partitions: (topic, partition) -> (leader, replicas, in sync); leader -1 for none.
        ongoing: (topic, partition) -> (replicas, adding, removing).
        sizes: (broker, topic, partition) -> bytes, in directory /a.
        copies: (broker, topic, partition) -> bytes so far, of copies that are being made in directory /b.
        configs: (kind, name, key) -> (value, source).
        errors: method -> what it raises.
    """

    def __init__(
        self,
        partitions: Mapping[tuple[str, int], tuple[int, list[int], list[int]]],
        *,
        ongoing: Mapping[tuple[str, int], tuple[list[int], list[int], list[int]]] | None = None,
        sizes: Mapping[tuple[int, str, int], int] | None = None,
        copies: Mapping[tuple[int, str, int], int] | None = None,
        configs: Mapping[tuple[str, str, str], tuple[str, str]] | None = None,
        errors: Mapping[str, Exception] | None = None,
    ) -> None:
        self.partitions, self.ongoing, self.sizes = dict(partitions), dict(ongoing or {}), dict(sizes or {})
        self.copies = dict(copies or {})
        self.configs = dict(configs or {})
        self.brokers = [101, 102, 103, 104, 105]
        self.errors = dict(errors or {})
        self.log_dir_error = self.topic_error = 0
        self.silent: set[int] = set()
        """Brokers that cannot be asked themselves, as behind a dead sidecar."""
        self.refusal = "OK"
        self.refused: dict[tuple[str, int], type[KafkaError]] = {}
        """Partitions whose reassignment the controller refuses."""
        self.closed = False
        self.hosts = ["127.0.0.1"]

    def advertised_hosts(self) -> list[str]:
        return self.hosts

    def _ask(self, method: str) -> None:
        if method in self.errors:
            raise self.errors[method]

    def describe_topics(self, topics: list[str] | None) -> list[dict[str, Any]]:
        self._ask("describe_topics")
        names = sorted({topic for topic, _ in self.partitions}) if topics is None else topics
        return [
            {
                "error_code": self.topic_error,
                "name": name,
                "partitions": [
                    {"partition_index": n, "leader_id": leader, "replica_nodes": replicas, "isr_nodes": in_sync}
                    for (topic, n), (leader, replicas, in_sync) in self.partitions.items()
                    if topic == name
                ],
            }
            for name in names
        ]

    def describe_cluster(self) -> dict[str, Any]:
        self._ask("describe_cluster")
        return {"brokers": [{"broker_id": n, "is_fenced": n == 105} for n in self.brokers]}

    def list_partition_reassignments(self) -> dict[Place, dict[str, list[int]]]:
        self._ask("list_partition_reassignments")
        names = ("replicas", "adding_replicas", "removing_replicas")
        return {Place(*place): dict(zip(names, move, strict=True)) for place, move in self.ongoing.items()}

    def alter_partition_reassignments(
        self, targets: Mapping[tuple[str, int], Sequence[int] | None]
    ) -> dict[Place, type[KafkaError] | None]:
        """As a controller: each partition by itself; a target of the same replicas is reached at once."""
        self._ask("alter_partition_reassignments")
        return {Place(*partition): self._reassign(partition, target) for partition, target in targets.items()}

    def _reassign(self, partition: tuple[str, int], target: Sequence[int] | None) -> type[KafkaError] | None:
        if target is not None and partition in self.refused:
            return self.refused[partition]
        if target is None and partition not in self.ongoing:
            return NoReassignmentInProgressError
        leader, replicas, in_sync = self.partitions[partition]
        if target is None:
            replicas, adding, _ = self.ongoing.pop(partition)
            kept = [each for each in replicas if each not in adding]
            self.partitions[partition] = (leader, kept, [each for each in in_sync if each in kept])
            return None
        adding = [each for each in target if each not in replicas]
        removing = [each for each in replicas if each not in target]
        if adding:
            self.ongoing[partition] = ([*target, *removing], adding, removing)
            self.partitions[partition] = (leader, [*target, *removing], in_sync)
        else:
            self.partitions[partition] = (leader, list(target), [each for each in in_sync if each in target])
        return None

    def complete(self) -> None:
        """Let every reassignment under way end: all replicas have all data."""
        for partition, (replicas, _, removing) in self.ongoing.items():
            leader, _, _ = self.partitions[partition]
            target = [each for each in replicas if each not in removing]
            self.partitions[partition] = (leader if leader in target else target[0], target, target)
            size = self.sizes.get((leader, *partition), 0)
            self.sizes |= {(broker, *partition): size for broker in target}
        self.ongoing = {}

    def describe_log_dirs(self, topics: Mapping[str, list[int]] | None, brokers: list[int]) -> list[dict[str, Any]]:
        self._ask("describe_log_dirs")
        if silent := self.silent.intersection(brokers):
            raise NodeNotReadyError(f"NodeNotReadyError: {min(silent)}")
        return [
            {
                "broker": broker,
                "log_dirs": [
                    self._log_dir(broker, "/a", self.sizes, topics),
                    self._log_dir(broker, "/b", self.copies, topics),
                ],
            }
            for broker in brokers
        ]

    def _log_dir(
        self, broker: int, path: str, logs: Mapping[tuple[int, str, int], int], asked: Mapping[str, list[int]] | None
    ) -> dict[str, Any]:
        mine = {(topic, n): size for (where, topic, n), size in logs.items() if where == broker}
        topics = [
            {
                "name": topic,
                "partitions": [
                    {"partition_index": n, "partition_size": size, "is_future_key": logs is self.copies}
                    for (name, n), size in mine.items()
                    if name == topic and (asked is None or n in asked.get(topic, ()))
                ],
            }
            for topic in sorted({name for name, _ in mine})
        ]
        return {"error_code": self.log_dir_error, "log_dir": path, "topics": topics}

    def describe_configs(self, resources: Iterable[Any]) -> dict[str, dict[str, dict[str, Any]]]:
        self._ask("describe_configs")
        answer: dict[str, dict[str, dict[str, Any]]] = {}
        for resource in resources:
            kind = _KINDS[resource.resource_type]
            answer.setdefault(kind, {})[resource.name] = {
                key: {"value": value, "config_source": source}
                for (found, name, key), (value, source) in self.configs.items()
                if found == kind and name in (resource.name, "") and key in resource.configs
            }
        return answer

    def alter_configs(self, resources: Iterable[Any], raise_on_unknown: bool) -> dict[str, dict[str, str]]:
        self._ask("alter_configs")
        answer: dict[str, dict[str, str]] = {}
        for resource in resources:
            kind = _KINDS[resource.resource_type]
            for key, (operation, value) in resource.configs.items():
                if self.refusal == "OK":
                    _, source = self.configs.pop((kind, resource.name, key))
                    if operation is AlterConfigOp.SET:
                        self.configs[kind, resource.name, key] = (value, source)
            answer.setdefault(kind, {})[resource.name] = self.refusal
        return answer

    def close(self) -> None:
        self.closed = True
