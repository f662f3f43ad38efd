"""A change that the kernel's packet filter refuses: when it is tried again, and when that is told.

Pure: time is an argument, in seconds. Invariants: a change is tried at once when it is not the one that was refused
last, and otherwise again after at most `MOST_PAUSE_SECONDS`; a refusal is told when it begins, then at most once in
`TELL_SECONDS`, and once when it is over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .decision import LOOK_SECONDS

if TYPE_CHECKING:
    from .decision import Way

MOST_PAUSE_SECONDS = 5.0
"""Between two tries. The first pause is one look of the guard; each is twice the one before."""
TELL_SECONDS = 60.0


class Over(NamedTuple):
    """What a refusal came to: how many tries were refused, and for how long."""

    attempts: int
    seconds: float


class Refusals:
    """Of one guard. While they `last`, what the kernel has is neither what is wanted nor what was before for certain:
    one table may have been taken and the next one refused."""

    def __init__(self) -> None:
        self.attempts = 0
        self._began = 0.0
        self._way: Way | None = None
        self._pause = LOOK_SECONDS
        self._again_at = 0.0
        self._tell_at = 0.0

    @property
    def last(self) -> bool:
        return self.attempts > 0

    def may_try(self, way: Way | None, now: float) -> bool:
        return not self.last or way is not self._way or now >= self._again_at

    def refused(self, way: Way | None, now: float) -> bool:
        """Take note that `way` was refused; return whether that is to be told now."""
        if not self.last:
            self._began = self._tell_at = now
        if not self.last or way is not self._way:
            self._way, self._pause = way, LOOK_SECONDS
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
