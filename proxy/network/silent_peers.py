"""Peers that have connected and sent nothing yet: no broker is dialled for them, and they make room for others.

In Kafka's protocol, and in TLS, the side that dialled speaks first. So a health check that only connects, a scanner or
a flood costs an accept and a wait. A relayed connection costs ten times as much, and a place in its leader's backlog,
which has 50 (socket.listen.backlog.size). Knows sockets, not the purpose of a connection.

Invariant: a byte that was waited for is still in its socket.
"""

from __future__ import annotations

import socket
from itertools import islice
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from ..relay.connection import Draining

MIN_SECONDS = 1.0
"""The time for which a peer may be silent in any case. An honest one sends its first bytes within a round trip."""


class SilentPeers:
    """Waits for first bytes, of each peer for at most `seconds`."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._waits: dict[trio.CancelScope, float] = {}
        """The time at which each wait began, the longest first."""
        self.closed = 0
        """Peers that had sent nothing for too long."""

    async def has_spoken(self, sock: socket.socket, draining: Draining) -> bool:
        """Wait for the first byte of a socket that does not block; False: the connection is to be closed.

        In a drain nothing is waited for. A peer that has just connected counts as if it had spoken if another process
        takes over: its connection is handed over like all others.
        """
        began = trio.current_time()
        try:
            while (spoken := _has_spoken(sock)) is None:
                if draining.is_begun():
                    return draining.give is not None and trio.current_time() - began < MIN_SECONDS
                if await self._times_out(sock, began) and not draining.is_begun():
                    self.closed += 1
                    return False
        except OSError:  # reset
            return False
        return spoken

    async def _times_out(self, sock: socket.socket, began: float) -> bool:
        with trio.CancelScope(deadline=began + self._seconds) as wait:
            self._waits[wait] = began
            try:
                await trio.lowlevel.wait_readable(sock)
            finally:
                self._waits.pop(wait, None)
        return wait.cancelled_caught

    def make_room(self, most: int) -> None:
        """Close up to `most` peers, those first that have been silent the longest."""
        since = trio.current_time() - MIN_SECONDS
        for wait, began in tuple(islice(self._waits.items(), most)):
            if began < since:
                wait.cancel()

    def look_again(self) -> None:
        """Wait for none of them any longer if a drain has begun."""
        for wait in tuple(self._waits):
            wait.cancel()


def _has_spoken(sock: socket.socket) -> bool | None:
    """Return whether a byte is there: False at the end of the stream, None if nothing has come. Raises OSError."""
    try:
        return bool(sock.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return None
