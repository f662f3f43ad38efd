"""A thread that takes batches of lines from a bounded queue and keeps the journal's files.

Only the thread touches the disk. It is a daemon, so a disk that hangs keeps the process neither from
serving nor from ending. Knows nothing of where lines come from. Invariant: `offer` never waits; every line offered is
written, or counted as dropped, or a role's last quota that waits for the next batch (`PendingQuotas`). If somebody
removes an open file, its lines, which were counted as written, are counted as dropped as well: before each batch is
written, the thread looks whether the file is still there.
"""

from __future__ import annotations

import queue
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from journal_schema import Kind

from .encoding import Event, Origin, encode_event, encode_traffic, event
from .segments import Segment

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from ..config.settings import JournalSettings
    from ..ledger.blocks import Block
    from .encoding import EventValue
    from .segments import SegmentDirectory


QUEUED_BATCHES = 32
"""The most batches that wait. The recorder hands one over every 15 seconds, and also in each second in which an event
happened. So this is half a minute to eight minutes of a disk that hangs, and some 30 MB at 1000 active partitions."""
TAKES_NOTHING = f"the disk takes nothing: {QUEUED_BATCHES} batches of lines wait for it"
SLICE_SECONDS = 0.0005
REST_SECONDS = 0.001
"""The thread's rest after each slice of work. With it, a block of 100 000 partitions takes a second and a half to
write, and there are fifteen until the next."""


class Batch(NamedTuple):
    """The lines of a tick of the recorder. `first_time` is the wall clock at tick 0, in seconds since 1970."""

    tick: int
    first_time: int
    blocks: list[Block]
    events: list[Event]

    @property
    def lines(self) -> int:
        return sum(block.lines for block in self.blocks) + len(self.events)


class Place(NamedTuple):
    """The place of a broker: the cluster's id and its own rack; None if unknown, or if there is none."""

    cluster: str | None = None
    rack: str | None = None


@dataclass(slots=True)
class JournalStatistics:
    """Each is written by one thread only."""

    lines: int = 0
    dropped_by_queue: int = 0
    dropped_by_disk: int = 0
    dropped_by_ledger: int = 0
    """The entries that were not recorded because more partitions were active than the ledger remembers."""
    removed_files: int = 0
    lost_files: int = 0
    """Files that another process removed while they were open, perhaps with the directory."""

    @property
    def dropped(self) -> int:
        return self.dropped_by_queue + self.dropped_by_disk + self.dropped_by_ledger


