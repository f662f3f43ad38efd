"""Reads what goes from the leader to the follower: the leader's bytes, with the edits that the request asked for.

Most responses pass unread. From the response to a decided request the high watermarks are learnt, its bytes are
accounted for, and entries are added for the partitions that the request left out. Records are taken away only if they
are over quota when they arrive. Whether any will be is known before the first byte goes on, so that a response that
keeps all its records, as nearly every one does, is never held back to its end.

Pure: no I/O, no waiting. Invariants: what the follower receives is what the leader sent, plus replayed entries, minus
records that were replaced by a length of 0; the head of an answer is learnt from before its first byte goes on, an
entry after it has gone.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from protocol.errors import ProtocolError
from protocol.wire.framing import LENGTH_PREFIX_BYTES, frame_size, whole_response

from ..statistics.counters import Undecoded
from .decided_response import DecidedResponseReader
from .direction import MAX_FRAMES, rest
from .in_flight import DECIDED, MAX_FRAME_BYTES, SLICED
from .response_walk import CORRELATION_ID_BYTES, FIXED_HEAD_BYTES
from .transfer import Need
from .transport import TURN

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..config.settings import LimitSettings
    from .direction import Step
    from .in_flight import InFlightRequests
    from .transfer import Window

RESPONSE_WINDOW_BYTES = 512 * 1024
"""How much of an answer is peeked at before it is spliced. With 512 KiB a fetch of 1000 partitions of 10 KB takes a
quarter less CPU than with 256, one of 100 of 100 KB a tenth less; with 1 MiB both take a quarter less, but another
connection's fetch beside them takes 4.6 ms instead of 3.5 (p99, measured). A connection that catches up uses all of it,
so that 1000 of those take half a GiB. Pages that stay unused cost no memory."""
INT32 = struct.Struct(">i")


class ResponseReader:
    """Reads what one connection's leader sends. `clock` returns Trio's time."""

    __slots__ = ("_answers", "_clock", "_in_flight", "_passes")

    def __init__(self, in_flight: InFlightRequests, limits: LimitSettings, clock: Callable[[], float]) -> None:
        self._in_flight = in_flight
        self._clock = clock
        self._answers = DecidedResponseReader(in_flight, limits, clock)
        self._passes = False
        """True if the bytes to be sent end with a response that passes as it is."""

    def read(self, window: Window) -> Step:  # noqa: C901 - every frame goes through here, and each call costs
        """Return what to do next. Raises ProtocolError when an altered response cannot be finished; bad framing turns
        the connection opaque."""
        in_flight = self._in_flight
        if in_flight.request is SLICED:
            return TURN
        if in_flight.answer is DECIDED:
            return self._answers.read(window)
        if in_flight.opaque or window.end - window.start < LENGTH_PREFIX_BYTES:
            return rest(window, opaque=in_flight.opaque is not None)
        most = MAX_FRAMES
        if in_flight.clients is not None:
            most = 1  # each response is looked at
            step = in_flight.clients.response(window, self._clock())
            if step is not None:
                return step
        passable, whole = passable_responses(window, in_flight, most)
        if passable:
            self._passes = True
            return passable
        if whole is not None:
            return self._frame(window, whole[0] - window.start, whole[1])
        try:
            size = frame_size(window.buffer, window.start, maximum=MAX_FRAME_BYTES)
        except ProtocolError:
            in_flight.turn_opaque(Undecoded.FRAMING)
            return window.size
        correlation_id = None
        if size >= CORRELATION_ID_BYTES:
            if window.size >= FIXED_HEAD_BYTES:
                (correlation_id,) = INT32.unpack_from(window.buffer, window.start + LENGTH_PREFIX_BYTES)
            elif not window.ended:
                return Need(FIXED_HEAD_BYTES)
        return self._frame(window, LENGTH_PREFIX_BYTES + size, correlation_id)

    def _frame(self, window: Window, total: int, correlation_id: int | None) -> Step:
        now = self._clock()
        pending = self._in_flight.received(correlation_id, now)
        if pending is None:
            self._answers.forget()
            self._passes = True
            return total
        self._answers.begin(pending, total, now)
        return self._answers.read(window)

    def on_sent(self) -> bool:
        """Learn from the bytes that have been sent, and notify those who wait for the end of a
        response."""
        if self._in_flight.answer is DECIDED:
            if not self._answers.on_sent():
                return False
        elif not self._passes:
            return True
        self._passes = False
        self._in_flight.responded()
        return True

    def lost(self, now: float) -> None:
        """End the response, if there is one, of a connection that has ended."""
        if self._in_flight.answer is DECIDED:
            self._answers.lost(now)


def passable_responses(
    window: Window, in_flight: InFlightRequests, most: int = MAX_FRAMES
) -> tuple[int, tuple[int, int] | None]:
    """Return how many bytes at the window's start may go on to the follower, and the response behind them if all of it
    is there: where it ends, and its correlation id. If any bytes may go on, `in_flight.responded` is due."""
    buffer, at, end = window.buffer, window.start, window.end
    for _ in range(most):
        whole = whole_response(buffer, at, end)
        if whole is None or not in_flight.received_whole(whole[1]):
            return at - window.start, whole
        at = whole[0]
        if at == end:
            break
    return at - window.start, None
