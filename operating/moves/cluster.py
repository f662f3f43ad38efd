"""Asks a running cluster for facts that only its brokers know, and removes their own throttles. Hides kafka-python
behind our words.

kafka-python was chosen because it is the only Python client that lists reassignments (KIP-455); confluent-kafka and
aiokafka do not. It is imported together with this module, when `connect` is called at the latest, and never by the
sidecar. Blocking.
Invariant: whatever goes wrong is a ClusterError that names the question and the broker.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from proxy.errors import ClusterError, ConfigurationError
from proxy.files.reading import is_there
from reassignment import Ongoing, TopicPartition

from ..client.kafka_python import (
    AdminClient,
    AlterConfigOp,
    ConfigResource,
    ConfigResourceType,
    IncompatibleBrokerVersion,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    NoReassignmentInProgressError,
    TokenProvider,
    for_code,
    host_of,
    known_addresses,
    refused,
    unresolved,
)
from ..client.properties import usable_client_properties
from .cluster_view import BROKER_KEYS, TOPIC_KEYS, ClusterView, LogDirectory, NativeThrottle, PartitionState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from .native_throttle import NativeLeftover

_TIMEOUT_MS = 15_000
_MAX_TRIES = 5
_TOKENS = "sasl_oauth_token_provider"
_OFFLINE_LOG_DIR = 56
"""The error KAFKA_STORAGE_ERROR: one disk of the broker has failed; its other disks still answer."""
_MAY_BE_THERE = (-1, 29)
"""The errors UNKNOWN_SERVER_ERROR, TOPIC_AUTHORIZATION_FAILED: the broker does not tell about the topic, which may
exist all the same."""
_RESOURCES = {"topic": ConfigResourceType.TOPIC, "broker": ConfigResourceType.BROKER}
_SET_FOR_IT = ("DYNAMIC_TOPIC_CONFIG", "DYNAMIC_BROKER_CONFIG")
_SET_FOR_ALL = "DYNAMIC_DEFAULT_BROKER_CONFIG"


class Connection(NamedTuple):
    """The addresses and the login of a cluster.

    bootstrap: host:port, one or more.
    properties: Kafka's own client.properties, for TLS and SASL.
    hosts: a file like /etc/hosts for names that this machine cannot resolve.
    """

    bootstrap: tuple[str, ...]
    properties: Path | None = None
    hosts: Path | None = None


@contextmanager
def connect(connection: Connection) -> Iterator[Cluster]:
    """Yield a cluster for the length of a block.

    Raises ConfigurationError if one of the files is wrong, ClusterError if no broker answers.
    """
    # kafka-python raises its errors as well; its warnings would appear in the middle of a table.
    log = logging.getLogger("kafka")
    log.propagate = False
    log.addHandler(logging.NullHandler())
    where = ", ".join(connection.bootstrap)
    arguments = {} if connection.properties is None else usable_client_properties(connection.properties)
    tokens = arguments.get(_TOKENS)
    if tokens is not None:
        # The reason is reported here; kafka-python would only report that it could not log in.
        tokens.fetch()
        arguments[_TOKENS] = TokenProvider(tokens)
    if connection.hosts is not None:
        if not is_there(connection.hosts):
            raise ConfigurationError(
                f"{connection.hosts}: cannot be read: expected lines like those of /etc/hosts, found nothing there"
            )
        known_addresses(connection.hosts)
        arguments["proxy_url"] = connection.hosts.resolve().as_uri().replace("file", "hosts", 1)
    _refuse_unreachable(connection)
    why = _Why()
    log.addHandler(why)
    try:
        client = AdminClient(
            **{
                "client_id": "throttle-sidecar",
                "request_timeout_ms": _TIMEOUT_MS,
                "bootstrap_timeout_ms": _TIMEOUT_MS,
                **arguments,
                "bootstrap_servers": list(connection.bootstrap),
            }
        )
    except (KafkaError, OSError, ValueError) as error:
        raise ClusterError(f"{where}: no broker answers: {why.told or _said(error)}") from error
    finally:
        log.removeHandler(why)
    try:
        yield Cluster(client, connection.hosts)
    finally:
        client.close()


class _Why(logging.Handler):
    """Collects why connections failed. kafka-python writes that into its log, and raises only that the time was
    over."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._reasons: dict[str, None] = {}

    @property
    def told(self) -> str:
        """The reasons in one text, each once; empty if the log had none."""
        return "; ".join(self._reasons)

    def emit(self, record: logging.LogRecord) -> None:
        for error in record.args if isinstance(record.args, tuple) else ():
            if isinstance(error, Exception) and str(error) and not isinstance(error, KafkaTimeoutError):
                self._reasons[_said(error)] = None


