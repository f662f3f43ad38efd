"""What a reader of frames tells its direction to do next.

    read(window) ─┬─▶ n                 the next n bytes go on, wherever they are
                  ├─▶ Replace(n, data)  the next n bytes, all in the window, do not go on; `data` does
                  ├─▶ Need(least)       nothing can be told before so many bytes are there
                  └─▶ Wait.HELD, Wait.END

Values only. Invariant: the same bytes cut in any other way are told the same.
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
    """Of one direction of one connection: no I/O, no waiting."""

    def read(self, window: Window) -> Step:
        """What is to be done with what is in the window. Raises ProtocolError."""

    def through(self) -> bool:
        """What was told to go has gone, all of it; true if nothing but another frame can follow."""


def rest(window: Window, *, opaque: bool) -> Step:
    """What is told where there is no frame to look at: none has begun, or they cannot be told apart any more."""
    if window.size and (opaque or window.ended):
        return window.size
    if window.ended:
        return Wait.END
    return ANYTHING if opaque else BETWEEN_FRAMES
