"""One direction of one connection, as a state machine that never waits.

    advance():  receive what is there ─▶ ask the reader ─▶ send, until the kernel says stop
                returns what it needs to go on: READ | WRITE | HELD | TURN | END

A reader of frames says what to do next:

    read(window) ─┬─▶ n                 the next n bytes go on, wherever they are
                  ├─▶ Replace(n, data)  the next n bytes, all in the window, do not go on; `data` does
                  ├─▶ Need(least)       nothing can be decided before so many bytes are there
                  └─▶ Wait.HELD, Wait.TURN, Wait.END

The part that waits for that (`poller` by epoll, `connection` by Trio where there is none) calls `advance` again. Knows
no frames, no clock but that of its turn.

Invariant: nothing is read while something that was told to go has not gone: that is the back-pressure.
"""

from __future__ import annotations

import enum
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from .transfer import BETWEEN_FRAMES, Need
from .transport import END, READ, TURN, ConnectionEndedError, Wait

if TYPE_CHECKING:
    from collections.abc import Callable

    from protocol.wire.framing import Bytes

    from .transfer import Transfer, Window


class Cause(enum.Enum):
    """The reason why a connection ended; the value is the log's."""

    FOLLOWER_CLOSED = "follower_closed"
    LEADER_CLOSED = "leader_closed"
    CONNECT_FAILED = "connect_failed"
    BROKEN = "connection_broken"
    MALFORMED = "malformed_frame"
    FRAME_TIMEOUT = "frame_timeout"
    """A request that has to be whole was not, for 30 s."""
    IDLE = "idle"
    """The connection moved nothing for `limits.idle_timeout`."""
    DRAINED = "drained"
    HANDED_OVER = "handed_over"
    """The connection goes on in another process, unnoticed by either peer."""
    INTERNAL = "internal_error"


class Replace(NamedTuple):
    size: int
    data: Bytes


Step: TypeAlias = int | Replace | Need | Wait

ANYTHING = Need(1, left=1)
MAX_FRAMES = 64
"""The most whole frames that a reader passes on in one step, which takes some 0.1 ms: the clock is looked at after
each step, and a turn lasts 0.3 ms."""


class Reader(Protocol):
    """Reads the frames of one direction of one connection: no I/O, no waiting."""

    def read(self, window: Window) -> Step:
        """Return what is to be done with what is in the window. Raises ProtocolError."""

    def on_sent(self) -> bool:
        """Note that all bytes to be sent have been; return True if they ended with the end of a frame."""


def rest(window: Window, *, opaque: bool) -> Step:
    """Return the step where there is no frame to read: none has begun, or the connection is opaque and has no
    frames."""
    if window.size and (opaque or window.ended):
        return window.size
    if window.ended:
        return Wait.END
    return ANYTHING if opaque else BETWEEN_FRAMES


class Direction:
    """One direction of one connection. `ends`: why the connection ended, if this direction's source is what ended."""

    __slots__ = ("_need", "_turn_clock", "ends", "reader", "transfer", "wants")

    def __init__(
        self, reader: Reader, transfer: Transfer, ends: Cause, turn_clock: Callable[[], float] = perf_counter
    ) -> None:
        self.reader = reader
        self.transfer = transfer
        self.ends = ends
        self.wants: Wait = READ
        """The last result of `advance`, recorded by its connection."""
        self._need: Need | None = BETWEEN_FRAMES
        self._turn_clock = transfer.turn_clock = turn_clock

    def data_available(self) -> None:
        """Give the reader the window, which holds bytes that it has not seen."""
        self._need = None

    def advance(self, turn_ends: float) -> Wait:  # noqa: C901 - every frame goes through here, and each call costs
        """Advance as far as possible, until `turn_ends` by the turn clock.

        Raises OSError when either side is broken, ProtocolError when frames are.
        """
        transfer, reader = self.transfer, self.reader
        window = transfer.window
        transfer.turn_ends = turn_ends
        if transfer.owes:
            wait = transfer.flush()
            if wait is not None:
                return wait
            reader.on_sent()
        while True:
            need = self._need
            while need is not None:
                received = transfer.receive(need)
                if received <= 0:
                    if received < 0:
                        return READ
                    window.ended = True
                if received >= need.least or window.ended or window.end - window.start >= need.least:
                    need = self._need = None
                elif self._turn_clock() > turn_ends:
                    return TURN
            step = reader.read(window)
            if isinstance(step, int):
                wait = transfer.send(step)
            elif isinstance(step, Replace):
                wait = transfer.replace(step.size, step.data)
            elif isinstance(step, Need):
                if window.ended:
                    raise ConnectionEndedError(f"the peer closed {step.left} bytes before the end of a frame")
                self._need = step
                continue
            else:
                if step is END:
                    transfer.sink.finish_sending()
                return step
            if wait is not None:
                return wait
            if reader.on_sent() and window.start == window.end:
                self._need = BETWEEN_FRAMES
                if not transfer.source.readable:
                    return READ
            if self._turn_clock() > turn_ends:
                return TURN
