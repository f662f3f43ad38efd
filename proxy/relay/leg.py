"""One socket of a relayed connection: try first, wait only when the kernel says so.

A Trio stream costs 8-10 µs a call even when data is there, a bare non-blocking call under 1 µs (measured), so the
byte path uses plain sockets. It waits by the poller where the leg is attached to one, else by Trio itself, which is
what there is without epoll. `CHECKPOINT_BYTES` and the clock (`share`) keep it fair to the other connections. Knows no
frames.

Invariants: every `async` method lets the others go on at least once per `CHECKPOINT_BYTES` moved and once a turn; a
side that is not `ready` was found so after it last was, so no wait misses its wake-up.
"""

from __future__ import annotations

import contextlib
import socket
from typing import TYPE_CHECKING

import trio

from .poller import Side, park, take_turn
from .share import Share

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from protocol.buffers import Bytes

    from ..settings import Address

CHECKPOINT_BYTES = 512 * 1024
"""Beside four saturating connections a budget of 256 KiB to 1 MiB costs no throughput and keeps p50 near 1 ms."""


KEEPALIVE_SECONDS, KEEPALIVE_EVERY_SECONDS, KEEPALIVE_PROBES = 60, 15, 4
"""A peer whose host has died, or that a firewall has forgotten, is found out after two minutes of silence."""


class Leg:
    """Owns `sock`, sets it non-blocking with TCP_NODELAY."""

    __slots__ = ("_moved", "hung_up", "polled", "reading", "share", "sock", "writing")

    def __init__(self, sock: socket.socket) -> None:
        sock.settimeout(0)
        if sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _keep_alive(sock)
        self.sock = sock
        self.share = Share()
        """Of the loop's time: one and the same for both legs of a connection."""
        self.polled = False
        """A poller tells when it is ready; false: Trio does."""
        self.reading = Side()
        self.writing = Side()
        self.hung_up = False
        """The peer's end was announced, perhaps together with its last data: there is no further wake-up."""
        self._moved = 0

    async def receive_into(self, view: memoryview) -> int:
        """Read what is there into `view`; wait for at least one byte. 0 means the peer has finished sending.

        Raises OSError when the connection is broken.
        """
        while True:
            if not self.reading.ready:
                await self.readable()
            received = self.receive_now(view)
            if received < 0:
                continue
            if self.moves(received):
                await self.turn()
            return received

    def receive_now(self, view: memoryview) -> int:
        """Read what is there into `view`: how many bytes; 0 at the end, -1 if there is nothing yet. Raises OSError."""
        try:
            received = self.sock.recv_into(view)
        except BlockingIOError:
            self.reading.ready = False
            return -1
        # epoll(7): of a stream, fewer bytes than asked for is all there was.
        if received < len(view):
            self.reading.ready = self.hung_up
        return received

    async def peek_into(self, view: memoryview) -> int:
        """Copy what is there into `view`, and leave it; wait for at least one byte. 0 means the peer has finished.

        Raises OSError when the connection is broken.
        """
        while True:
            await self.readable()
            try:
                return self.sock.recv_into(view, 0, socket.MSG_PEEK)
            except BlockingIOError:
                self.reading.ready = False

    async def left_by(self, take: Callable[[], bool]) -> None:
        """Have the poller call `take` whenever there is something to read, until that leaves something: it is false."""
        self._moved = 0
        side = self.reading
        while side.ready:
            await self.pause_if_over()
            if not take():
                return
        await park(lambda flow: side.park(flow, take))

    def send_now(self, data: Bytes) -> int:
        """Send what can be sent without waiting: how many bytes. Raises OSError."""
        try:
            return self.sock.send(data)
        except BlockingIOError:
            return 0

    async def send_all(self, data: Bytes) -> None:
        """Send every byte; waits while the peer does not read: that is the back-pressure."""
        sent = self.send_now(data)
        if sent < len(data):
            await self._send_rest(memoryview(data), sent)
        if self.moves(len(data)):
            await self.turn()

    async def _send_rest(self, view: memoryview, sent: int) -> None:
        while sent < len(view):
            try:
                sent += self.sock.send(view[sent:])
            except BlockingIOError:
                self.writing.ready = False
                await self.writable()

    async def readable(self) -> None:
        """Wait for something to read, or the end, if there is none known of."""
        await self._ready(self.reading, trio.lowlevel.wait_readable)

    async def writable(self) -> None:
        await self._ready(self.writing, trio.lowlevel.wait_writable)

    async def _ready(self, side: Side, wait: Callable[[socket.socket], Awaitable[None]]) -> None:
        self._moved = 0
        while not side.ready:
            if self.polled:
                await park(side.park)
            else:
                await wait(self.sock)
                self.share.begins_now()
                side.ready = True

    def finish_sending(self) -> None:
        """Propagate a half-close; a peer that is already gone needs none."""
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self.sock.close()

    def moves(self, size: int) -> bool:
        """So many bytes went through without a wait; true when it is the others' turn."""
        self._moved += size
        return self._moved >= CHECKPOINT_BYTES or self.share.is_over

    async def pause_if_over(self) -> None:
        """Let the others go first if this turn has lasted long enough."""
        if self.share.is_over:
            await self.turn()

    async def turn(self) -> None:
        """Let the others go first."""
        self._moved = 0
        if self.polled:
            await take_turn()
        else:
            await trio.lowlevel.checkpoint()
        self.share.begins_now()


def _keep_alive(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", KEEPALIVE_SECONDS),
        ("TCP_KEEPINTVL", KEEPALIVE_EVERY_SECONDS),
        ("TCP_KEEPCNT", KEEPALIVE_PROBES),
    ):
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


async def connect(address: Address, *, timeout_seconds: float) -> Leg:
    """Open a connection. Raises OSError, TimeoutError included (trio.TooSlowError is translated)."""
    try:
        with trio.fail_after(timeout_seconds):
            stream = await trio.open_tcp_stream(address.host, address.port)
    except trio.TooSlowError as error:
        raise TimeoutError(f"no answer within {timeout_seconds:g} s") from error
    return adopt(stream)


def adopt(stream: trio.SocketStream) -> Leg:
    """Take a stream's socket out of Trio's hands, by its public `detach`."""
    family = socket.AddressFamily(stream.socket.family)
    return Leg(socket.socket(family, socket.SOCK_STREAM, fileno=stream.socket.detach()))
