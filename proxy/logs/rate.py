"""How many lines of one cause a log gets: a thousand peers that do the same cost a bounded number of lines.

A cause is an event with what tells its kinds apart (`CAUSE_KEYS`), never the peer: whoever dials from ten thousand
ports is one cause. Reads no clock; time is an argument. Knows no format.

Invariant: at most `MOST_CAUSES` are remembered, and what was suppressed is said on the next line of its cause.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

WINDOW_SECONDS = 10.0
MOST_LINES = 200
"""Of one cause in a window: more than a rolling restart of a large cluster closes connections (some 10 for each
other broker), less than a disk or a collector notices."""
MOST_CAUSES = 1000
"""Beyond them all new ones are one cause, until windows end."""
CAUSE_KEYS = ("cause", "reason", "role", "task", "signal", "status")


@dataclass(slots=True)
class _Window:
    """The stretch of time in which lines of one kind are counted."""

    began: float
    lines: int = 0
    suppressed: int = 0


class LogRate:
    def __init__(self, *, most_lines: int = MOST_LINES) -> None:
        self._most_lines = most_lines
        self._windows: dict[tuple[object, ...], _Window] = {}

    def admit(self, event: str, keys: Mapping[str, object], now: float) -> int | None:
        """None: this line is one too many. Else how many of its cause were suppressed since the last one."""
        cause = (event, *(str(keys.get(key))[:80] for key in CAUSE_KEYS))
        window = self._windows.get(cause)
        if window is None:
            window = self._begun(cause, now)
        suppressed = 0
        if now - window.began >= WINDOW_SECONDS:
            suppressed, window.suppressed = window.suppressed, 0
            window.began, window.lines = now, 0
        if window.lines >= self._most_lines:
            window.suppressed += 1
            return None
        window.lines += 1
        return suppressed

    def _begun(self, cause: tuple[object, ...], now: float) -> _Window:
        if len(self._windows) >= MOST_CAUSES:
            self._windows = {
                of: window
                for of, window in self._windows.items()
                if window.suppressed or now - window.began < WINDOW_SECONDS
            }
        if len(self._windows) >= MOST_CAUSES:
            cause = ("others",)
        return self._windows.setdefault(cause, _Window(now))
