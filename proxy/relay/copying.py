"""Bytes that need no look: from a window to the other leg, in order, never more in memory than the window holds.

Knows no frames. Invariant: what was handed to the kernel is counted, piece by piece, and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from .leg import Leg
    from .pipe import Pipe
    from .window import Window


LEAST_SPLICED_BYTES = 128 * 1024
"""A splice's two calls and waits are worth it from here on; less is copied (measured)."""


class ConnectionEndedError(ConnectionError):
    """A peer finished sending in the middle of a frame."""


async def copy(window: Window, to: Leg, size: int, count: Callable[[int], None], *, pipe: Pipe | None = None) -> None:
    """Pass exactly the next `size` bytes on, large rests through `pipe`. Raises ConnectionEndedError if fewer come."""
    left = size
    while left:
        if pipe is not None and not window.size and left >= LEAST_SPLICED_BYTES:
            await pipe.move(window.leg, to, left, count)
            return
        if not window.size and not await window.more(min(left, window.capacity)):
            raise ConnectionEndedError(f"the peer closed {left} bytes before the end of a frame")
        passable = min(left, window.size)
        await send(window, to, passable, count)
        left -= passable


async def copy_rest(window: Window, to: Leg, count: Callable[[int], None]) -> None:
    """Pass on whatever comes until the peer finishes sending."""
    while window.size or await window.more(window.capacity):
        await send(window, to, window.size, count)


async def send(window: Window, to: Leg, size: int, count: Callable[[int], None]) -> None:
    """Pass on the next `size` bytes, which are in the window."""
    await to.send_all(window.view(size))
    window.take(size)
    count(size)