def _refuse_unreachable(connection: Connection) -> None:
    """Raise ClusterError at once if none of the names resolves, or all addresses refuse: to ask the cluster would take
    `_TIMEOUT_MS`, and its error would say less."""
    names = [host_of(server) for server in connection.bootstrap]
    unknown = unresolved(names, connection.hosts)
    if unknown and set(unknown) == set(names):
        raise ClusterError(f"{', '.join(connection.bootstrap)}: {_not_resolved(unknown)}")
    if closed := refused(connection.bootstrap, connection.hosts):
        raise ClusterError(f"{', '.join(closed)}: no broker answers: connection refused")


def _not_resolved(names: Sequence[str]) -> str:
    what = "this name does" if len(names) == 1 else "these names do"
    return f"{what} not resolve on this machine: {', '.join(names)} (--hosts FILE can say their addresses)"


class Cluster:
    """Args: client: kafka-python's admin client; hosts: the file like /etc/hosts that it uses, for messages."""

    def __init__(self, client: Any, hosts: Path | None = None) -> None:
        self._client = client
        self._hosts = hosts

    def look(self, topics: Sequence[str]) -> ClusterView:
        """Return the state of these topics, and every reassignment under way. Raises ClusterError."""
        # First, so that one that ends meanwhile counts as under way, and not as one that nobody has started.
        ongoing = self._ongoing()
        partitions = self._partitions(topics)
        brokers = self._brokers()
        # Those that have something of it: of a large cluster the others would be asked for nothing, in turn.
        having = {broker for state in partitions.values() for broker in state.replicas}
        sizes, directories = self._logs(partitions, brokers & having)
        return ClusterView(partitions, ongoing, sizes, brokers, directories)

    def every_partition(self) -> dict[TopicPartition, PartitionState]:
        """Return the state of every partition of every topic. Raises ClusterError."""
        return self._partitions(None)

    def sizes(
        self, partitions: Iterable[TopicPartition], brokers: Iterable[int]
    ) -> dict[tuple[int, TopicPartition], int]:
        """Return bytes on disk by broker and partition (DescribeLogDirs); empty before Kafka 1.0. Raises
        ClusterError."""
        return self._logs(partitions, brokers)[0]

    def copying(self, brokers: Iterable[int]) -> dict[int, str]:
        """Return those of these brokers that copy any replica between their disks, or do not tell, with the words for
        it: what is not known is no reason to take a throttle away."""
        found = {}
        for broker in brokers:
            try:
                logs = list(self._describe_logs(None, [broker]))
            except ClusterError as error:
                found[broker] = f"does not tell whether it copies replicas between its disks ({error})"
            else:
                if any(partition.get("is_future_key", False) for _, _, partition, _ in logs):
                    found[broker] = "still copies replicas between its disks"
        return found

    def _logs(
        self, partitions: Iterable[TopicPartition], brokers: Iterable[int]
    ) -> tuple[dict[tuple[int, TopicPartition], int], dict[tuple[int, TopicPartition], LogDirectory]]:
        """Return size and directory by broker and partition."""
        asked: dict[str, list[int]] = {}
        for topic, number in partitions:
            asked.setdefault(topic, []).append(number)
        sizes: dict[tuple[int, TopicPartition], int] = {}
        paths: dict[tuple[int, TopicPartition], str] = {}
        copies: dict[tuple[int, TopicPartition], int] = {}
        for broker, topic, partition, path in self._describe_logs(asked, brokers) if asked else ():
            replica = (broker, TopicPartition(topic, partition["partition_index"]))
            # A copy on its way to another disk of the same broker.
            if partition.get("is_future_key", False):
                copies[replica] = partition["partition_size"]
            else:
                sizes[replica], paths[replica] = partition["partition_size"], path
        both = {replica: LogDirectory(paths.get(replica, ""), copies.get(replica)) for replica in paths | copies}
        return sizes, both

    def _describe_logs(
        self, asked: dict[str, list[int]] | None, brokers: Iterable[int]
    ) -> Iterator[tuple[int, str, dict[str, Any], str]]:
        """Yield broker, topic, the partition's log and the directory that it is in. `asked`: None for every topic. What
        a broker has that does not answer, as behind a dead sidecar, is left out; raises ClusterError if none answers.
        """
        answers, errors = [], list[ClusterError]()
        for broker in sorted(brokers):
            ask = partial(self._client.describe_log_dirs, asked, brokers=[broker])
            try:
                answers += self._ask("describing log dirs", ask, unsupported=[])
            except ClusterError as error:
                errors.append(error)
        if errors and not answers:
            raise errors[0]
        for answer in answers:
            for log_dir in answer["log_dirs"]:
                if _is_online(answer["broker"], log_dir):
                    for topic in log_dir["topics"]:
                        for partition in topic["partitions"]:
                            yield answer["broker"], topic["name"], partition, log_dir["log_dir"]

    def throttles(self, topics: Iterable[str], brokers: Iterable[int]) -> list[NativeThrottle]:
        """Return the broker's own quotas that are set on these topics and brokers. Raises ClusterError."""
        wanted: list[tuple[str, str, tuple[str, ...]]] = [("topic", topic, TOPIC_KEYS) for topic in topics]
        wanted += [("broker", str(broker), BROKER_KEYS) for broker in brokers]
        resources = [ConfigResource(_RESOURCES[kind], name, dict.fromkeys(keys)) for kind, name, keys in wanted]
        configs = self._ask("describing configs", partial(self._client.describe_configs, resources))
        found = []
        for kind, name, keys in wanted:
            for key, config in configs.get(kind, {}).get(name, {}).items():
                if key in keys and config["config_source"] in _SET_FOR_IT:
                    found.append(NativeThrottle(kind, name, key, config["value"] or ""))  # type: ignore[arg-type]
                elif key in keys and config["config_source"] == _SET_FOR_ALL:
                    found.append(NativeThrottle("broker", "", key, config["value"] or ""))
        return list(dict.fromkeys(found))

    def remove(self, left: Sequence[NativeLeftover]) -> None:
        """Delete these configs, or set the rest of them; those of brokers first. Raises ClusterError."""
        for kind in ("broker", "topic"):
            by_name: dict[str, dict[str, Any]] = {}
            for throttle, becomes in left:
                if throttle.kind == kind:
                    change = AlterConfigOp.DELETE if becomes is None else AlterConfigOp.SET
                    by_name.setdefault(throttle.name, {})[throttle.key] = (change, becomes)
            self._alter([ConfigResource(_RESOURCES[kind], name, keys) for name, keys in by_name.items()])

    def reassign(self, targets: Mapping[TopicPartition, Sequence[int] | None]) -> dict[TopicPartition, str]:
        """Start the reassignment of these partitions (KIP-455), or cancel it where the target is None; return why it
        was refused, by partition. One that has ended meanwhile cannot be cancelled, and is not refused.

        Raises ClusterError: what became of it is not known, unless it names brokers before 2.4.
        """
        doing = "starting the reassignment" if any(targets.values()) else "cancelling the reassignment"
        answers = self._ask(doing, partial(self._client.alter_partition_reassignments, targets), unsupported=None)
        if answers is None:
            tool = "kafka-reassign-partitions and verify can"
            raise ClusterError(f"{doing}: this needs brokers of 2.4 or later (KIP-455): with older ones {tool}")
        refused = {}
        for partition, target in targets.items():
            error = answers.get(partition, KafkaError)
            if error is not None and not (target is None and error is NoReassignmentInProgressError):
                refused[partition] = error.__name__ if partition in answers else "the controller did not answer for it"
        return refused

    def _alter(self, resources: list[ConfigResource]) -> None:
        try:
            change = partial(self._client.alter_configs, resources, raise_on_unknown=False)
            answers = self._ask("changing configs", change) if resources else {}
        except ValueError as error:
            # Without IncrementalAlterConfigs, whatever is not sent again is lost, and passwords cannot be read.
            why = "brokers before 2.3 cannot delete one config and keep the others: kafka-configs --delete-config can"
            raise ClusterError(f"changing configs: {why}") from error
        refused = [
            f"{kind} {name}: {answer}"
            for kind, names in answers.items()
            for name, answer in names.items()
            if answer != "OK"
        ]
        if refused:
            raise ClusterError([f"changing configs: {refusal}" for refusal in refused])

    def _partitions(self, topics: Sequence[str] | None) -> dict[TopicPartition, PartitionState]:
        asked = None if topics is None else list(topics)
        found = self._ask("describing topics", partial(self._client.describe_topics, asked))
        refused = [
            f"{topic['name']}: {for_code(topic['error_code']).__name__}"
            for topic in found
            # Asked about all topics, a broker lists only those that we may see: errors count only for topics asked for.
            if asked is not None and topic.get("error_code", 0) in _MAY_BE_THERE
        ]
        if refused:
            raise ClusterError([f"describing topics: {refusal}" for refusal in refused])
        return {
            TopicPartition(topic["name"], partition["partition_index"]): PartitionState(
                partition["leader_id"] if partition["leader_id"] >= 0 else None,
                tuple(partition["replica_nodes"]),
                tuple(partition["isr_nodes"]),
            )
            for topic in found
            for partition in topic["partitions"]
        }

    def _ongoing(self) -> dict[TopicPartition, Ongoing] | None:
        found = self._ask("listing reassignments", self._client.list_partition_reassignments, unsupported=None)
        if found is None:
            return None
        return {
            TopicPartition(place.topic, place.partition): Ongoing(
                tuple(move["replicas"]), tuple(move["adding_replicas"]), tuple(move["removing_replicas"])
            )
            for place, move in found.items()
        }

    def hosts(self) -> list[str]:
        """Return the host of each broker, as it advertises it, in the order of their ids. Raises ClusterError."""
        found = self._ask("describing the cluster", self._client.describe_cluster)
        return [str(each["host"]) for each in sorted(found["brokers"], key=lambda each: int(each["broker_id"]))]

    def _brokers(self) -> frozenset[int]:
        found = self._ask("describing the cluster", self._client.describe_cluster)
        return frozenset(broker["broker_id"] for broker in found["brokers"] if not broker.get("is_fenced", False))

    def _ask(self, doing: str, call: Callable[[], Any], **otherwise: Any) -> Any:
        """Return the answer to a question. If brokers are too old for the question, `unsupported` is returned instead,
        if it is given."""
        try:
            return self._answer(call)
        except IncompatibleBrokerVersion as error:
            if "unsupported" in otherwise:
                return otherwise["unsupported"]
            raise ClusterError(f"{doing}: the brokers are too old for it: {_said(error)}") from error
        except (KafkaError, OSError) as error:
            unknown = unresolved(self._client.advertised_hosts(), self._hosts)
            why = f"; {_not_resolved(unknown)}" if unknown else ""
            raise ClusterError(f"{doing}: {_said(error)}{why}") from error

    @staticmethod
    def _answer(call: Callable[[], Any]) -> Any:
        """Return what some broker answers. kafka-python asks any that it knows, also one that has just died, and after
        a failed connection another."""
        for _ in range(_MAX_TRIES - 1):
            with suppress(KafkaConnectionError):
                return call()
        return call()


def _is_online(broker: int, log_dir: Mapping[str, Any]) -> bool:
    if log_dir["error_code"] not in (0, _OFFLINE_LOG_DIR):
        raise ClusterError(f"describing log dirs: broker {broker} answers with error {log_dir['error_code']}")
    return bool(log_dir["error_code"] == 0)


def _said(error: Exception) -> str:
    """Return an error in words with its class's name. kafka-python's own texts begin with that name, the system's do
    not."""
    name, text = type(error).__name__, str(error)
    return text if text.startswith(name) else f"{name}: {text}".removesuffix(": ")
