"""Bytes through the kernel: all of them, in order, no more, and errors where they end too soon."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator  # noqa: TC003 - pytest looks fixtures' types up
from pathlib import Path

import pytest
import trio

from proxy.relay.copying import ConnectionEndedError, copy
from proxy.relay.leg import Leg
from proxy.relay.pipe import PIPE_BYTES, Pipe, open_pipe
from proxy.relay.window import Window

SIZE = 3 * PIPE_BYTES + 12345


@pytest.fixture
def ends() -> Iterator[tuple[Leg, Leg, socket.socket, socket.socket]]:
    """(leg to read from, leg to write to, who feeds the first, who drains the second)."""
    feeder, source = _tcp_pair()
    drain, sink = _tcp_pair()
    with feeder, source, drain, sink:
        yield Leg(source), Leg(sink), feeder, drain


def _tcp_pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        one = socket.create_connection(server.getsockname())
        other, _ = server.accept()
    return one, other


async def feed(feeder: socket.socket, data: bytes) -> None:
    await trio.to_thread.run_sync(feeder.sendall, data)


def read_exactly(drain: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        received = drain.recv(size - len(data))
        assert received
        data += received
    return bytes(data)


async def test_exactly_so_many_bytes_pass_and_what_follows_stays(
    ends: tuple[Leg, Leg, socket.socket, socket.socket],
) -> None:
    source, sink, feeder, drain = ends
    data, counted = os.urandom(SIZE), []
    pipe, arrived = Pipe(), []

    async def read() -> None:
        arrived.append(await trio.to_thread.run_sync(read_exactly, drain, SIZE))

    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(feed, feeder, data + b"next")
            nursery.start_soon(read)
            await pipe.move(source, sink, SIZE, counted.append)
        assert arrived == [data]
        assert sum(counted) == SIZE
        window = Window(source, 4096)
        assert await window.fill(4)
        assert window.peek(4) == b"next"
    pipe.close()


async def test_what_the_window_holds_goes_first(ends: tuple[Leg, Leg, socket.socket, socket.socket]) -> None:
    source, sink, feeder, drain = ends
    data, pipe, arrived = os.urandom(SIZE), Pipe(), []

    async def read() -> None:
        arrived.append(await trio.to_thread.run_sync(read_exactly, drain, SIZE))

    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(feed, feeder, data)
            nursery.start_soon(read)
            window = Window(source, 64 * 1024)
            assert await window.fill(1000)
            await copy(window, sink, SIZE, lambda _: None, pipe=pipe)
    assert arrived == [data]
    pipe.close()


async def test_a_peer_that_ends_in_the_middle_is_an_error(ends: tuple[Leg, Leg, socket.socket, socket.socket]) -> None:
    source, sink, feeder, _ = ends
    pipe = Pipe()
    await feed(feeder, b"x" * 1000)
    feeder.shutdown(socket.SHUT_WR)
    with trio.fail_after(20), pytest.raises(ConnectionEndedError, match="the peer closed 9000 bytes before the end"):
        await pipe.move(source, sink, 10_000, lambda _: None)
    pipe.close()


async def test_a_peer_that_does_not_read_is_waited_for(ends: tuple[Leg, Leg, socket.socket, socket.socket]) -> None:
    source, sink, feeder, _ = ends
    pipe, size, counted = Pipe(), 64 * 1024 * 1024, []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.to_thread.run_sync, _send_until_stopped, feeder, size)
        with trio.move_on_after(0.5) as waited:
            await pipe.move(source, sink, size, counted.append)
        assert waited.cancelled_caught
        assert sum(counted) < size  # the rest waits in the feeder, not in here
        source.close()
        with contextlib.suppress(OSError):
            feeder.shutdown(socket.SHUT_RDWR)
    pipe.close()


def _send_until_stopped(feeder: socket.socket, size: int) -> None:
    try:
        feeder.sendall(bytes(size))
    except OSError:
        return


def test_where_there_is_no_splice_there_is_no_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "splice")
    assert open_pipe() is None


def test_where_pipes_may_not_grow_there_is_no_pipe_and_nothing_stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError

    before = len(list(Path("/proc/self/fd").iterdir()))
    monkeypatch.setattr("proxy.relay.pipe.fcntl.fcntl", refuse)
    assert open_pipe() is None
    assert len(list(Path("/proc/self/fd").iterdir())) == before
