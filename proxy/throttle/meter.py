"""A smoothed rate for people: what `status` shows per partition and estimates an ETA from.

Quotas never use it (see package `admission`). Pure: time is an argument, in seconds.
"""

from __future__ import annotations

import math

SMOOTHING_SECONDS = 5.0
"""Long enough to hide the gate's rhythm of 0.1 s, short enough to follow a changed quota while one watches."""
SILENT_SECONDS = 6 * SMOOTHING_SECONDS
"""After so long without events the rate is 0: the quarter of a percent that is left of it says nothing of now, and an
ETA made of it grows without end."""
FOLD_SECONDS = 0.1
"""Amounts so close together count as one: adding must cost next to nothing."""


class Meter:
    """Exponentially decaying rate: after `SMOOTHING_SECONDS` without events 37 % of it are left, after
    `SILENT_SECONDS` nothing."""

    __slots__ = ("_added", "_per_second", "_updated")

    def __init__(self, now: float) -> None:
        self._per_second = 0.0
        self._added = 0.0
        self._updated = now

    def add(self, amount: float, now: float) -> None:
        if now - self._updated >= FOLD_SECONDS:
            self._per_second, self._added, self._updated = self.per_second(now), 0.0, now
        self._added += amount

    def per_second(self, now: float) -> float:
        if now - self._updated >= SILENT_SECONDS:
            return 0.0
        at_update = self._per_second + self._added / SMOOTHING_SECONDS
        return at_update * math.exp(-(now - self._updated) / SMOOTHING_SECONDS)
