from __future__ import annotations

import logging
import os
import socket
import sys
import time
from typing import TYPE_CHECKING

import pytest

from operating.client.kafka_python import (
    MAX_HOSTS_BYTES,
    IncompatibleBrokerVersion,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    for_code,
    refused,
)
from operating.moves import cluster as cluster_module
from operating.moves.cluster import Cluster, Connection, connect
from operating.moves.cluster_view import LogDirectory, NativeThrottle, PartitionState
from operating.moves.native_throttle import NativeLeftover
from operating.moves.options import connected
from proxy.errors import ClusterError, ConfigurationError
from reassignment import Ongoing, TopicPartition
from tests.operating.moves.fake_client import FakeClient

if TYPE_CHECKING:
    from pathlib import Path

A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)
LEADER_RATE = "leader.replication.throttled.rate"
LEADER_LIST = "leader.replication.throttled.replicas"


def orders(**more: object) -> FakeClient:
    return FakeClient(
        {("orders", 0): (101, [101, 103], [101]), ("orders", 1): (-1, [102], []), ("clicks", 0): (102, [102], [102])},
        ongoing={("orders", 0): ([101, 103], [103], [])},
        sizes={(101, "orders", 0): 900, (103, "orders", 0): 300, (101, "clicks", 0): 7},
        **more,
    )


def test_one_look_tells_all_that_a_plan_needs() -> None:
    view = Cluster(orders()).look(["orders", "no-such"])
    assert view.partitions == {A: PartitionState(101, (101, 103), (101,)), B: PartitionState(None, (102,), ())}
    assert view.ongoing == {A: Ongoing((101, 103), (103,), ())}
    assert view.sizes == {(101, A): 900, (103, A): 300}
    # 105 is registered, but fenced.
    assert view.brokers == {101, 102, 103, 104}


def test_only_brokers_that_have_something_of_it_are_asked_for_sizes() -> None:
    """One that is dead cost fifteen seconds a look, whatever it had."""
    client, asked = orders(), []
    describe = client.describe_log_dirs
    client.describe_log_dirs = lambda topics, brokers: asked.extend(brokers) or describe(topics, brokers)
    Cluster(client).look(["orders"])
    assert asked == [101, 102, 103]


def test_a_broker_that_has_just_died_is_not_the_only_one_that_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """kafka-python asks any broker of its list, and another one after a failed connection."""
    client = orders()
    dead, describe = [102, 103], client.describe_topics

    def ask(topics: list[str] | None) -> object:
        if dead:
            raise KafkaConnectionError(f"{dead.pop()} ECONNREFUSED")
        return describe(topics)

    monkeypatch.setattr(client, "describe_topics", ask)
    assert Cluster(client).every_partition()
    dead[:] = range(99)
    with pytest.raises(ClusterError, match="describing topics: KafkaConnectionError"):
        Cluster(client).every_partition()


def test_every_partition_is_of_every_topic() -> None:
    assert {place.topic for place in Cluster(orders()).every_partition()} == {"orders", "clicks"}


@pytest.mark.parametrize(
    ("method", "unknown"),
    [("list_partition_reassignments", {"ongoing": None}), ("describe_log_dirs", {"sizes": {}, "directories": {}})],
)
def test_old_brokers_are_not_asked_for_more_than_they_know(method: str, unknown: dict[str, object]) -> None:
    """Before 2.4 nobody lists reassignments (KIP-455), before 1.0 nobody tells sizes (KIP-113)."""
    whole = Cluster(orders()).look(["orders"])
    found = Cluster(orders(errors={method: IncompatibleBrokerVersion("0.10.1")})).look(["orders"])
    assert found == whole._replace(**unknown)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (KafkaError("gone"), "describing topics: KafkaError: gone"),
        (ConnectionResetError(), "describing topics: ConnectionResetError"),
        (IncompatibleBrokerVersion("x"), "describing topics: the brokers are too old for it"),
    ],
)
def test_what_goes_wrong_says_what_was_being_asked(error: Exception, said: str) -> None:
    with pytest.raises(ClusterError) as raised:
        Cluster(orders(errors={"describe_topics": error})).look(["orders"])
    assert str(raised.value).startswith(said)


