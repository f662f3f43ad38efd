"""Log lines on their way out: who logs never waits and never fails, whatever becomes of the log's reader.

A thread writes. While nobody reads, a bounded number of lines waits; those beyond it are dropped and counted, and their
number is the first thing that is said when somebody reads again. Knows lines, nothing of what they say.
Invariant: `write` returns at once and raises nothing.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections import deque
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_LINES = 10_000
MOST_LINE_CHARACTERS = 64 * 1024
"""A traceback is the longest that is logged; what is longer is cut."""
LAST_WORDS_SECONDS = 1.0
"""At the end of the process, for what still waits."""
RETRY_SECONDS = 1.0
"""After a write failed: a full disk may have room again."""


class LogQueue:
    """Stands where a text stream is written to, line by line.

    Args:
        stream: where lines go in the end.
        tell: makes a line of how many were dropped.
    """

    def __init__(self, stream: TextIO, tell: Callable[[int], str], *, most_lines: int = MOST_LINES) -> None:
        self._stream = stream
        self._tell = tell
        self._most_lines = most_lines
        self._waiting: deque[str] = deque()
        self._begun = ""
        self._there = threading.Event()
        self._empty = threading.Event()
        self._empty.set()
        self.dropped = 0
        """Lines that nobody will read, since the start."""
        self._told = 0
        threading.Thread(target=self._write_on, name="log", daemon=True).start()
        atexit.register(self.close)

    def write(self, text: str) -> int:
        """Take it. A line is on its way when its end has come."""
        *lines, self._begun = (self._begun + text).split("\n")
        for line in lines:
            if len(self._waiting) >= self._most_lines:
                self.dropped += 1
            else:
                self._empty.clear()
                self._waiting.append(line[:MOST_LINE_CHARACTERS])
                self._there.set()
        return len(text)

    def flush(self) -> None:
        """Nothing: the thread writes as soon as it can."""

    def isatty(self) -> bool:
        return self._stream.isatty()

    def close(self, *, timeout_seconds: float = LAST_WORDS_SECONDS) -> None:
        """Wait so long for what has been taken to be written."""
        self._empty.wait(timeout_seconds)

    def _write_on(self) -> None:
        while True:
            self._there.wait()
            self._there.clear()
            while self._waiting:
                dropped = self.dropped - self._told
                line = self._tell(dropped) if dropped else self._waiting[0]
                if not self._written(line):
                    self.dropped += len(self._waiting)
                    self._waiting.clear()
                    threading.Event().wait(RETRY_SECONDS)
                elif dropped:
                    self._told += dropped
                else:
                    self._waiting.popleft()
            self._empty.set()

    def _written(self, line: str) -> bool:
        """By its descriptor where it has one: a thread that is stuck in a stream's own lock would keep the process from
        ending."""
        try:
            descriptor = self._stream.fileno()
        except (AttributeError, OSError, ValueError):
            descriptor = -1
        try:
            if descriptor < 0:
                self._stream.write(line + "\n")
                self._stream.flush()
            else:
                left = memoryview((line + "\n").encode("utf-8", "backslashreplace"))
                while left:
                    left = left[os.write(descriptor, left) :]
        except (OSError, ValueError):
            return False
        return True