class Writer:
    """The journal's thread, its queue and its open file."""

    def __init__(self, segments: SegmentDirectory, origin: Origin, settings: JournalSettings) -> None:
        self.statistics = JournalStatistics()
        self.problem: str | None = None
        """The disk's last error; None once a write has succeeded."""
        self.place = Place()
        """The broker's place. A file that does not say it ends once it is known."""
        self._segments = segments
        self._origin = origin
        self._settings = settings
        self._queue: queue.Queue[Batch | None] = queue.Queue(QUEUED_BATCHES)
        self._segment: Segment | None = None
        self._opened_tick = 0
        self._opened_place = self.place
        self._offered_lines = 0
        """Lines in the open file that came with batches. The lines that every file begins and ends with are not
        counted."""
        self._ended: list[Path] = []
        """Files that are written to no more but still have the name of an open file, since the disk did not rename them
        yet."""
        self._dropped_told = 0
        """The number of dropped lines that a line in a file has reported."""
        self._last = Batch(0, 0, [], [])
        self._known_quotas = KnownQuotas()
        self._refused_by_queue, self._refused_by_disk = PendingQuotas(), PendingQuotas()
        """Lines refused: the first is written by the caller of `offer`, the second by the thread."""
        self._rests_at = 0.0
        self._finishing = False
        self._thread: threading.Thread | None = None
        self._ended_by: Exception | None = None

    def start(self) -> None:
        """Start a thread unless one is running."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
            self._thread.start()

    def raise_what_ended_it(self) -> None:
        """Raise the error that the thread ended by, if it did: not one of the disk's, but a defect."""
        error, self._ended_by = self._ended_by, None
        if error is not None:
            raise error

    def offer(self, batch: Batch) -> bool:
        """Queue the batch; return False and count it as dropped if the queue is full."""
        batch = batch._replace(events=self._refused_by_queue.take_before(batch.events))
        try:
            self._queue.put_nowait(batch)
        except queue.Full:
            self.statistics.dropped_by_queue += batch.lines - self._refused_by_queue.keep(batch.events)
            return False
        return True

    @property
    def is_full(self) -> bool:
        """True if the next batch would be dropped."""
        return self._queue.full()

    def finish(self, timeout_seconds: float) -> str | None:
        """Wait until everything offered is written, or the time is over; return why the thread did not come to its
        end. Blocking."""
        self._finishing = True
        try:
            self._queue.put(None, timeout=timeout_seconds)
        except queue.Full:
            return TAKES_NOTHING
        if self._thread is not None:
            self._thread.join(timeout_seconds)
            if self._thread.is_alive():
                return f"the disk has not taken the last lines within {timeout_seconds:g} s"
        return None if self._ended_by is None else repr(self._ended_by)

    def _run(self) -> None:
        try:
            while (batch := self._queue.get()) is not None:
                self._take(batch)
            self._finish()
        except Exception as error:  # noqa: BLE001 - raised again where the supervisor sees it
            self._ended_by = error

    def _finish(self) -> None:
        try:
            self._close_segment()
        except OSError as error:
            self.problem = str(error)

    def _rest(self) -> None:
        """Release Python's lock for the thread that relays, which would otherwise wait half a millisecond each time it
        needs it."""
        if not self._finishing and time.perf_counter() > self._rests_at:
            time.sleep(REST_SECONDS)
            self._rests_at = time.perf_counter() + SLICE_SECONDS

    def _take(self, batch: Batch) -> None:
        batch = batch._replace(events=self._refused_by_disk.take_before(batch.events))
        try:
            self._write(batch)
            self.problem = None
        except OSError as error:
            self._give_up(batch, str(error), waiting=self._refused_by_disk.keep(batch.events))
        except Exception as error:  # perhaps because of a quota, which would then end each thread: none is kept
            self._give_up(batch, repr(error))
            raise

    def _write(self, batch: Batch) -> None:
        self._last = batch._replace(blocks=[], events=[])
        segment = self._segment_for(batch)
        missing = self.statistics.dropped - self._dropped_told
        if missing:
            segment.write(self._encoded(event(Kind.DROPPED, batch.tick, lines=missing)))
        for block in batch.blocks:
            for traffic in block.traffic_lines(self._rest):
                segment.write(encode_traffic(self._origin, traffic, batch.first_time, self._rest))
        for line in batch.events:
            segment.write(self._encoded(line))
        segment.flush()
        self._known_quotas.written(batch.events)
        self._dropped_told += missing
        self.statistics.lines += batch.lines
        self._offered_lines += batch.lines

    def _segment_for(self, batch: Batch) -> Segment:
        self._notice_removal()
        segment, settings = self._segment, self._settings
        if segment is not None and (
            batch.tick - self._opened_tick >= settings.rotate_every_seconds
            or segment.size_bytes >= settings.rotate_at_bytes
            or self._opened_place is not self.place
        ):
            self._close_segment()
            segment = None
        return segment or self._open_segment(batch)

    def _open_segment(self, batch: Batch) -> Segment:
        self._segments.directory.mkdir(parents=True, exist_ok=True)
        self._name_ended()
        self.statistics.removed_files += self._segments.prune(self._settings.keep_bytes)
        segment = self._segment = Segment(self._segments.next_open())
        self._opened_tick, self._opened_place, self._offered_lines = batch.tick, self.place, 0
        file = self._segments.closed(segment.path).name
        segment.write(self._encoded(event(Kind.FILE_OPENED, batch.tick, file=file, **self._opened_place._asdict())))
        for quota in self._known_quotas.head(batch.tick, batch.events):
            segment.write(self._encoded(quota))
        return segment

    def _notice_removal(self) -> None:
        if self._segment is not None and self._segment.is_removed():
            segment, self._segment = self._segment, None
            self.statistics.dropped_by_disk += self._offered_lines
            self.statistics.lost_files += 1
            segment.abandon()

    def _close_segment(self) -> None:
        self._notice_removal()
        segment, self._segment = self._segment, None
        if segment is None:
            return
        self._ended.append(segment.path)
        name = self._segments.closed(segment.path).name
        closed = event(Kind.FILE_CLOSED, self._last.tick, file=name, lines=segment.lines)
        try:
            self._write_last(segment, self._encoded(closed))
        finally:
            # With the name of an open file it would be taken for a file that is being written, and never be removed.
            self._name_ended()

    def _write_last(self, segment: Segment, line: bytes) -> None:
        try:
            segment.write(line)
        except OSError:
            segment.abandon()  # with a piece missing in the middle, an end would make it a corrupt file
            raise
        segment.close()

    def _name_ended(self) -> None:
        """Rename files that have ended. Raises OSError; a file that is not renamed is tried again with the next."""
        while self._ended:
            self._segments.close(self._ended[-1])
            self._ended.pop()

    def _encoded(self, line: Event) -> bytes:
        return encode_event(self._origin, line, self._last.first_time + line.tick, self._rest)

    def _give_up(self, batch: Batch, problem: str, *, waiting: int = 0) -> None:
        """Count a batch that cannot be written as dropped, but for the lines that wait for the next, and end the
        open file as it is; an empty one is removed. The next batch tries a new file."""
        self.problem = problem
        self.statistics.dropped_by_disk += batch.lines - waiting
        self._notice_removal()
        segment, self._segment = self._segment, None
        if segment is not None:
            segment.abandon()
            with suppress(OSError):  # a disk that refuses lines may refuse to rename, too
                self._leave(segment)

    def _leave(self, segment: Segment) -> None:
        if segment.size_bytes:
            self._ended.append(segment.path)
            self._name_ended()
        else:
            # A full disk still makes files. In an hour there would be hundreds of empty ones, which readers have to
            # call torn.
            segment.path.unlink(missing_ok=True)


