"""The rate that does not hurt: raised while every signal is calm, lowered as soon as one says that a client waits.

Each signal says how near it is to hurting, as a pressure: 0 is its best, 1 is as much as may be. Two things are
remembered: the rate in force, and the most that went through in all, catch-up and producers' bytes. So

- if less goes through than the rate allows, twice in a row, whatever carries it is full, and no machine has stood still
  for a moment: the rate becomes `SPARE` of the bytes that went through;
- producers' bytes are left out of the most: after a burst of them the rate is back within two or three looks;
- if a pressure is above 1, the rate is lowered by `CUT` for each 1 of it, once for each new value of that signal. If
  the pressure is only a little above 1, two values in a row have to say so. If less went through than the rate allowed,
  the rate is lowered from that: bytes that did not go through cannot have hurt;
- while all pressures are below `CALM`, the rate goes half of the way to what is left of the most, and from there on by
  `RAISE` at first, and more at each look. As long as nothing has been too much, it is multiplied by `FIRST_RAISE`, or
  becomes as much as producers write, if that is more. Between `CALM` and 1 it stays: without that gap it would swing;
- the rate is not raised before every signal has had a new value since the last raise: it rises no faster than its
  effect can be seen.

That a link is full for a moment costs producers little, because catch-up comes in small pieces
(`throttle.budget_claim.CatchUpWindow`). So the rate may try again and again whether there is more.

Pure: time is an argument. Invariant: the chosen rate lies between the bounds of the source; the same signals at the
same times give the same rates.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..quotas.rate_source import RateSource
    from .signals import Reading

CALM = 0.6
CUT = 0.07
"""The share of the rate that a pressure of 1 takes away. A pressure of 2 takes twice as much, and so on to half of the
rate. With 0.1, ten sidecars at one bottleneck swung by a third (simulated, tests/proxy/rates/bottleneck.py)."""
BELIEVED = 1.5
"""The pressure from which on one value is believed. A smaller pressure may be noise, so a second value has to confirm
it."""
CARRIED = 0.9
"""The share of the rate below which less went through than the rate allowed: whatever carries it has no more to give,
or no more is wanted. It is less than `SPARE`: where both ends of a link choose rates, neither may take the other's rate
for a full link."""
SPARE = 0.95
"""The share of the most that went through that is asked for, so that nothing queues."""
FIRST_RAISE = 4.0
"""The factor of each raise as long as nothing has been too much: 1 MB/s becomes 64 in three looks."""
RAISE = 1 - SPARE
"""The share by which the first raise goes beyond `SPARE` of the most."""
RAISE_GROWTH = 1.5
"""The factor by which each raise is larger than the one before: a rate that was lowered because a machine stood still
has doubled again in six looks."""
MIN_REACHED = 0.5
"""A share of the rate. Where the rate is lowered from what went through, at least so much counts as having gone
through. A broker that stood still for most of a second let next to nothing through, which says nothing of the rate."""
_SLACK_SECONDS = 0.5
"""How far the time between two looks may be from a second. A value that is newer than the last raise by less than this
is not new, and what went through in less time says nothing."""


class Verdict(NamedTuple):
    """The rate that does not hurt, and why it is not higher."""

    bytes_per_second: float
    signal: str | None
    """The signal that keeps the rate from being higher; None: none does."""
    words: str
    is_full: bool = False
    """True if it is about the most that goes through."""


class AutoRate:
    """Chooses the rate of a role by its pressures."""

    def __init__(self) -> None:
        self._most = math.inf
        """The most bytes per second that went through in all since something was too much last; infinite as long as
        nothing was."""
        self._hurt_at = self._raised_at = self._chosen_at = -math.inf
        self._fell_short: float | None = None
        """The bytes per second that went through at the last look, if that was less than the rate allowed."""
        self._raise = RAISE
        self._beside = 0.0
        """Bytes per second that went through beside the rate, at the last look."""
        self._doubted: tuple[str, float] | None = None
        """The signal that was just above 1, and when its value was seen."""

    def choose(
        self,
        source: RateSource,
        readings: Sequence[Reading],
        held: float,
        *,
        used: float,
        beside: float = 0.0,
        now: float,
    ) -> Verdict:
        """Return the rate from `now` on. `used`: bytes per second that went through since the last call; `beside`: what
        went through that the rate does not bound."""
        since, self._chosen_at = now - self._chosen_at, now
        if math.isinf(since):
            return Verdict(held, None, "throughput is not measured yet")
        if since < _SLACK_SECONDS:  # lowered between two looks
            used = held
        else:
            self._beside = beside
        reached = min(max(used, MIN_REACHED * held), held)
        found = self._choose(source, readings, held, reached, now)
        return found._replace(bytes_per_second=min(max(found.bytes_per_second, source.least), source.most))

    def _choose(
        self, source: RateSource, readings: Sequence[Reading], held: float, reached: float, now: float
    ) -> Verdict:
        worst = max(readings, key=lambda reading: reading.pressure, default=None)
        if worst is None:
            return Verdict(held, None, "no signal can be measured")
        if worst.pressure > 1:
            # A high value that was judged before must not hide a new one of another signal.
            new = [reading for reading in readings if reading.pressure > 1 and reading.seen_at > self._hurt_at]
            worst = max(new, key=lambda reading: reading.pressure, default=worst)
            return self._lowered(source, worst, held, reached, now)
        self._doubted = None
        if reached < CARRIED * held:
            if held <= source.least:
                return Verdict(held, None, "at the minimum, and less is used")
            if self._fell_short is None:
                self._fell_short = reached
                return Verdict(held, None, "less than the rate passes; checked again", is_full=True)
            reached = max(reached, min(self._fell_short, held))
            self._fell_short, self._most, self._raise = None, reached + self._beside, RAISE
            return Verdict(SPARE * reached, None, "the link carries no more", is_full=True)
        self._fell_short = None
        if not math.isinf(self._most):
            self._most = max(self._most, reached + self._beside)
        if worst.pressure > CALM:
            self._raise = RAISE
            return Verdict(held, worst.signal, f"as much as {worst.words} allows")
        return self._raised(source, readings, held, now)

    @property
    def _room(self) -> float:
        """The bytes per second that may be requested beside the other traffic."""
        return SPARE * self._most - self._beside

    def _lowered(self, source: RateSource, worst: Reading, held: float, reached: float, now: float) -> Verdict:
        stays = Verdict(held, worst.signal, f"{worst.words} is too much; checked again")
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
        self._hurt_at, self._most, self._raise = now, reached + self._beside, RAISE
        lower = reached * max(1 - CUT * worst.pressure, 0.5)
        return Verdict(lower, worst.signal, f"lowered: {worst.words} is too much")

    def _raised(self, source: RateSource, readings: Sequence[Reading], held: float, now: float) -> Verdict:
        if held >= source.most:
            return Verdict(source.most, None, "nothing hurts")
        late = next((each for each in readings if each.seen_at <= self._raised_at + _SLACK_SECONDS), None)
        if late is not None:
            return Verdict(held, late.signal, f"{late.words} has no new value since the rate was raised")
        if math.isinf(self._most):
            found = max(held * FIRST_RAISE, self._beside)
        elif held < CARRIED * self._room:
            found = (held + self._room) / 2
        else:
            found = held * (1 + self._raise)
            self._raise = min(self._raise * RAISE_GROWTH, FIRST_RAISE - 1)
        self._raised_at = now
        is_full = found >= self._room
        words = "as much as the link carries, and a little more" if is_full else "raised: nothing hurts"
        return Verdict(found, None, words, is_full=is_full)
