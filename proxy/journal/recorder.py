"""The journal as the sidecar sees it: a ledger to report traffic to, and a task that hands it on once a second.

Trio's side of the journal: reads the clocks, waits, logs; the disk is the writer's. Invariant: whatever the disk
does, reporting costs a few additions and never waits.
"""

from __future__ import annotations

import math
import secrets
import time
from typing import TYPE_CHECKING

import trio

from journal_schema import LINE_SECONDS, Kind

from ..errors import ConfigurationError
from ..files.reading import answers, no_answer
from ..ledger.ledger import Ledger
from ..threads import NoThreadError, in_thread
from .encoding import Event, EventValue, Origin, event
from .segments import SegmentDirectory, run_name
from .writer import TAKES_NOTHING, Batch, JournalStatistics, Place, Writer

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..config.settings import JournalSettings
    from ..logs.log import Log

JOURNAL_THREADS = trio.CapacityLimiter(1)
"""The thread for the end of the journal alone: Trio's shared threads may all be waiting for something that hangs."""
FINISH_SECONDS = 2.0
"""The longest time for the disk to write the rest when the process ends."""
MIN_STEP_SECONDS = 1.0
"""The least difference at which the wall clock counts as set; a smaller one is slewing."""


class Journal:
    """The journal of a process. Made within Trio, after the directory has been found good."""

    def __init__(
        self, settings: JournalSettings, *, broker: int, log: Log, wall: Callable[[], float] = time.time
    ) -> None:
        now = trio.current_time()
        started = wall()
        self._log = log
        self._wall = wall
        self._first_time = math.floor(started)
        self._offset_seconds = started - now
        """The wall clock minus Trio's clock, when both were last compared."""
        self.ledger = Ledger(now - (started - self._first_time))
        self._events: list[Event] = []
        self.report_totals: Callable[[], object] = _nothing
        """Called every LINE_SECONDS and at the end, to report the counters' growth as events."""
        self._totals_due = now + LINE_SECONDS
        self._lost_files_told = 0
        self._directory = settings.directory
        segments = SegmentDirectory(settings.directory, broker=broker, run=run_name(started))
        self._writer = Writer(segments, Origin(broker, f"{run_name(started)}-{secrets.token_hex(2)}"), settings)
        self._waits = False
        """True if the writer had no room for the last batch: it waits for its disk."""
        self._reported: str | None = None

    @property
    def statistics(self) -> JournalStatistics:
        return self._writer.statistics

    @property
    def problem(self) -> str | None:
        """The reason why lines are not written now; None if they are."""
        if self._waits:
            return TAKES_NOTHING
        return self._writer.problem

    def learn_place(self, cluster: str, rack: str) -> None:
        """Name the cluster and the broker's rack in each file that is begun from now on; empty: there is none."""
        self._writer.place = Place(cluster or None, rack or None)

    def event(self, kind: Kind, **values: EventValue) -> None:
        """Report an event of now, with the fields of its kind."""
        self._events.append(event(kind, self.ledger.tick_at(trio.current_time()), **values))

    async def run(self) -> None:
        """Hand on reported events at the end of each second, until cancelled. Traffic comes in blocks of fifteen
        seconds. Raises the error that ended the writer's thread, if it ends; run again, there is a new one."""
        self._writer.start()
        while True:
            now = trio.current_time()
            await trio.sleep_until(now + 1 - (now + self._offset_seconds) % 1)
            self._hand_on(trio.current_time())

    async def finish(self) -> None:
        """Hand on the rest, and wait for the disk as long as may be; also if cancelled."""
        now = trio.current_time()
        self.report_totals()
        self._offer(Batch(self.ledger.tick_at(now), self._first_time, self.ledger.cut(now), self._take_events()))
        late: str | None = f"no answer within {FINISH_SECONDS:g} s"
        with trio.move_on_after(FINISH_SECONDS, shield=True):
            try:
                late = await in_thread(self._writer.finish, FINISH_SECONDS, limiter=JOURNAL_THREADS)
            except NoThreadError:  # this one is not used any more
                late = self._writer.finish(FINISH_SECONDS)
        self._report(self.problem or late)
        self._tell_what_was_removed()

    def _hand_on(self, now: float) -> None:
        self._writer.raise_what_ended_it()
        first_time = self._first_time
        was_set = self._follow_wall_clock(now)
        # All seconds of a block are named from its first one. So blocks are cut where the wall clock was set. One whose
        # first second is this one is named by the new time as a whole.
        if now >= self._totals_due:
            self._totals_due += LINE_SECONDS
            self.report_totals()
        blocks = self.ledger.cut_before_this_second(now) if was_set else self.ledger.take_finished(now)
        if blocks or self._events:
            self._offer(Batch(self.ledger.tick_at(now), first_time, blocks, self._take_events()))
        self._waits = self._waits and self._writer.is_full
        self._report(self.problem)
        self._tell_what_was_removed()

    def _report(self, problem: str | None) -> None:
        if problem != self._reported:
            self._reported = problem
            if self._reported is None:
                self._log.info("journal_resumed")
            else:
                self._log.error("journal_failed", error=self._reported)

    def _tell_what_was_removed(self) -> None:
        lost = self.statistics.lost_files
        if lost != self._lost_files_told:
            self._lost_files_told = lost
            self._log.error(
                "journal_file_lost", directory=str(self._directory), dropped_lines=self.statistics.dropped_by_disk
            )

    def _follow_wall_clock(self, now: float) -> bool:
        """Return whether the wall clock was set. If it was, seconds are named by its new time from here on."""
        step = self._wall() - now - self._offset_seconds
        if abs(step) < MIN_STEP_SECONDS:
            return False
        self.event(Kind.CLOCK, seconds=round(step, 3))
        self._first_time += round(step)
        self._offset_seconds += round(step)
        return True

    def _take_events(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def _offer(self, batch: Batch) -> None:
        self.statistics.dropped_by_ledger = self.ledger.dropped
        self._waits = not self._writer.offer(batch)


def _nothing() -> None:
    pass


def prepare(settings: JournalSettings, *, broker: int) -> None:
    """Make the directory and close files that a crash left open. Blocking, at start. Raises ConfigurationError."""
    if not answers(settings.directory):
        raise ConfigurationError(f"journal.directory: {no_answer(settings.directory)}")
    try:
        SegmentDirectory(settings.directory, broker=broker, run="").prepare()
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigurationError(f"journal.directory: cannot write to {settings.directory}: {reason}") from error
