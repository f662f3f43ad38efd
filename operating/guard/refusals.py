"""Handles refusals of the kernel's packet filter: when a change is tried again, and when the log reports it.

Pure: time is an argument, in seconds. Invariants: a change that is not the one refused last is tried at once; the same
one is tried again after at most `MOST_PAUSE_SECONDS`. A refusal is told when it begins, then at most once in
`TELL_SECONDS`, and once when it is over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .decision import LOOK_SECONDS

if TYPE_CHECKING:
    from .rules import Rules

MOST_PAUSE_SECONDS = 5.0
"""The longest pause between two tries. The first pause is as long as one look of the guard, and each is twice as long
as the one before."""
TELL_SECONDS = 60.0


class Over(NamedTuple):
    """A refusal that is over: how many tries were refused, and how long it took."""

    attempts: int
    seconds: float


class Refusals:
    """The refusals of one guard.

    As long as refusals `last`, it is not certain what the kernel has: one table may have been taken and the next one
    refused.
    """

    def __init__(self) -> None:
        self.attempts = 0
        self._began = 0.0
        self._rules: Rules | None = None
        self._pause = LOOK_SECONDS
        self._again_at = 0.0
        self._tell_at = 0.0

    @property
    def last(self) -> bool:
        return self.attempts > 0

    def may_try(self, rules: Rules, now: float) -> bool:
        return not self.last or rules is not self._rules or now >= self._again_at

    def refused(self, rules: Rules, now: float) -> bool:
        """Take note that `rules` were refused; return whether that is to be told now."""
        if not self.last:
            self._began = self._tell_at = now
        if not self.last or rules is not self._rules:
            self._rules, self._pause = rules, LOOK_SECONDS
        self.attempts += 1
        self._again_at = now + self._pause
        self._pause = min(2 * self._pause, MOST_PAUSE_SECONDS)
        tells = now >= self._tell_at
        if tells:
            self._tell_at = now + TELL_SECONDS
        return tells

    def taken(self, now: float) -> Over | None:
        """Take note that the kernel took a change; return what the refusal came to that is over now, if any was."""
        over = Over(self.attempts, now - self._began) if self.last else None
        self.attempts = 0
        return over
