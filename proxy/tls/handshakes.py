"""TLS handshakes: at most so many at once, each within its time, and in each turn of the loop one step of one of them.

A step may be a signature, which takes a millisecond or two of the one thread. A peer that begins thousands of
handshakes and ends none must not keep those out who end theirs. So where all places are taken, a handshake that has
waited for its peer for `YIELDS_AFTER_SECONDS` gives its place to the next one. One that has waited for less may finish:
otherwise a storm of reconnecting brokers would push itself out. And a peer that lets all of its handshakes speak at
once must not take the loop from replication: 250 steps came in one turn of it, and took 55 to 97 ms of a core. Now the
longest turn in such a storm takes 4 to 6 ms (measured).

OpenSSL reads on for as long as a message is not complete. A hello of 60 KB in records of one byte each took 95 ms of a
core in one step (measured); an honest peer sends a dozen records. So tiny records are recognised before OpenSSL reads:
by the first four bytes of a small record, which occur once in four million random ones.

Knows sockets and Trio, no keys. Invariants: no more than `most` are under way; between two steps the relay's tasks have
all run.
"""

from __future__ import annotations

import math
import re
import socket
import ssl
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

import trio

from ..changes import Changes
from .failures import HandshakeError, Reason
from .tls_watchdog import HANDSHAKE_SECONDS, TLS_WATCHDOG

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


YIELDS_AFTER_SECONDS = 1.0


@dataclass(slots=True, eq=False)
class _UnderWay:
    waits_since: float = math.inf
    """The time since when it waits for bytes of its peer; infinite while they are here and it waits for its turn."""
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    yielded: bool = False


class Handshakes:
    """The handshakes of all legs that listen, or of all legs that dial.

    `seconds`: for each handshake, its wait for a place included.
    """

    def __init__(self, most: int, seconds: float) -> None:
        self._most = most
        self._seconds = seconds
        self._under_way: set[_UnderWay] = set()
        self._left = Changes()
        self._door = trio.Lock()
        """Handshakes that wait for a place wait here in line, and only the first of the line looks for one."""
        self.turn = trio.Lock()
        """The handshake that has it takes one step. Trio wakes the next one in line for the loop's next turn, never for
        this one."""

    @property
    def under_way(self) -> int:
        return len(self._under_way)

    async def run(self, sock: ssl.SSLSocket) -> None:
        """Run one handshake to its end.

        Raises HandshakeError or another OSError; the caller closes the socket in any case but success.
        """
        with trio.move_on_after(self._seconds) as patience:
            mine = await self._place()
            try:
                with mine.scope:
                    await self._shake_hands(sock, mine)
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
                    # A handshake that begins to wait for its peer only now can be crowded out after
                    # `YIELDS_AFTER_SECONDS` at the earliest, so it is enough to look again then.
                    with trio.move_on_after(min(patient, YIELDS_AFTER_SECONDS)):
                        await self._left.wait()
            mine = _UnderWay()
            self._under_way.add(mine)
            return mine

    async def _shake_hands(self, sock: ssl.SSLSocket, mine: _UnderWay) -> None:
        while True:
            async with self.turn:
                wait = _step(sock)
            if wait is None:
                return
            mine.waits_since = trio.current_time()
            await wait(sock)
            mine.waits_since = math.inf


def _step(sock: ssl.SSLSocket) -> Callable[[ssl.SSLSocket], Awaitable[None]] | None:
    """Take one step. Return what has to be awaited before the next one; None if the handshake is done. Raises
    OSError."""
    TLS_WATCHDOG.begin(sock.fileno(), HANDSHAKE_SECONDS)
    try:
        sock.do_handshake()
    except ssl.SSLWantReadError:
        return trio.lowlevel.wait_readable
    except ssl.SSLWantWriteError:
        return trio.lowlevel.wait_writable
    finally:
        if TLS_WATCHDOG.end():
            raise HandshakeError(Reason.OTHER, "what it sends keeps OpenSSL busy, and comes to no end")
    return None


MOST_SMALL_RECORDS = 128
"""The most small records that may be in the socket at the same time. So many cost OpenSSL 0.2 ms."""
LOOKED_AT_BYTES = 256 * 1024
"""The bytes of the socket that are looked at: more than OpenSSL takes of a handshake, since a hello has 128 KiB at most
and certificates 100 KB. To look at so much takes 2 ms at worst, and usually 5 µs."""
_SMALL_RECORD = re.compile(rb"[\x14-\x17]\x03.\x00", re.DOTALL)
"""Its kind, the version, and a length of less than 256 bytes (RFC 8446, 5.1)."""
_CAME = memoryview(bytearray(LOOKED_AT_BYTES))
"""A buffer for all handshakes: the loop looks at one of them at a time. Pages of it that stay unused cost no memory."""


def comes_in_crumbs(sock: ssl.SSLSocket) -> bool:
    """Return True if more small records have come than any peer needs; False if nothing can be seen."""
    try:
        # SSLSocket's own refuses to look at what is encrypted.
        came = socket.socket.recv_into(sock, _CAME, 0, socket.MSG_PEEK)
    except OSError:  # nothing has come, or OpenSSL will say what is wrong
        return False
    found = _SMALL_RECORD.finditer(_CAME[:came])
    return next(islice(found, MOST_SMALL_RECORDS, None), None) is not None
