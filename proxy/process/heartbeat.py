"""Measures how late the loop is, by a task that is due ten times a second.

Whatever holds up this task holds up every connection as long. Knows no metric and no watchdog, only whom to call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

BEAT_SECONDS = 0.1
KEPT_SECONDS = 15.0
"""The metric shows the worst lag of the current and of the previous window. Prometheus, which scrapes every 15 seconds
by default, sees every worst lag, and a second reader of the metric does not reset it for the first one."""


class LoopLag:
    """The worst lag of late, in seconds. Time is an argument."""

    def __init__(self) -> None:
        self._began = 0.0
        self._worst = 0.0
        self._worst_before = 0.0

    def note(self, late_seconds: float, now: float) -> None:
        if now - self._began >= KEPT_SECONDS:
            self._worst_before = self._worst if now - self._began < 2 * KEPT_SECONDS else 0.0
            self._began, self._worst = now, 0.0
        self._worst = max(self._worst, late_seconds)

    @property
    def worst_seconds(self) -> float:
        return max(self._worst, self._worst_before)


class Heartbeat:
    """
    Args:
        beaten: called at each beat, from the loop; must answer at once.
        rested: called when the beats end, so that nobody takes the silence for a stall.
    """

    def __init__(
        self, beaten: Iterable[Callable[[], object]] = (), rested: Callable[[], object] = lambda: None
    ) -> None:
        self.lag = LoopLag()
        self._beaten = tuple(beaten)
        self._rested = rested

    async def run(self) -> None:
        """Beat until cancelled."""
        try:
            while True:
                due = trio.current_time() + BEAT_SECONDS
                await trio.sleep_until(due)
                now = trio.current_time()
                self.lag.note(now - due, now)
                for call in self._beaten:
                    call()
        finally:
            self._rested()