def test_a_disk_that_is_gone_is_left_out_and_other_errors_are_said() -> None:
    client = orders()
    client.log_dir_error = 56  # KAFKA_STORAGE_ERROR
    assert Cluster(client).sizes([A], [101]) == {}
    client.log_dir_error = 31  # CLUSTER_AUTHORIZATION_FAILED
    with pytest.raises(ClusterError, match="describing log dirs: broker 101 answers with error 31"):
        Cluster(client).sizes([A], [101])


def test_one_dead_sidecar_leaves_the_sizes_of_its_broker_unknown_and_blocks_nothing() -> None:
    """`plan` and `verify` of any move said "describing log dirs: NodeNotReadyError: 102"."""
    client = orders()
    known = Cluster(client).sizes([A], [101, 102, 104])
    client.silent = {next(iter(known))[0]}
    left = Cluster(client).sizes([A], [101, 102, 104])
    assert left == {key: size for key, size in known.items() if key[0] not in client.silent}
    assert len(known) > len(left)
    told = Cluster(client).copying([101, 102, 104])
    assert told.keys() == client.silent, "the others are known not to copy; `verify --remove --force` goes on"
    assert "does not tell whether it copies replicas between its disks" in told[next(iter(told))]
    client.silent = {101, 102, 104}
    with pytest.raises(ClusterError, match="NodeNotReadyError"):
        Cluster(client).sizes([A], [101, 102, 104])


def test_a_topic_that_may_not_be_seen_is_not_one_that_does_not_exist() -> None:
    client = FakeClient({})
    client.topic_error = 3  # UNKNOWN_TOPIC_OR_PARTITION
    assert Cluster(client).look(["orders"]).partitions == {}
    client.topic_error = 29  # TOPIC_AUTHORIZATION_FAILED
    with pytest.raises(ClusterError, match="describing topics: orders: TopicAuthorizationFailedError"):
        Cluster(client).look(["orders"])


THROTTLED = {
    ("topic", "orders", LEADER_LIST): ("0:101", "DYNAMIC_TOPIC_CONFIG"),
    ("broker", "101", LEADER_RATE): ("5000", "DYNAMIC_BROKER_CONFIG"),
    ("broker", "", "follower.replication.throttled.rate"): ("7000", "DYNAMIC_DEFAULT_BROKER_CONFIG"),
    ("broker", "102", LEADER_RATE): ("9", "STATIC_BROKER_CONFIG"),
    ("topic", "orders", "retention.ms"): ("1", "DYNAMIC_TOPIC_CONFIG"),
}


def test_only_throttles_that_were_set_are_found() -> None:
    """Not what server.properties says, and the default of all brokers once."""
    found = Cluster(orders(configs=THROTTLED)).throttles(["orders"], [101, 102])
    assert [str(throttle) for throttle in found] == [
        f"topic orders: {LEADER_LIST} = 0:101",
        f"broker 101: {LEADER_RATE} = 5000",
        "broker default: follower.replication.throttled.rate = 7000",
    ]


def test_throttles_are_removed_and_nothing_else_is() -> None:
    client = orders(configs=THROTTLED)
    found = Cluster(client).throttles(["orders"], [101])
    Cluster(client).remove([NativeLeftover(throttle) for throttle in found if throttle.name])
    assert client.configs.keys() == THROTTLED.keys() - {
        ("topic", "orders", LEADER_LIST),
        ("broker", "101", LEADER_RATE),
    }
    Cluster(client).remove([])


