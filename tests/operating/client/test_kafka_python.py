"""What we change about kafka-python."""

from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import trio

from operating.client.kafka_python import AdminClient, ConfigResource, ConfigResourceType, HostsFileSocket, KafkaError

if TYPE_CHECKING:
    from pathlib import Path


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
