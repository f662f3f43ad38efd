"""Notices a loop that no longer turns, logs where it hangs, and ends the process.

A loop that hangs serves no connection, answers no probe, takes no signal, and does not get better by itself. A new
process serves again within a second, so this one ends with the status of an internal error (sysexits' 70), and whatever
supervises it starts it anew. A thread looks four times a second whether the loop has beaten: `Heartbeat` is a task that
is due ten times a second, and measures how late it runs, since whatever holds it up holds up every connection as long.

Invariants: time in which this thread itself could not run (the process was stopped, the machine slept, other processes
had the cores) is not counted against the loop. A loop that has not begun to beat, or has ended in order, never stalls.
"""

from __future__ import annotations

import sys
import threading
import traceback
from time import monotonic, sleep
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..logs.log import Log


EXIT_STATUS = 70
STALL_SECONDS = 5.0
"""A loop that has not turned for so long serves no connection."""
LOOK_SECONDS = 0.25
MAX_COUNTED_SECONDS = 2 * LOOK_SECONDS
"""The longest that one sleep of the thread may take. A longer one means that the whole process did not run."""
_MAX_FRAMES = 50


class Watchdog:
    """
    Args:
        end: ends the process, once the log's lines are out.
    """

    def __init__(self, log: Log, end: Callable[[], None]) -> None:
        self._stall_seconds = STALL_SECONDS
        self._log = log
        self._end = end
        self._beats = 0
        self._beats_seen = 0
        self._loop: int | None = None
        self._still_seconds = 0.0
        self._is_told = False

    def beat(self) -> None:
        """Note that the loop turns. Called in its thread."""
        self._loop = threading.get_ident()
        self._beats += 1

    def rest(self) -> None:
        """Expect no more beats: the loop has ended in order."""
        self._loop = None

    def start(self) -> None:
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    def look(self, slept_seconds: float) -> None:
        """Check whether the loop has beaten. The thread calls it after each sleep, which took `slept_seconds`."""
        if self._loop is None or self._beats != self._beats_seen:
            self._beats_seen = self._beats
            self._still_seconds, self._is_told = 0.0, False
            return
        self._still_seconds += min(slept_seconds, MAX_COUNTED_SECONDS)
        if self._still_seconds >= self._stall_seconds and not self._is_told:
            self._is_told = True
            self._tell(self._loop)

    def _tell(self, loop: int) -> None:
        try:
            self._log.error(
                "loop_stalled",
                stalled_seconds=round(self._still_seconds, 1),
                stack=stack_of(loop),
            )
        finally:
            self._end()

    def _watch(self) -> None:
        while True:
            began = monotonic()
            sleep(LOOK_SECONDS)
            self.look(monotonic() - began)


def stack_of(thread: int) -> str:
    """Return where a thread is, outermost call first, in the form of a traceback; "" if the thread has ended."""
    frame = sys._current_frames().get(thread)
    return "" if frame is None else "".join(traceback.format_stack(frame, limit=_MAX_FRAMES))


BEAT_SECONDS = 0.1
KEPT_SECONDS = 15.0
"""The metric shows the worst lag of the current and of the previous window. Prometheus, which scrapes every 15 seconds
by default, sees every worst lag, and a second reader of the metric does not reset it for the first."""


class LoopLag:
    """The worst recent lag, in seconds. Time is an argument."""

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
        rested: called when the beats end, so that the silence is not taken for a stall.
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