class KnownQuotas:
    """The last quota of each role that was written."""

    def __init__(self) -> None:
        self._quotas: dict[EventValue, Event] = {}

    def written(self, events: Iterable[Event]) -> None:
        self._quotas |= _last_quotas(events)

    def head(self, tick: int, events: Iterable[Event]) -> list[Event]:
        """Return the quotas that a file begins with which is opened at `tick` and whose first events are these.

        The events happened before `tick`. Where they change a role's quota, the one before it is written as of the
        second before that change: said as of `tick`, readers would take it for the later one.
        """
        changed: dict[EventValue, int] = {}
        for line in events:
            if line.kind is Kind.QUOTA:
                changed.setdefault(line.values[0], line.tick)
        ticks = {role: max(changed[role] - 1, line.tick) for role, line in self._quotas.items() if role in changed}
        return [
            line._replace(tick=ticks.get(role, tick), values=(*line.values[:-1], "file"))
            for role, line in self._quotas.items()
        ]


class PendingQuotas:
    """The last quota of each role that was in a dropped batch and in none since."""

    def __init__(self) -> None:
        self._quotas: dict[EventValue, Event] = {}

    def take_before(self, events: list[Event]) -> list[Event]:
        """Return and forget the events that wait, and then `events`."""
        waiting, self._quotas = self._quotas, {}
        return [*waiting.values(), *events]

    def keep(self, events: Iterable[Event]) -> int:
        """Keep the last quota of each role of `events`, which `take_before` returned and which were dropped.
        Return how many these are."""
        self._quotas = _last_quotas(events)
        return len(self._quotas)


def _last_quotas(events: Iterable[Event]) -> dict[EventValue, Event]:
    return {line.values[0]: line for line in events if line.kind is Kind.QUOTA}