def test_what_others_have_in_a_list_stays_and_brokers_come_first() -> None:
    """The lists say whose rates were set: they are the last to go."""
    client, order = orders(configs=THROTTLED), []
    client.configs["topic", "orders", LEADER_LIST] = ("0:101,7:102", "DYNAMIC_TOPIC_CONFIG")
    alter = client.alter_configs
    client.alter_configs = lambda resources, **more: order.append(resources[0].name) or alter(resources, **more)
    topic, broker = Cluster(client).throttles(["orders"], [101])[:2]
    Cluster(client).remove([NativeLeftover(topic, "7:102"), NativeLeftover(broker)])
    assert order == ["101", "orders"]
    assert client.configs["topic", "orders", LEADER_LIST][0] == "7:102"
    assert ("broker", "101", LEADER_RATE) not in client.configs


def test_brokers_that_cannot_delete_one_config_are_said() -> None:
    """Before 2.3 kafka-python raises ValueError: to delete one, it would have to send all others again."""
    client = orders(errors={"alter_configs": ValueError("Non-incremental AlterConfigsRequest does not support DELETE")})
    with pytest.raises(ClusterError, match=r"brokers before 2\.3 cannot delete one config"):
        Cluster(client).remove([NativeLeftover(NativeThrottle("broker", "101", LEADER_RATE, "5"))])


def test_a_copy_between_the_disks_of_a_broker_is_seen() -> None:
    cluster = Cluster(orders(copies={(103, "orders", 0): 200, (102, "clicks", 0): 5}))
    assert cluster.look(["orders"]).directories == {
        (101, A): LogDirectory("/a"), (103, A): LogDirectory("/a", 200)
    }  # fmt: skip
    assert cluster.look(["orders"]).sizes == {(101, A): 900, (103, A): 300}
    # Of any topic.
    assert cluster.copying([101, 102, 103]) == dict.fromkeys((102, 103), "still copies replicas between its disks")


def test_partitions_are_reassigned_and_taken_back_each_by_itself() -> None:
    client = FakeClient({("orders", 0): (101, [101], [101]), ("orders", 1): (102, [102], [102])})
    client.refused["orders", 1] = for_code(39)
    cluster = Cluster(client)
    assert cluster.reassign({A: (101, 103), B: (102, 999)}) == {B: "InvalidReplicationAssignmentError"}
    assert [*client.ongoing] == [("orders", 0)]
    # One that has ended meanwhile, or never was, needs no cancelling.
    assert (cluster.reassign({A: None, B: None}), client.ongoing) == ({}, {})


def test_a_partition_of_which_the_controller_says_nothing_is_not_taken_for_started() -> None:
    client = orders()
    client.alter_partition_reassignments = lambda _: {}
    assert Cluster(client).reassign({A: (101, 103)}) == {A: "the controller did not answer for it"}


def test_an_end_between_two_questions_is_not_taken_for_a_cancellation() -> None:
    """The list was asked for last: a move that ended before it had its old replicas and was not under way."""
    client = orders()
    describe = client.describe_topics

    def ended(topics: list[str] | None) -> object:
        client.complete()
        return describe(topics)

    client.describe_topics = ended
    assert Cluster(client).look(["orders"]).ongoing == {A: Ongoing((101, 103), (103,), ())}


def test_a_refusal_names_whose_config_it_was() -> None:
    client = orders()
    client.refusal = "not allowed"
    with pytest.raises(ClusterError, match="changing configs: broker 101: not allowed"):
        Cluster(client).remove([NativeLeftover(NativeThrottle("broker", "101", LEADER_RATE, "5"))])


def test_no_broker_is_asked_without_a_token(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
        f"sasl.oauthbearer.token.endpoint.url={(tmp_path / 'gone').as_uri()}\n"
    )
    with pytest.raises(ConfigurationError, match="gone: cannot be read"), connect(Connection(("127.0.0.1:1",), path)):
        pass


