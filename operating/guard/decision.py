"""When a broker's traffic is led around its sidecar, and when back through it.

    THROUGH ──── no answer for `after` ───▶ AROUND
       ▲                                       │
       └──── ready, or alive for a while ──────┘

Pure: time is an argument, in seconds. Invariant: one answer is enough to stay, and one that is missing never enough
to go around: a guard that itself stood still for long, with its machine, looks again first.
"""

from __future__ import annotations

import enum

READY_ANYWAY_SECONDS = 10.0
"""A sidecar that answers for so long and does not say that it is ready relays all the same: a bad quotas.toml, for one,
is a reason not to be ready, and no reason to leave traffic without it."""
LEAST_MISSES = 3
"""Answers that are missing one after the other."""


class Way(enum.Enum):
    THROUGH = "through"
    AROUND = "around"


class Answer(enum.Enum):
    """What the sidecar said to the last question."""

    NONE = "none"
    ALIVE = "alive"
    READY = "ready"


class Guard:
    """`after_seconds` without an answer lead around."""

    def __init__(self, after_seconds: float, now: float) -> None:
        self.way = Way.THROUGH
        self.changes = 0
        self._after_seconds = after_seconds
        self._answered_at = now
        self._alive_since: float | None = None
        self._misses = 0

    def take(self, answer: Answer, now: float) -> bool:
        """Take what was answered by `now`; tell whether the way changes."""
        if answer is Answer.NONE:
            self._alive_since = None
            self._misses += 1
            silent = now - self._answered_at >= self._after_seconds and self._misses >= LEAST_MISSES
            return silent and self.way is Way.THROUGH and self._go(Way.AROUND)
        self._answered_at, self._misses = now, 0
        if self._alive_since is None:
            self._alive_since = now
        waited = now - self._alive_since >= READY_ANYWAY_SECONDS
        return self.way is Way.AROUND and (answer is Answer.READY or waited) and self._go(Way.THROUGH)

    def silent_seconds(self, now: float) -> float:
        return now - self._answered_at

    def _go(self, way: Way) -> bool:
        self.way = way
        self.changes += 1
        return True
