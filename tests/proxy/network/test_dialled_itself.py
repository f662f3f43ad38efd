"""Where nobody listens, a dial from the very port that it is for would be connected to itself: it is refused."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Any

import pytest
import trio

from proxy.cluster.broker_client import Broker, response_of
from proxy.config.settings_values import Address
from proxy.network.redirected import Redirected
from proxy.relay.transport import connect, refuse_itself

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable


OWN_HOST = f"127.77.{os.getpid() >> 8 & 255}.{os.getpid() & 255}"
"""Of this process alone: a port of 127.0.0.1 that was free could be another test's by the time that it is dialled."""


class OfPort(trio.socket.SocketType):
    """A socket to which the kernel gives `port` of `OWN_HOST` where it is left the choice, as it may."""

    def __init__(self, sock: trio.socket.SocketType, port: int) -> None:
        self._sock = sock
        self._port = port

    async def bind(self, _: Any) -> None:
        await self._sock.bind((OWN_HOST, self._port))

    async def connect(self, address: Any) -> None:
        if self._sock.getsockname()[1] == 0:
            await self.bind((OWN_HOST, 0))
        await self._sock.connect(address)

    @property
    def type(self) -> socket.SocketKind:
        return self._sock.type

    def getsockname(self) -> Any:
        return self._sock.getsockname()

    def getpeername(self) -> Any:
        return self._sock.getpeername()

    def setsockopt(self, *option: Any) -> None:
        self._sock.setsockopt(*option)

    def close(self) -> None:
        self._sock.close()


class AllOfPort(trio.abc.SocketFactory):
    def __init__(self, port: int) -> None:
        self._port = port

    def socket(self, *kind: Any) -> trio.socket.SocketType:
        return OfPort(trio.socket.from_stdlib_socket(socket.socket(*kind)), self._port)


@pytest.fixture
async def free() -> AsyncIterator[int]:
    """A port that nobody listens on and that the dialling socket gets."""
    with socket.create_server((OWN_HOST, 0)) as closed:
        port = closed.getsockname()[1]
    trio.socket.set_custom_socket_factory(AllOfPort(port))
    yield port
    # Neither held nor waited for: the leader can listen there at once, without SO_REUSEADDR too.
    with socket.socket() as leader:
        leader.bind((OWN_HOST, port))


async def dial_plain(address: Address) -> None:
    await connect(address, timeout_seconds=20)


async def dial_redirected(address: Address) -> None:
    with Redirected().dialling() as dial:
        await dial(address, timeout_seconds=20)


async def ask(address: Address) -> None:
    await response_of(Broker(address), 3, range(4, 5), lambda _: b"")


@pytest.mark.parametrize("dial", [dial_plain, dial_redirected, ask])
async def test_a_dial_that_meets_itself_is_refused(dial: Callable[[Address], Awaitable[None]], free: int) -> None:
    with pytest.raises(ConnectionRefusedError):
        await dial(Address(OWN_HOST, free))


async def test_a_connection_that_was_reset_meanwhile_is_for_its_first_read_to_tell() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as sock:
        accepted, _ = listener.accept()
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        accepted.close()
        dialled = trio.socket.from_stdlib_socket(sock)
        refuse_itself(dialled)
        with pytest.raises(ConnectionResetError):
            await dialled.recv(1)
