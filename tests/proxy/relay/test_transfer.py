"""From socket to socket: all the bytes, in order, no more, by the kernel or through the window; and where it stops."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Iterator  # noqa: TC003 - pytest looks fixtures' types up
from time import perf_counter

import pytest

from proxy.relay import transport
from proxy.relay.transfer import BETWEEN_FRAMES, MAX_VAIN_PEEKS, READ_AHEAD_BYTES, Need, Transfer, Window
from proxy.relay.transport import PIPE_BYTES, WOULD_WAIT, ConnectionEndedError, PlainSocket, Wait, open_pipe
from tests.open_files import open_files

from .memory import MemoryTransport

SIZE = 3 * PIPE_BYTES + 12345
FOREVER = 1e12


class Scene:
    """`feeder` and `drain` are the far ends."""

    def __init__(self, *, splices: bool = True) -> None:
        self.feeder, source = _tcp_pair()
        self.drain, sink = _tcp_pair()
        self.counted: list[int] = []
        self.transfer = Transfer(
            PlainSocket(source), PlainSocket(sink), Window(256 * 1024), count=self.counted.append, splices=splices
        )
        self.transfer.turn_ends = FOREVER

    def close(self) -> None:
        self.transfer.close()
        for each in (self.transfer.source, self.transfer.sink, self.feeder, self.drain):
            each.close()

    def feed(self, data: bytes) -> None:
        threading.Thread(target=_send, args=(self.feeder, data), daemon=True).start()

    def until_through(self, wait: Wait | None, size: int) -> bytes:
        """What arrives, while the transfer goes on whenever it can."""
        received = bytearray()
        self.drain.settimeout(0.001)
        ends = perf_counter() + 20
        while wait is not None or len(received) < size:
            assert perf_counter() < ends
            with contextlib.suppress(TimeoutError):
                received += self.drain.recv(1 << 20)
            self.transfer.source.readable = True
            if wait is not None:
                wait = self.transfer.flush()
        return bytes(received)

    def receive(self, need: Need) -> int:
        """As soon as something is there."""
        ends = perf_counter() + 10
        while (received := self.transfer.receive(need)) == WOULD_WAIT:
            assert perf_counter() < ends
            self.transfer.source.readable = True
        return received


def _tcp_pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        one = socket.create_connection(server.getsockname())
        other, _ = server.accept()
    return one, other


def _send(feeder: socket.socket, data: bytes) -> None:
    try:
        feeder.sendall(data)
    except OSError:
        return


@pytest.fixture
def scene() -> Iterator[Scene]:
    made = Scene()
    yield made
    made.close()


@pytest.mark.parametrize("splices", [True, False])
@pytest.mark.parametrize("ahead", [0, 1000])
def test_exactly_so_many_bytes_pass_and_what_follows_stays(ahead: int, *, splices: bool) -> None:
    """What the window holds goes first."""
    scene, data = Scene(splices=splices), os.urandom(SIZE)
    scene.feed(data + b"next")
    if ahead:
        scene.receive(BETWEEN_FRAMES)
        assert scene.transfer.window.size > 0
    assert scene.until_through(scene.transfer.send(SIZE), SIZE) == data
    assert sum(scene.counted) == SIZE
    assert not scene.transfer.owes
    while scene.transfer.window.size < 4:
        scene.receive(BETWEEN_FRAMES)
    assert bytes(scene.transfer.window.view(4)) == b"next"
    scene.close()


def test_a_peer_that_ends_in_the_middle_is_an_error(scene: Scene) -> None:
    scene.feeder.sendall(b"x" * 1000)
    scene.feeder.shutdown(socket.SHUT_WR)
    with pytest.raises(ConnectionEndedError, match="the peer closed 199000 bytes before the end"):
        scene.until_through(scene.transfer.send(200_000), 200_000)


@pytest.mark.parametrize("splices", [True, False])
def test_a_peer_that_does_not_read_is_waited_for(*, splices: bool) -> None:
    scene, size = Scene(splices=splices), 64 * 1024 * 1024
    scene.feed(bytes(size))
    wait, ends = scene.transfer.send(size), perf_counter() + 0.5
    while perf_counter() < ends:
        scene.transfer.source.readable = True
        wait = scene.transfer.flush()
    assert wait in (Wait.WRITE, Wait.READ)
    assert 0 < sum(scene.counted) < size // 2  # the rest waits in the feeder, not in here
    scene.close()


def test_a_turn_that_is_over_is_left_and_gone_on_with(scene: Scene) -> None:
    data = os.urandom(SIZE)
    scene.feed(data)
    scene.transfer.turn_ends = 0.0
    assert scene.until_through(scene.transfer.send(SIZE), SIZE) == data


@pytest.mark.parametrize("part", [100, 70_000, 200_000])
def test_what_is_looked_at_passes_as_if_it_had_been_read(part: int, scene: Scene) -> None:
    """Of a frame much of which is still to come: little is read after all, much is spliced from where it is."""
    data = os.urandom(1_000_000)
    scene.feed(data)
    passed, arrived, window = 0, b"", scene.transfer.window
    while passed < len(data):
        if not window.size:
            assert scene.receive(Need(1, len(data) - passed)) > 0
        size = min(part, window.size)
        assert bytes(window.view(size)) == data[passed : passed + size]
        arrived += scene.until_through(scene.transfer.send(size), 0)
        passed += size
    assert arrived + scene.until_through(None, len(data) - len(arrived)) == data
    assert sum(scene.counted) == len(data)


@pytest.mark.parametrize("large", [0, 3])
def test_looks_that_lead_to_nothing_are_few_in_a_frame(large: int, scene: Scene) -> None:
    """And those that lead to much do not make up for them."""
    scene.feed(b"x")
    scene.receive(BETWEEN_FRAMES)
    assert scene.until_through(scene.transfer.send(1), 1) == b"x"
    vain = 0
    for size in (100_000,) * large + (1000,) * (2 * MAX_VAIN_PEEKS):
        scene.feeder.sendall(bytes(size))
        scene.receive(Need(1, 1_000_000))
        vain += scene.transfer.window.is_peeked and size == 1000
        assert scene.until_through(scene.transfer.send(size), size) == bytes(size)
    assert vain == MAX_VAIN_PEEKS


def test_what_is_put_in_goes_instead_of_what_is_left_out() -> None:
    source, sink = MemoryTransport(), MemoryTransport(room=2)
    transfer = Transfer(source, sink, Window(4096), count=lambda _: None, splices=True)
    source.feed(b"leave this out, pass that")
    transfer.receive(BETWEEN_FRAMES)
    assert transfer.replace(len(b"leave this out"), b"instead") is Wait.WRITE
    assert transfer.owes
    sink.room = 100
    assert transfer.flush() is None
    assert transfer.send(len(b", pass that")) is None
    assert bytes(sink.kept) == b"instead, pass that"


def test_between_frames_little_is_read_ahead() -> None:
    source = MemoryTransport()
    transfer = Transfer(source, MemoryTransport(), Window(256 * 1024), count=lambda _: None, splices=True)
    source.feed(bytes(200_000))
    assert transfer.receive(BETWEEN_FRAMES) == READ_AHEAD_BYTES
    assert transfer.receive(Need(READ_AHEAD_BYTES + 1, left=1)) == 200_000 - READ_AHEAD_BYTES


def test_where_there_is_no_splice_there_is_no_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "splice")
    assert open_pipe() is None


def test_where_pipes_may_not_grow_there_is_no_pipe_and_nothing_stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError

    before = open_files()
    monkeypatch.setattr(transport.fcntl, "fcntl", refuse)
    assert open_pipe() is None
    assert open_files() - before == set()
