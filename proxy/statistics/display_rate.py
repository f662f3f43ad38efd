"""A smoothed rate for people: `status` shows it per partition and estimates an ETA from it.

Quotas never use it (see package `admission`). Pure: time is an argument, in seconds.
"""

from __future__ import annotations

import math

SMOOTHING_SECONDS = 5.0
"""The time constant: long enough to hide that grants come every 0.1 s, short enough for a person who has changed a
quota to see it."""
SILENT_SECONDS = 6 * SMOOTHING_SECONDS
"""The time without bytes after which the rate is 0. A quarter of a percent of it would be left, and an estimated time
of arrival made from that would grow without end."""
FOLD_SECONDS = 0.2
"""The time within which amounts are added up before the rate is worked out anew, which costs an exponential function:
as much as everything else that is noted of a partition of an answer."""


GROWTH_SECONDS = 10.0
"""The time constant of growth, twice `link.REFRESH_SECONDS`: high watermarks of partitions that are left out are heard
of that often."""


class DisplayRate:
    """Exponentially decaying rate: after `SMOOTHING_SECONDS` without events 37 % of it are left, after
    `SILENT_SECONDS` nothing."""

    __slots__ = ("_per_second", "added", "updated")

    def __init__(self, now: float) -> None:
        self._per_second = 0.0
        self.added = 0.0
        self.updated = now

    def add(self, amount: float, now: float) -> None:
        """Add an amount. `Replica.delivered` does the same by itself, since a call costs more."""
        if now - self.updated >= FOLD_SECONDS:
            self.fold(now)
        self.added += amount

    def fold(self, now: float) -> None:
        """Work out the rate anew, and begin to add up."""
        self._per_second, self.added, self.updated = self.per_second(now), 0.0, now

    def per_second(self, now: float) -> float:
        if now - self.updated >= SILENT_SECONDS:
            return 0.0
        at_update = self._per_second + self.added / SMOOTHING_SECONDS
        return at_update * math.exp(-(now - self.updated) / SMOOTHING_SECONDS)


class GrowthMeter:
    """A rate over about the last `GROWTH_SECONDS` that is right from its first second on: bytes that came in one second
    are not divided by ten while only one has been seen."""

    __slots__ = ("_amount", "_began", "_updated")

    def __init__(self) -> None:
        self._amount = 0.0
        self._began: float | None = None
        self._updated = 0.0

    def begin(self, now: float) -> None:
        """Count from `now` on, unless it was begun before."""
        if self._began is None:
            self._began = self._updated = now

    def add(self, amount: float, now: float) -> None:
        self.begin(now)
        self._amount = self._faded(now) + amount
        self._updated = now

    def per_second(self, now: float) -> float:
        if self._began is None or now <= self._began:
            return 0.0
        # What a steady rate of 1 per second would have left in the fading sum by now.
        seen_seconds = GROWTH_SECONDS * -math.expm1(-(now - self._began) / GROWTH_SECONDS)
        return self._faded(now) / max(seen_seconds, 1.0)

    def _faded(self, now: float) -> float:
        return self._amount * math.exp(-max(now - self._updated, 0.0) / GROWTH_SECONDS)
