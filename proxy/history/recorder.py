"""Writes the history of the running sidecar, beside the loop, and answers GET /history.

Trio's side of this package. Invariants: who reports an event waits for nothing, and no error of the disk reaches it;
the records that wait for the disk are bounded, and the newest are kept; a record tells how many were dropped.
"""

from __future__ import annotations

from collections import deque
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import msgspec
import trio

from ..changes import Changes
from ..http.routing import Admit, Answer, Request, Route, json_answer
from ..threads import NoThreadError, in_thread
from .files import files_in, read
from .records import KEPT, Record, encode, of_condition, of_override, of_quotas, shortened

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from ..diagnostics.conditions import Condition
    from ..logs.log import Log
    from ..quota_files.reload import ReloadOutcome
    from ..quotas.layer_values import Effect
    from ..quotas.override import Override
    from .files import HistoryFile

PATH = "/history"
MAX_WAITING = 500
"""The most records of a file that wait for the disk."""
MAX_BATCH = 50
"""The most records that are written at once: some 500 KB of the longest."""
MAX_SHOWN_BYTES = 4 * 2**20
"""The most bytes of lines in one answer."""
WRITE_SECONDS, RETRY_SECONDS, FINISH_SECONDS = 10.0, 10.0, 2.0
_READING = trio.CapacityLimiter(1)


class _Waiting:
    """Records of a file that are not written yet."""

    def __init__(self, file: HistoryFile) -> None:
        self.file = file
        self.records: deque[Record] = deque()
        self.dropped = 0

    def put(self, record: Record) -> None:
        self.records.append(record)
        self._bound()

    def take(self) -> list[Record]:
        return [self.records.popleft() for _ in range(min(MAX_BATCH, len(self.records)))]

    def put_back(self, records: Sequence[Record]) -> None:
        self.records.extendleft(reversed(records))
        self._bound()

    def _bound(self) -> None:
        while len(self.records) > MAX_WAITING:
            self.records.popleft()
            self.dropped += 1


class HistoryRecorder:
    """Records the changes in one sidecar."""

    def __init__(
        self, directory: Path, broker_id: int, *, log: Log, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        """`directory`: that of the overrides; it may be missing."""
        self._directory = directory
        self._broker_id = broker_id
        self._log = log
        self._now = now
        self._waiting = [_Waiting(file) for file in files_in(directory, broker_id)]
        self._changes = Changes()
        self._disk = trio.CapacityLimiter(1)
        self._has_started = False
        self.problem: str | None = None
        """The reason why records are not written, ready to print; None if they are."""

    def override(self, override: Override, action: str, by: str | None, effects: Sequence[Effect] | None) -> None:
        """Record an override that was set or undone, or has ended. Without `effects` the process before has done so."""
        if effects is not None:
            self._put(0, of_override(override, action, by, effects, self._now()))

    def quotas(self, outcome: ReloadOutcome) -> None:
        """Record an edited quotas.toml, or the end of sections in it."""
        if outcome.effects.number:
            self._put(0, of_quotas(outcome, self._now()))

    def condition(self, condition: Condition, began: bool) -> None:
        """Record a condition that begins or ends."""
        self._put(1, of_condition(condition, self._now(), began=began))

    def process(self, event: str, text: str) -> None:
        """Record a start, an end or a hand-over."""
        self._put(0, Record(time=self._now(), event=event, text=shortened(text)))

    def _put(self, file: int, record: Record) -> None:
        self._waiting[file].put(record)
        self._changes.notify()

    async def run(self, describe_start: Callable[[], tuple[str, ReloadOutcome]]) -> None:
        """Write reported changes, until cancelled. `describe_start`, called in a thread, returns what the process has
        started with, and how quotas.toml was edited while none ran."""
        if not self._has_started:
            text, outcome = await in_thread(describe_start, limiter=_READING)
            self._has_started = True
            self.process("started", text)
            self.quotas(outcome)
        while True:
            if not any(each.records for each in self._waiting):
                await self._changes.wait()
            await self._write()
            if self.problem is not None:
                await trio.sleep(RETRY_SECONDS)

    async def finish(self) -> None:
        """Write the rest, or give up soon; also if cancelled."""
        with trio.move_on_after(FINISH_SECONDS, shield=True) as limit:
            await self._write()
        if limit.cancelled_caught:
            self._told(f"{self._directory}: no answer within {FINISH_SECONDS:g} s")

    async def _write(self) -> None:
        problem = None
        for waiting in self._waiting:
            while waiting.records and problem is None:
                records = waiting.take()
                try:
                    problem = await self._append(waiting, records)
                except trio.Cancelled:
                    waiting.put_back(records)
                    raise
                if problem is not None:
                    waiting.put_back(records)
        self._told(problem)

    def _told(self, problem: str | None) -> None:
        if problem is not None and self.problem is None:
            self._log.warning("history_not_written", error=problem)
        self.problem = problem

    async def _append(self, waiting: _Waiting, records: Sequence[Record]) -> str | None:
        """Write records; return why they are not written, or None."""
        now, file, dropped = self._now(), waiting.file, waiting.dropped
        text = f"{dropped} records were dropped: the disk did not take them"
        told = [Record(time=now, event="records_dropped", text=text)] if dropped else []

        def write() -> None:
            file.append(encode([*told, *records]), now)

        with trio.move_on_after(WRITE_SECONDS):
            try:
                await in_thread(write, limiter=self._disk)
            except (OSError, ValueError, NoThreadError) as error:  # a zero byte in the path is the second
                return f"{file.path}: {getattr(error, 'strerror', None) or error}"
            waiting.dropped -= dropped
            return None
        return f"{file.path}: no answer within {WRITE_SECONDS:g} s"

    def route(self, admit: Admit | None) -> Route:
        """Return the route of the history. `admit` refuses a request; None: all may read it."""
        return Route("GET", PATH, self._answer, admit=admit or (lambda _: None))

    async def _answer(self, request: Request) -> Answer:
        now = self._now()
        asked = parse_qs(request.query).get("since", [])[-1:]
        try:
            since = datetime.fromisoformat(asked[0]) if asked else now - KEPT
        except ValueError:
            since = None
        if since is None or since.tzinfo is None:
            return json_answer(400, {"error": "since: expected a time with an offset, like 2026-12-01T06:00:00Z"})
        waiting = [record for each in self._waiting for record in each.records]
        work = partial(page, self._directory, self._broker_id, max(since, now - KEPT), waiting)
        problem = self.problem
        return await in_thread(lambda: json_answer(200, {**work(), "not_written": problem}), limiter=_READING)


def page(directory: Path, broker_id: int, since: datetime, waiting: Sequence[Record] = ()) -> dict[str, Any]:
    """Return the history as it is answered. Blocking."""
    stored = read(directory, broker_id, since, MAX_SHOWN_BYTES, encode(waiting))
    found = stored.found
    return {
        "broker": broker_id,
        "since": since,
        "records": [msgspec.Raw(line) for line in found.lines],
        "left_out": found.left_out,
        "unreadable": found.unreadable,
        "problems": stored.problems,
    }