def test_a_connection_is_closed_after_use(monkeypatch: pytest.MonkeyPatch) -> None:
    client, arguments = orders(), {}

    def admin_client(**given: object) -> FakeClient:
        arguments.update(given)
        return client

    monkeypatch.setattr(cluster_module, "AdminClient", admin_client)
    with connected((" 127.0.0.1:9092,b:9092 ", "c:9092"), None, None):
        assert not client.closed
    assert client.closed
    assert arguments["bootstrap_servers"] == ["127.0.0.1:9092", "b:9092", "c:9092"]


@pytest.mark.parametrize(
    ("bootstrap", "found"),
    [
        ("kafka-101:abc", '"kafka-101:abc"'),
        ("kafka-101:9092,b:", '"b:"'),
        ("b:99999", '"b:99999"'),
        ("b:0", '"b:0"'),
        ("[::1", '"[::1"'),
        (" ,", "nothing"),
    ],
)
def test_what_is_no_address_is_refused_before_anybody_is_asked(bootstrap: str, found: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        connected((bootstrap,), None, None)
    assert str(error.value) == f"--bootstrap: expected HOST:PORT, found {found}"
    assert not isinstance(error.value, ClusterError)


@pytest.mark.parametrize("server", ["b", "b.example:1", "PLAINTEXT://b:9092", "[::1]:9092", "::1", "10.0.0.1:65535"])
def test_every_way_to_write_an_address_is_taken(monkeypatch: pytest.MonkeyPatch, server: str) -> None:
    asked: list[object] = []

    def admin_client(*, bootstrap_servers: object, **_: object) -> FakeClient:
        asked.append(bootstrap_servers)
        return orders()

    monkeypatch.setattr(cluster_module, "AdminClient", admin_client)
    monkeypatch.setattr(cluster_module, "unresolved", lambda *_: [])
    monkeypatch.setattr(cluster_module, "refused", lambda *_: [])
    with connected((server,), None, None):
        assert asked == [[server]]


def test_nobody_there_is_said_with_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(**_: object) -> None:
        raise KafkaError("no brokers")

    monkeypatch.setattr(cluster_module, "AdminClient", nobody)
    monkeypatch.setattr(cluster_module, "refused", lambda *_: [])
    with (
        pytest.raises(ClusterError, match=r"127\.0\.0\.1:9092: no broker answers: KafkaError: no brokers"),
        connect(Connection(("127.0.0.1:9092",))),
    ):
        pass


def test_why_nobody_could_be_asked_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """A certificate that is not believed is no silence. Each reason is told once, however often it was tried."""

    def late(**_: object) -> None:
        log = logging.getLogger("kafka.net.manager")
        for _ in range(3):
            why = KafkaError("Handshake failed: certificate verify failed")
            log.warning("Bootstrap connection to %s failed: %s (backoff %.2f secs)", "bootstrap-0", why, 1.5)
        log.error("Bootstrap failed: %s", KafkaTimeoutError("Unable to bootstrap"))
        raise KafkaTimeoutError("Unable to bootstrap")

    monkeypatch.setattr(cluster_module, "AdminClient", late)
    monkeypatch.setattr(cluster_module, "refused", lambda *_: [])
    with (
        pytest.raises(
            ClusterError, match=r"no broker answers: KafkaError: Handshake failed: certificate verify failed$"
        ),
        connect(Connection(("127.0.0.1:9092",))),
    ):
        pass
    left = {type(handler).__name__ for handler in logging.getLogger("kafka").handlers}
    assert not left & {name for name, of in vars(cluster_module).items() if isinstance(of, type)}


def test_a_hosts_file_may_have_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To kafka-python it is part of a URL, in which these characters end a path."""
    monkeypatch.setattr(cluster_module, "_TIMEOUT_MS", 1000)
    monkeypatch.setattr(cluster_module, "refused", lambda *_: [])
    hosts = tmp_path / "ho?sts #1 %20"
    hosts.write_text("127.0.0.1 kafka-101.invalid\n")
    with (
        pytest.raises(ClusterError, match=r"kafka-101\.invalid:1: no broker answers: KafkaConnectionError: 111"),
        connect(Connection(("kafka-101.invalid:1",), None, hosts)),
    ):
        pass


def test_a_hosts_file_that_cannot_be_looked_for_is_named(tmp_path: Path) -> None:
    hosts = tmp_path / ("h" * 300)
    with (
        pytest.raises(ConfigurationError, match=r"h: cannot be read: File name too long$"),
        connect(Connection(("127.0.0.1:1",), None, hosts)),
    ):
        pass


def test_kafka_python_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_module, "_TIMEOUT_MS", 1000)
    monkeypatch.setattr(cluster_module, "refused", lambda *_: [])
    (tmp_path / "hosts").write_text("")
    with (
        pytest.raises(
            ClusterError, match=r"127\.0\.0\.1:1: no broker answers: KafkaConnectionError: 111 ECONNREFUSED$"
        ),
        connect(Connection(("127.0.0.1:1",), None, tmp_path / "hosts")),
    ):
        pass


def test_addresses_that_all_refuse_are_not_asked_again_and_again(tmp_path: Path) -> None:
    """`plan`, `verify` and `fleet init` took 18 s for a closed port: kafka-python repeats the bootstrap."""
    (tmp_path / "hosts").write_text("127.0.0.1 kafka-101.invalid\n")
    began = time.monotonic()
    with (
        pytest.raises(ClusterError, match=r"^kafka-101\.invalid:1, 127\.0\.0\.1:1: no broker answers: connection ref"),
        connect(Connection(("kafka-101.invalid:1", "127.0.0.1:1"), None, tmp_path / "hosts")),
    ):
        pass
    assert time.monotonic() - began < 10, "milliseconds on a quiet machine; it was 15 s and more"
    with socket.create_server(("127.0.0.1", 0)) as open_port:
        assert refused(["127.0.0.1:1", f"127.0.0.1:{open_port.getsockname()[1]}"]) == []
    assert refused(["127.0.0.1:many"]) == []


def test_a_name_that_does_not_resolve_is_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_module, "unresolved", lambda hosts, _: [host for host in hosts if host != "b"])
    with (
        pytest.raises(ClusterError, match=r"a:9092: this name does not resolve on this machine: a \(--hosts FILE"),
        connect(Connection(("a:9092",))),
    ):
        pass


def test_a_broker_whose_advertised_name_does_not_resolve_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_module, "unresolved", lambda hosts, _: [host for host in hosts if host != "b"])
    client = orders(errors={"describe_topics": KafkaError("timed out")})
    client.hosts = ["a", "b", "c"]
    with pytest.raises(ClusterError, match=r"timed out; these names do not resolve on this machine: a, c \(--hosts"):
        Cluster(client).look(["orders"])


def test_a_missing_hosts_file_is_said(tmp_path: object) -> None:
    with (
        pytest.raises(ConfigurationError, match="hosts: cannot be read: expected lines like"),
        connected(
            ("127.0.0.1:9092",),
            None,
            tmp_path / "hosts",
        ),
    ):
        pass


@pytest.mark.parametrize("size", [MAX_HOSTS_BYTES + 1, 64 * MAX_HOSTS_BYTES])
def test_a_hosts_file_that_is_too_long_is_said_before_anybody_is_asked(tmp_path: Path, size: int) -> None:
    path = tmp_path / "hosts"
    path.touch()
    os.truncate(path, size)
    with (
        pytest.raises(ConfigurationError, match=rf"hosts: expected at most {MAX_HOSTS_BYTES} bytes, found a larger"),
        connected(("127.0.0.1:9092",), None, path),
    ):
        pass


def test_without_kafka_python_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "operating.moves.cluster", None)
    with pytest.raises(ConfigurationError, match=r"needs the extra operator: pip install '\.\[operator\]' in this"):
        connected(("a:9092",), None, None)
