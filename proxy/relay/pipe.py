"""Record bytes from one socket to the other inside the kernel, through a pipe: they never come to Python.

0.13-0.18 s of CPU per GB where any copy costs 0.25-0.45 (measured), which on a busy host is what decides whether a
sidecar slows a move down. Linux only; where there is no splice, or no room for another pipe, bytes are copied.

Invariant: between two moves the pipe is empty; after a broken one it is good for nothing but `close`.
"""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING

from .copying import ConnectionEndedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from .leg import Leg

PIPE_BYTES = 1024 * 1024
"""fs.pipe-max-size, beyond which an unprivileged process may not go."""


class Pipe:
    """One per direction of a connection that has something large to move."""

    def __init__(self) -> None:
        """Raises OSError where pipes of this size are not to be had."""
        self._out, self._in = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            fcntl.fcntl(self._in, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        os.close(self._in)
        os.close(self._out)

    async def move(self, source: Leg, to: Leg, size: int, count: Callable[[int], None]) -> None:
        """Move exactly the next `size` bytes. Raises ConnectionEndedError if fewer come, OSError if either breaks."""
        left, inside = size, 0
        while left or inside:
            if left and (source.reading.ready or not inside):
                entered = await self._enter(source, left, inside=inside)
                left -= entered
                inside += entered
            try:
                moved = os.splice(self._out, to.sock.fileno(), inside)
            except BlockingIOError:
                to.writing.ready = False
                await to.writable()
            else:
                inside -= moved
                count(moved)
                if to.moves(moved):
                    await to.turn()

    async def _enter(self, source: Leg, left: int, *, inside: int) -> int:
        """Fill the pipe with what is there; wait for it only if the pipe is empty."""
        while True:
            if not inside:
                await source.readable()
            try:
                entered = os.splice(source.sock.fileno(), self._in, min(left, PIPE_BYTES))
            except BlockingIOError:
                # A pipe that holds something may be what is full.
                if inside:
                    return 0
                source.reading.ready = False
            else:
                if not entered:
                    raise ConnectionEndedError(f"the peer closed {left} bytes before the end of a frame")
                return entered


def open_pipe() -> Pipe | None:
    """Return a pipe, or None where bytes are to be copied instead."""
    if not hasattr(os, "splice"):
        return None
    try:
        return Pipe()
    except OSError:
        return None
