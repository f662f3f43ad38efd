"""Limits the log lines per cause: a thousand peers that do the same cost a bounded number of lines.

A cause is an event with the values that tell its kinds apart (`CAUSE_KEYS`). The peer is none of them: a peer that
dials from ten thousand ports is one cause. Reads no clock; time is an argument. Knows no format.

Invariant: for each event, of which the sidecar has about a hundred, at most `MOST_CAUSES` causes are remembered, and
one more for all others. How many lines were suppressed is said on the next line of the same cause; once that cause is
forgotten, on the next line of its event.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

WINDOW_SECONDS = 10.0
MOST_LINES = 200
"""The most lines of one cause in a window. A rolling restart of a large cluster closes fewer connections (some 10 for
each other broker), and a disk or a log collector does not notice so many lines."""
MOST_CAUSES = 100
"""The most causes of one event that are remembered. Beyond them, all new causes of that event count as one, until
windows end. Other events keep causes of their own: a peer can make up a word in a line, but not an event."""
CAUSE_KEYS = ("cause", "reason", "role", "task", "signal", "status")


_OTHERS = ("others",)


@dataclass(slots=True)
class _Window:
    """The stretch of time in which lines of one cause are counted."""

    began: float
    lines: int = 0
    suppressed: int = 0


class _Event:
    def __init__(self) -> None:
        self.windows: dict[tuple[str, ...], _Window] = {}
        """By cause."""
        self.untold = 0
        """Lines that were suppressed, of causes that are forgotten, and that no line has told of yet."""

    def window(self, cause: tuple[str, ...], now: float) -> _Window:
        found = self.windows.get(cause)
        if found is not None:
            return found
        if len(self.windows) >= MOST_CAUSES:
            self._forget_ended(now)
        return self.windows.setdefault(cause if len(self.windows) < MOST_CAUSES else _OTHERS, _Window(now))

    def take_untold(self) -> int:
        untold, self.untold = self.untold, 0
        return untold

    def _forget_ended(self, now: float) -> None:
        for cause, window in list(self.windows.items()):
            if now - window.began >= WINDOW_SECONDS:
                self.untold += window.suppressed
                self.windows.pop(cause, None)  # another thread's line may have forgotten it by now


class LogRate:
    def __init__(self, *, most_lines: int = MOST_LINES) -> None:
        self._most_lines = most_lines
        self._events: dict[str, _Event] = {}

    def admit(self, event: str, keys: Mapping[str, object], now: float) -> int | None:
        """Return None if the line is one too many for its cause. Otherwise it may be written; return how many lines of
        its cause were suppressed since the last one."""
        of_event = self._events.setdefault(event, _Event())
        window = of_event.window(tuple(str(keys.get(key))[:80] for key in CAUSE_KEYS), now)
        suppressed = 0
        if now - window.began >= WINDOW_SECONDS:
            suppressed, window.suppressed = window.suppressed, 0
            window.began, window.lines = now, 0
        if window.lines >= self._most_lines:
            window.suppressed += 1
            return None
        window.lines += 1
        return suppressed + of_event.take_untold()
