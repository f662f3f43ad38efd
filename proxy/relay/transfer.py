"""Moves bytes from one transport to the other by way of a window: what is to be sent is sent, until the kernel says
stop.

How bytes go is decided here and nowhere else: records large enough from socket to socket inside the kernel, the rest
through the window; where partitions are small but many, a copy of what has come is looked at while the bytes stay in
the socket, and they are spliced as well. Knows no frames, only how much of one is still to come.

Invariant: bytes go in the order in which they were told to; what was handed to the kernel is counted, and nothing else.
"""

from __future__ import annotations

import mmap
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

from .transport import READ, TURN, WOULD_WAIT, WRITE, ConnectionEndedError, Pipe, open_pipe

if TYPE_CHECKING:
    from collections.abc import Callable

    from protocol.wire.framing import Bytes

    from .transport import Transport, Wait

READ_AHEAD_BYTES = 16 * 1024
"""How much is read where a frame begins, whose length is not known yet: what has been read cannot be spliced any
more."""
MIN_SPLICED_BYTES = 128 * 1024
"""The size from which on records are cheaper to splice, with its two system calls and their waits, than to copy
(measured)."""
LARGE_BYTES = 512 * 1024
"""The size of records after which the next partition's are expected to be as large, so that little is read ahead of
them: what has been read cannot be spliced any more. Answers of 8 x 1 MB, to a reader with Kafka's socket buffers, then
have twice the throughput; answers of 40 x 200 KB are better copied."""
MIN_PEEKED_BYTES = 64 * 1024
"""The size from which on it costs less to peek at bytes in the socket and then splice them than to copy them into the
window and out again."""
MAX_VAIN_PEEKS = 4
"""How often in one frame peeking may find fewer than `MIN_PEEKED_BYTES` before it is given up: from a leader that has
Kafka's own socket buffers, so many bytes are never there at once."""


class Need(NamedTuple):
    """The window has to hold at least `least` bytes. `left`: bytes of the present frame that are still to come; 0: not
    known."""

    least: int
    left: int = 0


BETWEEN_FRAMES = Need(1)


class Window:
    """The part of a stream that is in memory: one reused buffer with a read position and an end.

    Large buffers are anonymous mmaps: pages that are never touched cost nothing, and a fresh bytearray per frame is
    three to four times slower (measured). `space` may replace `buffer`, so views of it must not be kept.

    Invariant: 0 <= start <= end <= capacity; bytes before `start` are gone, bytes from `end` on are not read yet.
    """

    __slots__ = ("ahead", "buffer", "capacity", "end", "ended", "is_peeked", "memory", "start")

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.buffer = mmap.mmap(-1, capacity)
        self.memory = memoryview(self.buffer)
        """The buffer, to be sliced without a copy."""
        self.ahead = self.memory[:READ_AHEAD_BYTES]
        """The buffer into which the first bytes of a frame are read while the window is empty."""
        self.start = 0
        self.end = 0
        self.ended = False
        """True once the source has finished sending."""
        self.is_peeked = False
        """True if the window holds a copy of bytes that are still in the socket."""

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
        """Return the next `size` bytes, which are here, for as long as nothing is read into the window."""
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


