"""Log lines on their way out: who logs never waits and never fails, whatever becomes of the log's reader.

A thread writes what others put. While nothing reads, lines wait up to two bounds; those beyond them are dropped and
counted, and so are those that a dead reader or a full disk does not take. Knows lines, not their content.

Invariant: `LogQueue.write` returns at once and raises nothing; lines that come out are in the order they were put.
"""

from __future__ import annotations

import enum
import os
import select
import threading
from collections import Counter, deque
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MAX_LINES = 10_000
MAX_BYTES = 16 * 2**20
"""The most bytes of all waiting lines together; a line that would exceed it is dropped."""
FINISH_SECONDS = 1.0
"""The longest time for which the end of the process waits for lines that are not written yet, if nothing reads the
pipe."""
_WRITABLE_SECONDS = 1.0


class Dropped(enum.StrEnum):
    """Reason why a line was dropped. The value is the metric label `reason`."""

    FULL = "full"
    """The queue was full: the log is not read, or not fast enough."""
    FAILED = "failed"
    """The line could not be written (the reader is gone, the disk is full) or could not be rendered."""
    SUPPRESSED = "suppressed"
    """The line is one too many of its cause (`proxy.logs.log`)."""


class LogQueue:
    """Takes the place of a text stream; each call writes one whole line with its line break.

    Args:
        dropped: counts the lines that are dropped, by reason.
        tell: makes the line that says how many lines were dropped. It is written once everything that waited has been.
    """

    def __init__(
        self,
        stream: TextIO,
        dropped: Counter[Dropped] | None = None,
        *,
        tell: Callable[[int], str] | None = None,
        most_lines: int = MAX_LINES,
    ) -> None:
        self.dropped = Counter[Dropped]() if dropped is None else dropped
        self._output = _Output(stream)
        self._tell = tell
        self._missing = 0
        """Lines dropped since the last line that reported dropped ones."""
        self._most_lines = most_lines
        self._is_terminal = stream.isatty()
        self._lines: deque[bytes] = deque()
        self._bytes = 0
        self._writing = False
        self._changed = threading.Condition()
        threading.Thread(target=self._write_on, name="log", daemon=True).start()

    def write(self, line: str) -> int:
        """Queue a line, to be written at once. Also from other threads."""
        encoded = line.encode("utf-8", "backslashreplace")
        with self._changed:
            if len(self._lines) >= self._most_lines or self._bytes + len(encoded) > MAX_BYTES:
                self._drop(Dropped.FULL)
            else:
                self._lines.append(encoded)
                self._bytes += len(encoded)
                self._changed.notify_all()
        return len(line)

    def flush(self) -> None:
        """Do nothing: every line is already on its way."""

    def isatty(self) -> bool:
        return self._is_terminal

    def finish(self, timeout_seconds: float = FINISH_SECONDS) -> bool:
        """Wait until every line taken so far is written or dropped, for at most `timeout_seconds`. Return whether that
        is so."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._lines and not self._writing, timeout_seconds)

    def _write_on(self) -> None:
        while True:
            with self._changed:
                self._writing = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._lines)
                line = self._lines.popleft()
                self._bytes -= len(line)
                self._writing = True
            if not self._output.write(line):
                with self._changed:
                    self._drop(Dropped.FAILED)
            elif self._missing and not self._lines and self._tell is not None:
                self._tell_of_missing(self._tell)

    def _tell_of_missing(self, tell: Callable[[int], str]) -> None:
        missing = self._missing
        if self._output.write(tell(missing).encode("utf-8", "backslashreplace")):
            with self._changed:
                self._missing -= missing

    def _drop(self, reason: Dropped) -> None:
        self.dropped[reason] += 1
        self._missing += 1


class _Output:
    """Writes to the stream's descriptor, if it has one. Python's stream objects have a lock, and a thread that hangs in
    it would keep the interpreter from ending."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        try:
            self._descriptor: int | None = stream.fileno()
        except (OSError, ValueError, AttributeError):  # io.UnsupportedOperation is the first two
            self._descriptor = None
        self._is_cut = False
        """True if the disk took only a part of the last line, so the next is begun with a line break."""

    def write(self, line: bytes) -> bool:
        """Return whether the whole line was written. Blocks until the pipe is read."""
        try:
            if self._descriptor is None:
                self._stream.write(line.decode())
                self._stream.flush()
            else:
                self._write_all(self._descriptor, b"\n" + line if self._is_cut else line)
        except (OSError, ValueError):
            return False
        return True

    def _write_all(self, descriptor: int, line: bytes) -> None:
        left = memoryview(line)
        while left:
            try:
                left = left[os.write(descriptor, left) :]
            except BlockingIOError:  # a pipe or a terminal that is non-blocking
                select.select([], [descriptor], [], _WRITABLE_SECONDS)
            except OSError:
                self._is_cut = self._is_cut or 0 < len(left) < len(line)
                raise
        self._is_cut = False


def told(dropped: Mapping[Dropped, int]) -> list[tuple[tuple[str], int]]:
    """Return the counts as the metric has them: every reason has one from the start, even if it is 0."""
    return [((reason.value,), dropped.get(reason, 0)) for reason in Dropped]
