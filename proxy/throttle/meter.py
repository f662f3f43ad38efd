"""A smoothed rate for people: what `status` shows per partition and estimates an ETA from.

Quotas never use it (see `simple_rate`, `token_bucket`). Pure: time is an argument, in seconds.
"""

from __future__ import annotations

import math

SMOOTHING_SECONDS = 5.0
"""Long enough to hide the gate's rhythm of 0.1 s, short enough to follow a changed quota while one watches."""


class Meter:
    """Exponentially decaying rate: after `SMOOTHING_SECONDS` without events 37 % of it are left."""

    __slots__ = ("_per_second", "_updated")

    def __init__(self, now: float) -> None:
        self._per_second = 0.0
        self._updated = now

    def add(self, amount: float, now: float) -> None:
        self._per_second = self.per_second(now) + amount / SMOOTHING_SECONDS
        self._updated = now

    def per_second(self, now: float) -> float:
        return self._per_second * math.exp(-(now - self._updated) / SMOOTHING_SECONDS)
