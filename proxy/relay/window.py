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

    __slots__ = ("buffer", "capacity", "end", "leg", "start")

    def __init__(self, leg: Leg, capacity: int) -> None:
        self.leg = leg
        self.capacity = capacity
        self.buffer = mmap.mmap(-1, capacity)
        self.start = 0
        self.end = 0

    @property
    def size(self) -> int:
        return self.end - self.start

    async def fill(self, size: int) -> bool:
        """Have at least `size` bytes from `start` on, or all there are: False if the stream ends before."""
        self._make_room(size)
        while self.size < size:
            most = max(size - self.size, READ_AHEAD_BYTES)
            if not await self._receive(min(most, self.capacity - self.end), in_frame=self.size > 0):
                return False
        return True

    async def more(self, at_most: int) -> bool:
        """Read once, at most so many bytes; False at the end of the stream."""
        self._make_room(self.size + 1)
        return await self._receive(min(at_most, self.capacity - self.end), in_frame=True)

    def peek(self, size: int) -> bytes:
        """Return the next `size` bytes, which are in the window."""
        return self.buffer[self.start : self.start + size]

    def take(self, size: int) -> None:
        """Done with the next `size` bytes."""
        self.start += size
        if self.start == self.end:
            self.start = self.end = 0

    def _make_room(self, size: int) -> None:
        if self.start + size <= self.capacity and self.end < self.capacity:
            return
        kept = self.buffer[self.start : self.end]
        if size > self.capacity:
            self.capacity = size
            self.buffer = mmap.mmap(-1, size)
        self.buffer[: len(kept)] = kept
        self.start, self.end = 0, len(kept)

    async def _receive(self, size: int, *, in_frame: bool) -> bool:
        with memoryview(self.buffer) as whole, whole[self.end : self.end + size] as view:
            received = await self.leg.receive_into(view, in_frame=in_frame)
        self.end += received
        return received > 0
