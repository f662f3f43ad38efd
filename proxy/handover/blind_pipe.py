"""Two transports, each of which gets what comes from the other, unread. This is all that a process still relays of a
connection that another process decides about.

Invariants: bytes arrive in order and once. Nothing is read of one end while the other has no room. Both ends are closed
when `run` returns.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

import trio

from ..relay.direction import Cause, Direction, rest
from ..relay.poller import CpuAccount
from ..relay.transfer import Transfer, Window
from ..relay.transport import END, TURN

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..relay.direction import Step
    from ..relay.poller import Poller
    from ..relay.transport import Transport

WINDOW_BYTES = 256 * 1024
"""The size of the window: sixteen full records of TLS, which is what `TlsSocket` reads at once."""
HALF_CLOSED_SECONDS = 30.0
"""How long the other direction may go on when one has ended. A peer that has finished sending is owed one answer at
most, and a fetch waits for half a second by default."""


class PassThroughReader:
    """The reader of a direction that passes everything on."""

    __slots__ = ()

    def read(self, window: Window) -> Step:
        return rest(window, opaque=True)

    def on_sent(self) -> bool:
        """Return false: this reader does not know frames, so no frame ends here."""
        return False


class BlindPipe:
    """Passes what comes from each of two transports on to the other, unread. `failed` is called with an error that no
    peer has caused; what a peer does wrong just ends both."""

    def __init__(self, one: Transport, other: Transport, poller: Poller, failed: Callable[[Exception], object]) -> None:
        self.cpu = CpuAccount(perf_counter())
        self._ends = one, other
        self._there = self._passing(one, other)
        self._back = self._passing(other, one)
        self._moved = self._moved_before = 0
        self._poller = poller
        self._failed = failed
        self._scope = trio.CancelScope()

    async def run(self) -> None:
        """Pipe until both ends have finished sending, or one is broken. Raises nothing but Cancelled."""
        one, other = self._ends
        try:
            with self._scope:
                self._poller.attach(self, one, reads=self._there, writes=self._back)
                self._poller.attach(self, other, reads=self._back, writes=self._there)
                # What OpenSSL has decrypted already is in no socket: epoll reports nothing for it.
                self._poller.later(self, self._there)
                self._poller.later(self, self._back)
                await trio.sleep_forever()
        except OSError as error:  # the kernel watches no more sockets
            self._failed(error)
        finally:
            self._there.wants = self._back.wants = END
            for end in self._ends:
                self._poller.detach(end)
                end.close()

    def end_at(self, deadline: float) -> None:
        """Close both then, by Trio's clock, if they have not ended before."""
        self._scope.deadline = min(self._scope.deadline, deadline)

    def rest_if_still(self) -> None:
        """Give the pages of the buffers back to the system if nothing has come since this was called last."""
        if self._moved == self._moved_before:
            for direction in (self._there, self._back):
                direction.transfer.window.rest()
        self._moved_before = self._moved

    def advance(self, direction: Direction, turn_ends: float) -> None:
        if direction.wants is END:
            return
        try:
            wants = direction.wants = direction.advance(turn_ends)
        except OSError:
            self._end()
        except Exception as error:  # noqa: BLE001 - it costs this pair alone, and is logged
            self._failed(error)
            self._end()
        else:
            if wants is TURN:
                self._poller.later(self, direction)
            elif wants is END:
                self._half_closed()

    def lost(self, error: Exception) -> None:
        self._failed(error)
        self._end()

    def _half_closed(self) -> None:
        if self._there.wants is END and self._back.wants is END:
            self._end()
        else:
            self._poller.owes_trio = True
            self.end_at(trio.current_time() + HALF_CLOSED_SECONDS)

    def _end(self) -> None:
        self._there.wants = self._back.wants = END
        self._poller.owes_trio = True
        self._scope.cancel()

    def _passing(self, source: Transport, sink: Transport) -> Direction:
        transfer = Transfer(source, sink, Window(WINDOW_BYTES), count=self._count, splices=False)
        return Direction(PassThroughReader(), transfer, Cause.HANDED_OVER)

    def _count(self, size: int) -> None:
        self._moved += size
