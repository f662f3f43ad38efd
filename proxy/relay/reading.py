"""What a reader of frames tells its direction to do next.

    read(window) ─┬─▶ n                 the next n bytes go on, wherever they are
                  ├─▶ Replace(n, data)  the next n bytes, all in the window, do not go on; `data` does
                  ├─▶ Need(least)       nothing can be told before so many bytes are there
                  └─▶ Wait.HELD, Wait.TURN, Wait.END

Values only. Invariant: however the stream is cut into pieces, the same bytes go on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from .transfer import BETWEEN_FRAMES, Need
from .transport import Wait

if TYPE_CHECKING:
    from protocol.wire.buffers import Bytes

    from .window import Window


class Replace(NamedTuple):
    size: int
    data: Bytes


Step: TypeAlias = int | Replace | Need | Wait

ANYTHING = Need(1, left=1)


class Reader(Protocol):
    """Reads the frames of one direction of one connection: no I/O, no waiting."""

    def read(self, window: Window) -> Step:
        """What is to be done with what is in the window. Raises ProtocolError."""

    def through(self) -> bool:
        """All bytes that were told to go on have gone; true if they ended with the end of a frame."""


def rest(window: Window, *, opaque: bool) -> Step:
    """The step where there is no frame to read: none has begun, or the connection is opaque and has no frames."""
    if window.size and (opaque or window.ended):
        return window.size
    if window.ended:
        return Wait.END
    return ANYTHING if opaque else BETWEEN_FRAMES
