"""The part of a stream that is in memory: one reused buffer with a read position and an end.

Large buffers are anonymous mmaps: pages that are never touched cost nothing, and a fresh bytearray per frame is
three to four times slower (measured). Knows neither frames nor sockets.

Invariant: 0 <= start <= end <= capacity; bytes before `start` are gone, bytes from `end` on are not read yet.
"""

from __future__ import annotations

import mmap

READ_AHEAD_BYTES = 16 * 1024
"""Where a frame begins its length is not known: what is read ahead of it cannot be spliced any more."""


class Window:
    """`buffer` may be replaced by `space`: nobody keeps views of it."""

    __slots__ = ("ahead", "buffer", "capacity", "end", "ended", "is_look", "memory", "start")

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.buffer = mmap.mmap(-1, capacity)
        self.memory = memoryview(self.buffer)
        """The buffer, to be sliced without a copy."""
        self.ahead = self.memory[:READ_AHEAD_BYTES]
        """Where to read to between two frames, if there is nothing here."""
        self.start = 0
        self.end = 0
        self.ended = False
        """No more will come."""
        self.is_look = False
        """What is here is a copy: the socket has these bytes still."""

    @property
    def size(self) -> int:
        return self.end - self.start

    def space(self, least: int, most: int) -> memoryview:
        """Where to read to, so that `least` bytes from `start` on have room: at most `most` bytes of it."""
        if self.start == self.end:
            self.start = self.end = 0
        if self.start + least > self.capacity or self.end == self.capacity:
            self._make_room(least)
        return self.memory[self.end : min(self.end + most, self.capacity)]

    def view(self, size: int) -> memoryview:
        """The next `size` bytes, which are here, for as long as nothing is read into the window."""
        return self.memory[self.start : self.start + size]

    def take(self, size: int) -> None:
        """Done with the next `size` bytes. What they were stays in the buffer until something is read."""
        self.start += size

    def rest(self) -> None:
        """Nothing has come for a while: while the buffer is empty, its pages are the system's again."""
        # The mapping is shared, as Python's are by default: MADV_DONTNEED would leave its pages.
        if self.start == self.end and hasattr(mmap, "MADV_REMOVE"):
            self.buffer.madvise(mmap.MADV_REMOVE)

    def _make_room(self, size: int) -> None:
        kept = self.buffer[self.start : self.end]
        if size > self.capacity:
            self.capacity = size
            self.buffer = mmap.mmap(-1, size)
            self.memory = memoryview(self.buffer)
            self.ahead = self.memory[:READ_AHEAD_BYTES]
        self.buffer[: len(kept)] = kept
        self.start, self.end = 0, len(kept)
