"""Two ends that are pipe: bytes arrive in order and once, back-pressure holds, both are closed when it is over."""

from __future__ import annotations

import random
import socket
import struct
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import trio

from proxy.handover import blind_pipe as pipe
from proxy.handover.blind_pipe import BlindPipe
from proxy.relay.poller import Poller, open_poller
from proxy.relay.transport import PlainSocket

from ..relay.wire import read_all, read_exactly
from ..tls.stage import Keys, connected, made

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator
    from pathlib import Path


MIB = 1 << 20


def stream(sock: socket.socket) -> trio.SocketStream:
    sock.setblocking(False)
    return trio.SocketStream(trio.socket.from_stdlib_socket(sock))


class Between:
    """`one` and `other` are what the test has of both sides."""

    def __init__(self, one: trio.SocketStream, other: trio.SocketStream) -> None:
        self.one, self.other = one, other
        self.finished = trio.Event()
        self.failed: list[Exception] = []


@asynccontextmanager
async def between(poller: Poller) -> AsyncIterator[Between]:
    """Plain sockets: TCP on one side, as a peer is, and a pair on the other."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        dialled = socket.create_connection(listener.getsockname())
        accepted, _ = listener.accept()
    ours, theirs = socket.socketpair()
    found = Between(stream(dialled), stream(theirs))
    run = BlindPipe(PlainSocket(accepted), PlainSocket(ours), poller, found.failed.append).run

    async def until_finished() -> None:
        await run()
        found.finished.set()

    with trio.fail_after(40):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(until_finished)
            async with found.one, found.other:
                yield found
            await found.finished.wait()
    assert (accepted.fileno(), ours.fileno()) == (-1, -1)
    assert found.failed == []


async def send_in_pieces(to: trio.SocketStream, data: bytes, seed: int) -> None:
    pieces, at = random.Random(seed), 0
    while at < len(data):
        size = pieces.choice((1, 5, 1000, 70_000, 300_000))
        await to.send_all(data[at : at + size])
        at += size
    await to.send_eof()


@pytest.fixture
async def poller() -> AsyncIterator[Poller]:
    async with open_poller() as opened:
        assert opened is not None
        yield opened


async def test_both_ways_at_once_everything_arrives_and_each_end_is_passed_on(poller: Poller) -> None:
    there, back = random.Random(1).randbytes(5 * MIB), random.Random(2).randbytes(3 * MIB)
    got: dict[str, bytes] = {}

    async def receive(name: str, end: trio.SocketStream) -> None:
        got[name] = await read_all(end)

    async with between(poller) as ends, trio.open_nursery() as nursery:
        nursery.start_soon(send_in_pieces, ends.one, there, 3)
        nursery.start_soon(send_in_pieces, ends.other, back, 4)
        nursery.start_soon(receive, "there", ends.other)
        nursery.start_soon(receive, "back", ends.one)
    assert got == {"there": there, "back": back}


async def test_nothing_is_read_while_the_other_end_has_no_room(poller: Poller) -> None:
    async with between(poller) as ends:
        sent = 0
        with trio.move_on_after(0.5):
            while True:
                sent += await ends.one.socket.send(bytes(MIB))
        assert sent < 20 * MIB  # the kernel's buffers, and one window
        await ends.one.send_eof()
        assert len(await read_all(ends.other)) == sent


async def test_a_peer_that_has_finished_gets_what_it_is_owed(poller: Poller) -> None:
    async with between(poller) as ends:
        await ends.one.send_all(b"a request")
        await ends.one.send_eof()
        assert await read_all(ends.other) == b"a request"
        await ends.other.send_all(b"its answer")
        assert await read_exactly(ends.one, 10) == b"its answer"
        assert not ends.finished.is_set()


async def test_a_peer_that_has_finished_does_not_keep_the_other_for_ever(
    poller: Poller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipe, "HALF_CLOSED_SECONDS", 0.2)
    async with between(poller) as ends:
        await ends.one.send_eof()
        assert await read_all(ends.other) == b""
        await ends.finished.wait()
        assert await read_all(ends.one) == b""


async def test_a_reset_ends_both(poller: Poller) -> None:
    async with between(poller) as ends:
        ends.one.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        ends.one.socket.close()
        assert await read_all(ends.other) == b""
        await ends.finished.wait()


async def test_a_defect_of_ours_is_told_and_costs_this_pair(poller: Poller, monkeypatch: pytest.MonkeyPatch) -> None:
    async with between(poller) as ends, between(poller) as neighbour:
        with monkeypatch.context() as broken:
            broken.setattr(pipe, "rest", lambda *_, **__: 1 // 0)
            await ends.one.send_all(b"x")
            await ends.finished.wait()
        assert [type(error) for error in ends.failed] == [ZeroDivisionError]
        ends.failed.clear()
        await neighbour.one.send_all(b"goes on")
        assert await read_exactly(neighbour.other, 7) == b"goes on"


@pytest.mark.parametrize("watched", [0, 1])
async def test_where_the_kernel_watches_no_more_sockets_only_this_pair_ends(
    poller: Poller, monkeypatch: pytest.MonkeyPatch, watched: int
) -> None:
    """fs.epoll.max_user_watches is reached with the first of the two, or with the second."""
    register, registered = Poller._register, list[int]()

    def refuse(full: Poller, number: int) -> None:
        if len(registered) == watched:
            raise OSError(28, "No space left on device")
        registered.append(number)
        register(full, number)

    failed: list[Exception] = []
    (ours, theirs), (other, others) = socket.socketpair(), socket.socketpair()
    with theirs, others:
        with monkeypatch.context() as full:
            full.setattr(Poller, "_register", refuse)
            await BlindPipe(PlainSocket(ours), PlainSocket(other), poller, failed.append).run()
        assert (ours.fileno(), other.fileno()) == (-1, -1)
    assert [str(error) for error in failed] == ["[Errno 28] No space left on device"]
    async with between(poller) as neighbour:
        await neighbour.one.send_all(b"goes on")
        assert await read_exactly(neighbour.other, 7) == b"goes on"


async def test_the_buffers_of_what_is_still_have_no_pages(poller: Poller) -> None:
    """Hundreds of connections that moved once would keep half a megabyte each."""
    (ours, theirs), (other, others) = socket.socketpair(), socket.socketpair()
    between = BlindPipe(PlainSocket(ours), PlainSocket(other), poller, print)
    window = between._there.transfer.window

    def has_pages() -> bool:
        return bytes(window.memory[:7]) == b"written"

    with trio.fail_after(20):
        async with stream(theirs) as one, stream(others) as two, trio.open_nursery() as nursery:
            nursery.start_soon(between.run)
            await one.send_all(b"written")
            assert await read_exactly(two, 7) == b"written"
            between.rest_if_still()  # something came
            assert has_pages()
            between.rest_if_still()
            assert not has_pages()
            await one.send_all(b"goes on")
            assert await read_exactly(two, 7) == b"goes on"
            await one.aclose()
            await two.aclose()


@pytest.mark.parametrize("size", [1, 20_000, 8 * MIB])
async def test_what_openssl_had_decrypted_already_goes_first(
    poller: Poller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """Where a record was read in part, its rest is in no socket, and the kernel has nothing to report."""
    monkeypatch.setattr(pipe, "HALF_CLOSED_SECONDS", 0.2)
    keys = Keys(tmp_path)
    leg, _ = made(keys.listen())
    data = random.Random(5).randbytes(100 + size)
    ours, theirs = socket.socketpair()
    with trio.fail_after(40):
        async with (
            connected(leg, keys.client()) as (own, peer),
            stream(theirs) as other,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(trio.to_thread.run_sync, peer.sendall, data)
            await trio.lowlevel.wait_readable(own)
            assert own.receive_into(memoryview(bytearray(100))) == 100
            assert own.readable
            nursery.start_soon(BlindPipe(own, PlainSocket(ours), poller, print).run)
            assert await read_exactly(other, size) == data[100:]
            nursery.start_soon(other.send_all, data)
            assert await trio.to_thread.run_sync(exactly, peer, len(data)) == data
            await other.aclose()


def exactly(peer: ssl.SSLSocket, size: int) -> bytes:
    got = bytearray()
    while len(got) < size:
        got += peer.recv(min(65_536, size - len(got)))
    return bytes(got)