class Transfer:
    """Moves the bytes of one direction. A flush that is not done by `turn_ends` (of the turn clock) stops there."""

    __slots__ = (
        "_count", "_may_splice", "_peeks_left", "_pipe", "_read_little", "_to_pass", "_to_pipe", "_unsent", "owes",
        "sink", "source", "turn_clock", "turn_ends", "window",
    )  # fmt: skip

    def __init__(
        self, source: Transport, sink: Transport, window: Window, *, count: Callable[[int], None], splices: bool
    ) -> None:
        self.source = source
        self.sink = sink
        self.window = window
        self.owes = False
        """True if bytes given to `send` or `replace` are not all sent yet."""
        self.turn_ends = 0.0
        self.turn_clock: Callable[[], float] = perf_counter
        """The clock of `turn_ends`; its direction gives it its own."""
        self._count = count
        self._may_splice = splices and source.splices and sink.splices
        self._pipe: Pipe | None = None
        self._unsent: memoryview | None = None
        """The rest of the bytes that stand in place of the source's, while they are being sent."""
        self._to_pass = 0
        """Bytes of the source that are to pass as they are: still in its socket, in the window or in the pipe."""
        self._to_pipe = 0
        """How many of `_to_pass` are to go through the pipe and are not in it yet."""
        self._read_little = False
        self._peeks_left = 0

    def send(self, size: int) -> Wait | None:
        """Pass the next `size` bytes on, those of the window and those that are to come; None: all are through."""
        window = self.window
        start = window.start
        if size <= window.end - start and not window.is_peeked:
            sent = self.sink.send(window.memory[start : start + size])
            window.start = start + sent
            self._count(sent)
            if sent == size:
                return None
            size -= sent
        self._to_pass, self.owes = size, True
        return self.flush()

    def replace(self, size: int, data: Bytes) -> Wait | None:
        """Pass `data` on instead of the next `size` bytes, which are in the window; None: all of it is through."""
        if self.window.is_peeked:
            self._read_peeked()
        self.window.start += size
        sent = self.sink.send(data) if data else 0
        self._count(sent)
        if sent == len(data):
            return None
        self._unsent, self.owes = memoryview(bytes(data[sent:])), True
        return self.flush()

    def flush(self) -> Wait | None:
        """Send more of what is to be sent; None: all of it is through.

        Raises OSError, ConnectionEndedError among them, if the source ends before.
        """
        while self._unsent is not None:
            sent = self.sink.send(self._unsent)
            if not sent:
                return WRITE
            self._count(sent)
            self._unsent = self._unsent[sent:] or None
        while self._to_pass:
            pipe = self._pipe
            if pipe is not None and (self._to_pipe or pipe.holds):
                wait = self._splice(pipe)
            elif self.window.end > self.window.start:
                wait = self._send_window()
            elif self._to_pass >= MIN_SPLICED_BYTES and self._open_pipe():
                self._read_little = self._to_pass >= LARGE_BYTES
                self._to_pipe = self._to_pass
                continue
            else:
                wait = self._receive_more()
            if wait is not None:
                return wait
            if self._to_pass and self.turn_clock() > self.turn_ends:
                return TURN
        self.owes = False
        return None

    def receive(self, need: Need) -> int:
        """Read once: how many bytes came; 0 at the end, WOULD_WAIT if there is nothing yet. Raises OSError."""
        window, source = self.window, self.source
        if need is BETWEEN_FRAMES and window.start == window.end:
            if not source.readable:
                return WOULD_WAIT
            self._read_little = False
            self._peeks_left = MAX_VAIN_PEEKS
            received = source.receive_into(window.ahead)
            window.start = window.end = 0
            if received > 0:
                window.end = received
            return received
        if not need.left:
            self._peeks_left = MAX_VAIN_PEEKS
        elif self._may_peek(need.left) and self._open_pipe():
            return self._peek()
        if window.is_peeked:
            self._read_peeked()
        if not source.readable:
            return WOULD_WAIT
        most = window.capacity if need.left and not self._read_little else READ_AHEAD_BYTES
        self._read_little = False
        received = source.receive_into(window.space(need.least, max(most, need.least - window.size)))
        if received > 0:
            window.end += received
        return received

    def close(self) -> None:
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None

    def _send_window(self) -> Wait | None:
        window = self.window
        if window.is_peeked:
            if self._to_pass >= MIN_PEEKED_BYTES:
                self._peeks_left += 1
                self._read_little = self._to_pass >= LARGE_BYTES
                self._to_pipe = self._to_pass
                window.start, window.is_peeked = window.end, False
                return None
            self._read_peeked()
        size = min(self._to_pass, window.end - window.start)
        sent = self.sink.send(window.view(size))
        window.start += sent
        self._to_pass -= sent
        self._count(sent)
        return None if sent else WRITE

    def _receive_more(self) -> Wait | None:
        if not self.source.readable:
            return READ
        window = self.window
        received = self.source.receive_into(window.space(1, min(self._to_pass, window.capacity)))
        if received == 0:
            raise ConnectionEndedError(f"the peer closed {self._to_pass} bytes before the end of a frame")
        if received < 0:
            return READ
        window.end += received
        return None

    def _splice(self, pipe: Pipe) -> Wait | None:
        if self._to_pipe and (self.source.readable or not pipe.holds):
            entered = pipe.fill(self.source, self._to_pipe) if self.source.readable else WOULD_WAIT
            if entered == 0:
                raise ConnectionEndedError(f"the peer closed {self._to_pipe} bytes before the end of a frame")
            if entered > 0:
                self._to_pipe -= entered
            elif not pipe.holds:
                return READ
        moved = pipe.drain(self.sink)
        self._to_pass -= moved
        self._count(moved)
        return None if moved else WRITE

    def _may_peek(self, left: int) -> bool:
        empty = self.window.start == self.window.end
        return empty and self._peeks_left > 0 and left >= MIN_SPLICED_BYTES and not self._read_little

    def _peek(self) -> int:
        """Copy what has come into the window, and leave it in the socket as well."""
        window = self.window
        self._peeks_left -= 1
        if not self.source.readable:
            self._peeks_left += 1
            return WOULD_WAIT
        received = self.source.peek_into(window.space(1, window.capacity))
        if received > 0:
            window.end += received
            window.is_peeked = True
        elif received < 0:
            self._peeks_left += 1
        return received

    def _read_peeked(self) -> None:
        """Read what was peeked at: the window has the bytes now, and the socket no more."""
        window = self.window
        window.is_peeked = False
        window.end = window.start + max(self.source.receive_into(window.view(window.size)), 0)

    def _open_pipe(self) -> bool:
        """Open this direction's pipe when it is first needed; False where bytes are to be copied."""
        if self._pipe is None and self._may_splice:
            self._pipe = open_pipe()
            self._may_splice = self._pipe is not None
        return self._pipe is not None
