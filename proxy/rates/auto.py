"""The rate that does not hurt: raised while every signal is calm, lowered as soon as one says that somebody waits.

Each signal says how near it is to hurting, as a pressure: 0 is its best, 1 is as much as may be. The rate

- is lowered when a pressure is above 1, once for each new value of that signal. A severe pressure halves it; a smaller
  one lowers it by less, and if it is only a little above 1, two values in a row have to say so. If less went through
  than the rate allowed, the rate is lowered from that: bytes that did not go through cannot have hurt;
- stays between `CALM` and 1: without that gap it would swing;
- is raised while all are below `CALM`, by half each second until something has hurt for the first time; from then on in
  steps that begin small and grow, and no nearer to where it hurt than `SHY` for `SHY_SECONDS`;
- is not raised while it is not used, nor before every signal has had a new value since the last raise: it rises no
  faster than its effect can be seen.

Pure: time is an argument. Invariant: what is chosen lies between the bounds of the source; the same signals at the same
times give the same rates.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..quotas.rate_source import RateSource
    from .signals import Reading

CALM = 0.8
SEVERE = 2.0
"""A pressure that halves the rate."""
BELIEVED = 1.5
"""From this pressure on, one value is believed. A smaller pressure may be noise, so a second value has to confirm
it."""
CUT, LEAST_CUT = 0.5, 0.95
"""The shares of the rate that are left after a severe pressure, and after one just above 1. Between them the cut grows
with the square of what is above 1: it is small near 1, where noise would make the rate swing, and large enough where a
link is full."""
FIRST_RAISE = 1.5
"""The factor of each raise before anything has hurt. With one raise a second, 10 MiB/s become 800 in eleven seconds."""
LEAST_RAISE, MOST_RAISE = 0.02, 0.2
RAISE_GROWTH = 1.3
"""The factor by which each raise is larger than the one before, up to `MOST_RAISE`, until something hurts."""
SHY = 0.97
NEAR = 0.85
"""For `SHY_SECONDS` after it has hurt, raises are the largest while the rate is below this share of its limit."""
SHY_SECONDS = 10.0
USED = 0.6
"""A share of the rate: a role that uses less than that has no need of more."""
LEAST_REACHED = 0.5
"""A share of the rate. Where the rate is lowered from what went through, at least so much counts as having gone
through. A broker that stood still for most of a second let next to nothing through, which says nothing of the rate."""
_SLACK_SECONDS = 0.5
"""Looks come about once a second, but not exactly. So a value that is newer than the last raise by less than this is
not new."""


class Verdict(NamedTuple):
    bytes_per_second: float
    signal: str | None
    """The signal that keeps the rate from being higher; None: none does."""
    words: str


class AutoRate:
    """Of one role."""

    def __init__(self) -> None:
        self._hurt_at_rate = math.inf
        self._hurt_at = -math.inf
        self._raised_at = -math.inf
        self._doubted: tuple[str, float] | None = None
        """The signal that was just above 1, and when its value was seen."""
        self._raise = LEAST_RAISE
        self._has_hurt = False

    def choose(
        self, source: RateSource, readings: Sequence[Reading], held: float, *, used: float, now: float
    ) -> Verdict:
        """Return the rate from `now` on. `used`: bytes per second that went through lately."""
        worst = max(readings, key=lambda reading: reading.pressure, default=None)
        if worst is not None and worst.pressure > 1:
            # A high value that was judged before must not hide a new one of another signal.
            new = [reading for reading in readings if reading.pressure > 1 and reading.seen_at > self._hurt_at]
            worst = max(new, key=lambda reading: reading.pressure, default=worst)
            return self._lowered(source, worst, held, max(used, LEAST_REACHED * held), now)
        self._doubted = None
        if worst is not None and worst.pressure > CALM:
            self._raise = LEAST_RAISE
            return Verdict(held, worst.signal, f"as much as {worst.words} allows")
        return self._raised(source, readings, held, used, now)

    def _lowered(self, source: RateSource, worst: Reading, held: float, reached: float, now: float) -> Verdict:
        stays = Verdict(held, worst.signal, f"{worst.words} is too much, looked at again")
        if worst.seen_at <= self._hurt_at:
            return stays
        if held <= source.least:
            # This says nothing of the rate, so it is not remembered as one that hurt: once the others that are to
            # blame are done, catch-up is soon back where it was.
            return Verdict(held, worst.signal, f"{worst.words} is too much, and no lower rate is allowed")
        if worst.pressure < BELIEVED:
            doubted = self._doubted
            if doubted is None or doubted[0] != worst.signal:
                self._doubted = worst.signal, worst.seen_at
                return stays
            if worst.seen_at <= doubted[1]:
                return stays
        self._doubted = None
        hurts = min(held, reached)
        self._has_hurt, self._hurt_at, self._hurt_at_rate, self._raise = True, now, hurts, LEAST_RAISE
        above = (worst.pressure - 1) / (SEVERE - 1)
        left = min(max(1 - (1 - CUT) * above * above, CUT), LEAST_CUT)
        lower = max(hurts * left, source.least)
        return Verdict(lower, worst.signal, f"lowered: {worst.words} is too much")

    def _raised(self, source: RateSource, readings: Sequence[Reading], held: float, used: float, now: float) -> Verdict:
        if not readings:
            return Verdict(held, None, "nothing says whether it would hurt")
        if used < USED * held:
            return Verdict(held, None, "nothing needs more")
        if held >= source.most:
            return Verdict(source.most, None, "nothing hurts")
        late = next((each for each in readings if each.seen_at <= self._raised_at + _SLACK_SECONDS), None)
        if late is not None:
            return Verdict(held, late.signal, f"{late.words} is not known anew since the rate was raised")
        if not self._has_hurt:
            self._raised_at = now
            return Verdict(min(held * FIRST_RAISE, source.most), None, "raised: nothing hurts")
        most = source.most
        if now - self._hurt_at < SHY_SECONDS:
            most = min(most, max(SHY * self._hurt_at_rate, source.least))
            if held >= most:
                return Verdict(held, None, "just below where it hurt")
        step = MOST_RAISE if held < NEAR * most and now - self._hurt_at < SHY_SECONDS else self._raise
        self._raise = min(self._raise * RAISE_GROWTH, MOST_RAISE)
        self._raised_at = now
        return Verdict(min(held * (1 + step), most), None, "raised: nothing hurts")
