"""Handshakes: so many at once, each within its time.

A handshake costs a millisecond or two of the one thread, and somebody who begins thousands and ends none must not keep
those out who end theirs. So a handshake that has waited for its peer for `YIELDS_AFTER_SECONDS` gives its place to the
next one where all places are taken; who is waited for less is let finish, or a storm of reconnecting brokers would
push itself out.

Knows sockets and Trio, no keys. Invariant: no more than `most` are under way.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field

import trio

from ..changes import Changes
from .failures import HandshakeError, Reason

YIELDS_AFTER_SECONDS = 1.0


@dataclass(slots=True, eq=False)
class _UnderWay:
    """A handshake that has not ended."""

    waits_since: float
    """For bytes of its peer."""
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    yielded: bool = False


class Handshakes:
    """Of one process. `seconds`: for each, the wait for a place included."""

    def __init__(self, most: int, seconds: float) -> None:
        self._most = most
        self._seconds = seconds
        self._under_way: set[_UnderWay] = set()
        self._left = Changes()
        self._door = trio.Lock()
        """Who waits for a place waits in line, and only the first of the line looks."""

    @property
    def under_way(self) -> int:
        return len(self._under_way)

    async def run(self, sock: ssl.SSLSocket) -> None:
        """Do it. Raises HandshakeError or another OSError; the caller closes the socket in any case but success."""
        with trio.move_on_after(self._seconds) as patience:
            mine = await self._place()
            try:
                with mine.scope:
                    await _shake_hands(sock, mine)
            finally:
                self._under_way.discard(mine)
                self._left.notify()
            if mine.yielded:
                raise HandshakeError(Reason.CROWDED_OUT, f"{self._most} others were under way")
        if patience.cancelled_caught:
            raise HandshakeError(Reason.TIMEOUT, f"not done within {self._seconds:g} s")

    async def _place(self) -> _UnderWay:
        async with self._door:
            while len(self._under_way) >= self._most:
                oldest = min(self._under_way, key=lambda each: each.waits_since)
                patient = oldest.waits_since + YIELDS_AFTER_SECONDS - trio.current_time()
                if patient <= 0:
                    oldest.yielded = True
                    self._under_way.discard(oldest)
                    oldest.scope.cancel()
                else:
                    with trio.move_on_after(patient):
                        await self._left.wait()
            mine = _UnderWay(trio.current_time())
            self._under_way.add(mine)
            return mine


async def _shake_hands(sock: ssl.SSLSocket, mine: _UnderWay) -> None:
    while True:
        mine.waits_since = trio.current_time()
        try:
            sock.do_handshake()
        except ssl.SSLWantReadError:
            await trio.lowlevel.wait_readable(sock)
        except ssl.SSLWantWriteError:
            await trio.lowlevel.wait_writable(sock)
        else:
            # Others of the same storm have their turn between two that were done at once.
            await trio.lowlevel.checkpoint()
            return
