"""Frames that are whole when they come, taken where the poller finds them: no flow is woken for them.

A small fetch is four calls of the kernel; beside them it counts to wake a coroutine for each direction, through all
that awaits in it. So while a flow waits at the beginning of a frame, the poller calls `take`, which reads once, has
what came handled, and wakes the flow only for what needs waiting or more bytes. No frame is known here.

Invariant: what `take` leaves, the flow finds as if it had read it itself; bytes go on in the order in which they came.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from protocol.buffers import Bytes

    from .leg import Leg
    from .window import Window


class Eager:
    """One direction. `handle` deals with what is at the window's beginning, and tells whether it could; `count` is told
    of bytes that went on, `sent` that all of a `send` did."""

    __slots__ = ("_count", "_handle", "_sent", "_to", "_unsent", "_window")

    def __init__(
        self,
        window: Window,
        to: Leg,
        handle: Callable[[], bool],
        *,
        count: Callable[[int], None],
        sent: Callable[[], None] | None = None,
    ) -> None:
        self._window = window
        self._to = to
        self._handle = handle
        self._count = count
        self._sent = sent
        self._unsent = b""

    async def wait(self) -> None:
        """Until something has come that cannot be taken at once, or the end. Where there is no poller, anything is."""
        window = self._window
        if window.start == window.end and window.leg.polled:
            await window.leg.left_by(self.take)
            if self._unsent:
                unsent, self._unsent = self._unsent, b""
                await self._to.send_all(unsent)
                self._done(len(unsent))

    def take(self) -> bool:
        """Read once and deal with it; False if something is left for the flow. Raises OSError, ProtocolError."""
        window = self._window
        received = window.receive_now()
        if received <= 0:
            return received < 0
        share = window.leg.share
        while self._handle():
            if window.start == window.end:
                return not window.leg.reading.ready
            if share.is_over:
                break
        return False

    def send(self, data: Bytes) -> bool:
        """Send at once; False if the flow has to send the rest."""
        sent = self._to.send_now(data)
        if sent == len(data):
            self._done(sent)
            return True
        self._count(sent)
        self._unsent = bytes(data[sent:])
        return False

    def _done(self, size: int) -> None:
        self._count(size)
        if self._sent is not None:
            self._sent()
