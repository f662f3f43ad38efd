"""The part of a leg's stream that is in memory: one reused buffer with a read position and an end.

Large buffers are anonymous mmaps: pages that are never touched cost nothing, and a fresh bytearray per frame is
three to four times slower (measured). Knows no frames.

Invariant: 0 <= start <= end <= capacity; bytes before `start` are gone, bytes from `end` on are not read yet.
"""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .leg import Leg


READ_AHEAD_BYTES = 16 * 1024
"""Where a frame begins its length is not known: what is read ahead of it cannot be spliced any more."""


class Window:
    """`buffer` may be replaced by `reserve`: hold no views of it across an await."""

    __slots__ = ("_ahead", "_view", "buffer", "capacity", "end", "leg", "start")

    def __init__(self, leg: Leg, capacity: int) -> None:
        self.leg = leg
        self.capacity = capacity
        self.buffer = mmap.mmap(-1, capacity)
        self._view = memoryview(self.buffer)
        self._ahead = self._view[:READ_AHEAD_BYTES]
        self.start = 0
        self.end = 0

    @property
    def size(self) -> int:
        return self.end - self.start

    async def fill(self, size: int) -> bool:
        """Have at least `size` bytes from `start` on, or all there are: False if the stream ends before."""
        while self.end - self.start < size:
            self._make_room(size)
            most = max(size - self.end + self.start, READ_AHEAD_BYTES)
            received = await self.leg.receive_into(self._view[self.end : min(self.end + most, self.capacity)])
            if not received:
                return False
            self.end += received
        return True

    def receive_now(self) -> int:
        """Read once into the empty window, without waiting: how many bytes; 0 at the end, -1 if there is nothing yet.

        Raises OSError.
        """
        received = self.leg.receive_now(self._ahead)
        self.start, self.end = 0, max(received, 0)
        return received

    async def more(self, at_most: int) -> bool:
        """Read once, at most so many bytes; False at the end of the stream."""
        self._make_room(self.size + 1)
        received = await self.leg.receive_into(self._view[self.end : min(self.end + at_most, self.capacity)])
        self.end += received
        return received > 0

    async def look(self) -> bool:
        """Have a copy of what has come in the empty window; False at the end of the stream.

        To be followed by `take_looked` or `forget_looked`; nothing else may read from the leg before that.
        """
        self.start, self.end = 0, await self.leg.peek_into(self._view)
        return self.end > 0

    def take_looked(self) -> None:
        """What was looked at is read: it is the window's now."""
        self.end = self.leg.sock.recv_into(self._view[: self.end])

    def forget_looked(self) -> None:
        """What was looked at is read by somebody else."""
        self.start = self.end = 0

    def peek(self, size: int) -> bytes:
        """Return the next `size` bytes, which are in the window."""
        return self.buffer[self.start : self.start + size]

    def view(self, size: int) -> memoryview:
        """The next `size` bytes, which are in the window, for as long as nothing is read into it."""
        return self._view[self.start : self.start + size]

    def take(self, size: int) -> None:
        """Done with the next `size` bytes."""
        self.start += size
        if self.start == self.end:
            self.start = self.end = 0

    def rest(self) -> None:
        """Nothing has come for a while: while the buffer is empty, its pages are the system's again."""
        # The mapping is shared, as Python's are by default: MADV_DONTNEED would leave its pages.
        if self.start == self.end and hasattr(mmap, "MADV_REMOVE"):
            self.buffer.madvise(mmap.MADV_REMOVE)

    def _make_room(self, size: int) -> None:
        if self.start + size <= self.capacity and self.end < self.capacity:
            return
        kept = self.buffer[self.start : self.end]
        if size > self.capacity:
            self.capacity = size
            self.buffer = mmap.mmap(-1, size)
            self._view = memoryview(self.buffer)
            self._ahead = self._view[:READ_AHEAD_BYTES]
        self.buffer[: len(kept)] = kept
        self.start, self.end = 0, len(kept)
