"""The part of a stream that is in memory: one reused buffer with a read position and an end.

Large buffers are anonymous mmaps: pages that are never touched cost nothing, and a fresh bytearray per frame is
three to four times slower (measured). Knows neither frames nor sockets.

Invariant: 0 <= start <= end <= capacity; bytes before `start` are gone, bytes from `end` on are not read yet.
"""

from __future__ import annotations

import mmap

READ_AHEAD_BYTES = 16 * 1024
"""How much is read where a frame begins, whose length is not known yet: what has been read cannot be spliced any
more."""


class Window:
    """`space` may replace `buffer`, so views of it must not be kept."""

    __slots__ = ("ahead", "buffer", "capacity", "end", "ended", "is_peeked", "memory", "start")

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.buffer = mmap.mmap(-1, capacity)
        self.memory = memoryview(self.buffer)
        """The buffer, to be sliced without a copy."""
        self.ahead = self.memory[:READ_AHEAD_BYTES]
        """Where the first bytes of a frame are read to while the window is empty."""
        self.start = 0
        self.end = 0
        self.ended = False
        """No more will come."""
        self.is_peeked = False
        """What is here is a copy: the socket has these bytes still."""

    @property
    def size(self) -> int:
        return self.end - self.start

    def space(self, least: int, most: int) -> memoryview:
        """Free memory to read into, `most` bytes of it at most. The window grows, or moves its bytes to the front, so
        that `least` bytes from `start` on have room."""
        if self.start == self.end:
            self.start = self.end = 0
        if self.start + least > self.capacity or self.end == self.capacity:
            self._make_room(least)
        return self.memory[self.end : min(self.end + most, self.capacity)]

    def view(self, size: int) -> memoryview:
        """The next `size` bytes, which are here, for as long as nothing is read into the window."""
        return self.memory[self.start : self.start + size]

    def rest(self) -> None:
        """Give the pages of an empty buffer back to the system, where nothing has come for a while."""
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
