"""Puts cases on the wire: the attackers, some at a time, each case a connection of its own.

Knows sockets and the clock, nothing of what is sent. Invariant: a case takes a bounded time, whatever the sidecar does
or leaves undone; what goes wrong with an attacker's own connection is nobody's concern.
"""

from __future__ import annotations

import contextlib
import socket
import struct
from collections import deque
from typing import TYPE_CHECKING

import trio

from .case import Ending

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from .case import Case

LINGER_SECONDS = 0.03
HALF_CLOSED_SECONDS = 0.2
SEND_SECONDS = 2.0
BETWEEN_CHUNKS_SECONDS = 0.001
READ_BYTES = 256 * 1024
REMEMBERED = 4000
_AT_ONCE = struct.pack("ii", 1, 0)


class Attack:
    """A group of attackers, each of which delivers one case after the other."""

    def __init__(self, ports: Mapping[str, int]) -> None:
        self._ports = ports
        self._recent: deque[tuple[float, float, Case]] = deque(maxlen=REMEMBERED)
        """The cases that ended last, each with when it began and ended."""
        self._under_way: dict[int, tuple[float, Case]] = {}
        self.connections = self.frames = self.sent_bytes = self.refused = 0
        self.finished = trio.Event()

    def suspects(self, at: float) -> list[Case]:
        """Return the cases that may have caused an event at that time (trio.current_time), the likeliest first: those
        under way then, and those that had just ended."""
        held = [(began, trio.current_time(), case) for began, case in self._under_way.values()]
        then = [(abs(min(ended, at) - at), case) for began, ended, case in (*held, *self._recent) if began <= at]
        return [case for _, case in sorted(then, key=lambda one: one[0])]

    async def run(self, cases: Iterator[Case], *, at_once: int, taken: Callable[[Case], None] | None = None) -> None:
        """Deliver all `cases`, so many at once; sets `finished`."""
        try:
            async with trio.open_nursery() as nursery:
                for _ in range(at_once):
                    nursery.start_soon(self._attacker, cases, taken)
        finally:
            self.finished.set()

    async def _attacker(self, cases: Iterator[Case], taken: Callable[[Case], None] | None) -> None:
        for case in cases:
            if taken is not None:
                taken(case)
            began = trio.current_time()
            self._under_way[id(case)] = began, case
            met = False
            try:
                met = await self.deliver(case)
            finally:
                del self._under_way[id(case)]
                if met:
                    self._recent.append((began, trio.current_time(), case))
            self.connections += 1
            self.frames += case.frames
            self.sent_bytes += case.size_bytes

    async def deliver(self, case: Case) -> bool:
        """Deliver one case; an attacker that is refused or cut off has got what it may expect.

        Whether anybody was there.
        """
        met = False
        with trio.socket.socket() as sock:
            try:
                await sock.connect(("127.0.0.1", self._ports[case.door]))
                met = True
                with trio.move_on_after(SEND_SECONDS):
                    await self._hold(sock, case)
            except OSError:
                self.refused += 1
            if case.ending is Ending.RESET:
                with contextlib.suppress(OSError):
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
        return met

    async def _hold(self, sock: trio.socket.SocketType, case: Case) -> None:
        for n, chunk in enumerate(case.chunks):
            if n:
                await trio.sleep(BETWEEN_CHUNKS_SECONDS)
            await send_all(sock, chunk)
            if case.answers:
                await _read(sock, LINGER_SECONDS, once=True)
        if case.ending is Ending.HALF_CLOSE:
            sock.shutdown(socket.SHUT_WR)
            await _read(sock, HALF_CLOSED_SECONDS)
        elif case.ending is Ending.LINGER:
            await _read(sock, LINGER_SECONDS)


async def _read(sock: trio.socket.SocketType, seconds: float, *, once: bool = False) -> None:
    """Read for that time, until the end, or only once."""
    with trio.move_on_after(seconds):
        while await sock.recv(READ_BYTES) and not once:
            pass


async def send_all(sock: trio.socket.SocketType, data: bytes) -> None:
    """Send all of it. Raises OSError."""
    view = memoryview(data)
    while view:
        view = view[await sock.send(view) :]
