"""What we change about kafka-python."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest
import trio

from operating.moves.kafka_python import HostsFileSocket, KafkaError

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
