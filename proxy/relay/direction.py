"""One direction of one connection, as a state machine that never waits.

    advance():  receive what is there ─▶ ask the reader ─▶ send, until the kernel says stop
                returns what it needs to go on: READ | WRITE | HELD | TURN | END

Whoever waits for that (`poller` by epoll, `connection` by Trio where there is none) calls `advance` again. Knows no
frames, no clock but that of its turn.

Invariant: nothing is read while something that was told to go has not gone: that is the back-pressure.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

from .reading import Replace
from .transfer import BETWEEN_FRAMES, Need
from .transport import END, READ, TURN, ConnectionEndedError

if TYPE_CHECKING:
    from .exchange import Cause
    from .reading import Reader
    from .transfer import Transfer
    from .transport import Wait


class Direction:
    """One direction of one connection. `ends`: why the connection ended, if this direction's source is what ended."""

    __slots__ = ("_need", "ends", "reader", "transfer", "wants")

    def __init__(self, reader: Reader, transfer: Transfer, ends: Cause) -> None:
        self.reader = reader
        self.transfer = transfer
        self.ends = ends
        self.wants: Wait = READ
        """What `advance` returned last, as its connection notes."""
        self._need: Need | None = BETWEEN_FRAMES

    def has_something(self) -> None:
        """The window holds bytes that the reader has not seen."""
        self._need = None

    def advance(self, turn_ends: float) -> Wait:  # noqa: C901 - every frame goes through here, and each call costs
        """Go on as far as possible, until `turn_ends` by time.perf_counter.

        Raises OSError when either side is broken, ProtocolError when frames are.
        """
        transfer, reader = self.transfer, self.reader
        window = transfer.window
        transfer.turn_ends = turn_ends
        if transfer.owes:
            wait = transfer.flush()
            if wait is not None:
                return wait
            reader.through()
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
                elif perf_counter() > turn_ends:
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
            if reader.through() and window.start == window.end:
                self._need = BETWEEN_FRAMES
                if not transfer.source.readable:
                    return READ
            if perf_counter() > turn_ends:
                return TURN
