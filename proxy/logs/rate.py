"""How many lines of one cause a log gets: a thousand peers that do the same cost a bounded number of lines.

A cause is an event with what tells its kinds apart (`CAUSE_KEYS`), never the peer: whoever dials from ten thousand
ports is one cause. Reads no clock; time is an argument. Knows no format.

Invariant: of each event, and the sidecar has some hundred, at most `MOST_CAUSES` causes are remembered and one for all
others; what was suppressed is said on the next line of its cause, or, once that is forgotten, of its event.
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
MOST_CAUSES = 100
"""Of one event. Beyond them all its new ones are one cause, until windows end; other events have causes of their own,
since a peer can make up a word but no event."""
CAUSE_KEYS = ("cause", "reason", "role", "task", "signal", "status")


_OTHERS = ("others",)


@dataclass(slots=True)
class _Window:
    """The stretch of time in which lines of one kind are counted."""

    began: float
    lines: int = 0
    suppressed: int = 0


class _Event:
    def __init__(self) -> None:
        self.windows: dict[tuple[str, ...], _Window] = {}
        """By cause."""
        self.untold = 0
        """Lines suppressed of causes that are forgotten."""

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
        """None: this line is one too many. Else how many of its cause were suppressed since the last one."""
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
