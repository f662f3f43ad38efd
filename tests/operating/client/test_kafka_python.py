"""What we change about kafka-python."""

from __future__ import annotations

import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from operating.client.kafka_python import (
    MAX_HOSTS_BYTES,
    AdminClient,
    ConfigResource,
    ConfigResourceType,
    HostsFileSocket,
    KafkaError,
    NodeNotReadyError,
    host_of,
    known_addresses,
    unresolved,
)
from proxy.errors import ConfigurationError


class Net:
    """kafka-python's event loop, as far as connecting needs it."""

    async def wait_write(self, sock: socket.socket, timeout_at: float | None = None) -> None:
        await trio.lowlevel.wait_writable(sock)


@pytest.fixture
def hosts(tmp_path: Path) -> HostsFileSocket:
    (tmp_path / "hosts").write_text("127.0.0.1 kafka-101\n", "ascii")
    return HostsFileSocket(f"hosts://{tmp_path / 'hosts'}")


@pytest.fixture
def ours() -> socket.socket:
    made = socket.socket()
    made.setblocking(False)
    return made


async def test_a_socket_that_is_refused_is_closed(hosts: HostsFileSocket, ours: socket.socket) -> None:
    with socket.socket() as nobody_listens:
        nobody_listens.bind(("127.0.0.1", 0))
        with pytest.raises(KafkaError, match="ECONNREFUSED"):
            await hosts.sock_connect(Net(), ours, nobody_listens.getsockname())
    assert ours.fileno() == -1


async def test_a_socket_that_is_connected_stays_open(hosts: HostsFileSocket, ours: socket.socket) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert await hosts.sock_connect(Net(), ours, server.getsockname()) is ours
        assert ours.getpeername() == server.getsockname()
    ours.close()


def client_answered_with(error_code: int) -> AdminClient:
    """One whose broker answers DescribeConfigs so, for a topic and without any config."""
    result = SimpleNamespace(
        error_code=error_code, error_message=None, resource_type=2, resource_name="orders", configs=[]
    )

    async def send(*_: object, **__: object) -> Any:
        return SimpleNamespace(results=[result])

    client = AdminClient.__new__(AdminClient)
    client._manager = SimpleNamespace(send=send, run=lambda ask, *arguments: trio.run(ask, *arguments))
    return client


TOPIC = ConfigResource(ConfigResourceType.TOPIC, "orders", {})


def test_who_may_not_see_configs_is_told_so_and_not_that_there_are_none() -> None:
    """Or `verify` says that nothing is left behind."""
    with pytest.raises(KafkaError, match="TopicAuthorizationFailedError: orders: refused"):
        client_answered_with(29).describe_configs([TOPIC])


@pytest.mark.parametrize("error_code", [0, 3])
def test_a_topic_that_is_gone_meanwhile_has_no_configs(error_code: int) -> None:
    assert client_answered_with(error_code).describe_configs([TOPIC]) == {"topic": {"orders": {}}}


class Controllers:
    """A cluster whose controller is 101 first and 102 then, of which the first is dead."""

    def __init__(self, *, dead: set[int]) -> None:
        self.dead, self.asked, self.known = dead, [], iter([101, 102, 102])

    async def send(self, request: object, node_id: int | None = None) -> Any:
        if node_id is None:
            return SimpleNamespace(controller_id=next(self.known))
        self.asked.append(node_id)
        if node_id in self.dead:
            raise NodeNotReadyError(node_id)
        return SimpleNamespace(error_code=0, topics=[])

    def run(self, ask: Any, *arguments: object) -> object:
        return trio.run(ask, *arguments)


def test_a_controller_that_is_dead_is_not_asked_for_ever() -> None:
    """kafka-python kept to the one that it knew: whoever waited for the end of a move heard of none."""
    client, controllers = AdminClient.__new__(AdminClient), Controllers(dead=set())
    client._manager, client._controller_id = controllers, None
    client._manager.broker_version, client.config = (4, 1), {"request_timeout_ms": 1}
    assert client.list_partition_reassignments() == {}
    controllers.dead = {101}
    assert client.list_partition_reassignments() == {}
    assert controllers.asked == [101, 101, 102]
    controllers.dead = {101, 102}
    with pytest.raises(NodeNotReadyError):
        client.list_partition_reassignments()


@pytest.fixture(autouse=True)
def _resolver(monkeypatch: pytest.MonkeyPatch) -> None:
    def getaddrinfo(host: str, _: object) -> None:
        if host not in ("kafka-101", "127.0.0.1"):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)


def test_names_that_are_nowhere_are_named_once(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("# ours\n10.0.0.2 kafka-102 k2 # kafka-104\n")
    asked = ["kafka-101", "kafka-104", "kafka-102", "127.0.0.1", "kafka-104"]
    assert unresolved(asked) == ["kafka-104", "kafka-102"]
    assert unresolved(asked, hosts) == ["kafka-104"]
    assert unresolved(asked, tmp_path / "gone") == ["kafka-104", "kafka-102"]


def test_addresses_are_those_of_lines_like_etc_hosts(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_bytes(b"# gr\xfc\xdfe\n10.0.0.2 kafka-102 k2 # kafka-104\n\n::1 kafka-103\n10.0.0.9 k2\n")
    assert known_addresses(hosts) == {"kafka-102": "10.0.0.2", "k2": "10.0.0.9", "kafka-103": "::1"}


def test_a_hosts_file_is_never_read_beyond_what_one_may_have(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_bytes(b"#" * (MAX_HOSTS_BYTES + 1))
    with pytest.raises(ConfigurationError, match=rf"hosts: expected at most {MAX_HOSTS_BYTES} bytes, found a larger"):
        known_addresses(hosts)
    with pytest.raises(ConfigurationError, match="/dev/zero: cannot be read: expected a file, found a device"):
        known_addresses(Path("/dev/zero"))
    assert unresolved(["kafka-104"], hosts) == ["kafka-104"]


@pytest.mark.parametrize(
    ("server", "host"),
    [("kafka-101:9092", "kafka-101"), ("SSL://a.b:9092", "a.b"), ("[::1]:9092", "::1"), ("kafka-101", "kafka-101")],
)
def test_the_host_of_a_server(server: str, host: str) -> None:
    assert host_of(server) == host
