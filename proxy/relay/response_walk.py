"""Follow a Fetch response through a window: the generated walker, in offsets from the start of its frame.

The window may move its bytes between two steps; offsets within the frame stay true. No I/O.
Invariant: rows come exactly once, in order, and before any byte of their records is due.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from protocol.errors import ProtocolError
from protocol.fetch.batches import BATCH_HEADER_BYTES
from protocol.fetch.response import topic_count_at
from protocol.fetch.topic_blocks import count_bytes
from protocol.fetch.walker import Head, ResponseEntry, Walk, response_walker
from protocol.wire.apis import API_FETCH
from protocol.wire.framing import LENGTH_PREFIX_BYTES
from protocol.wire.headers import response_header_version

if TYPE_CHECKING:
    from protocol.fetch.batches import BatchWalk
    from protocol.wire.framing import Bytes

    from ..throttle.pending_fetch import PendingFetch
    from .transfer import Window

CORRELATION_ID_BYTES = 4
FIXED_HEAD_BYTES = LENGTH_PREFIX_BYTES + CORRELATION_ID_BYTES
"""The part of a response that is the same in every version: its length and its correlation id."""
MIN_STEP_BYTES, MAX_STEP_BYTES = 8 * 1024, 128 * 1024
"""How many bytes the walker may look at before its rows are counted. The least holds some 400 entries without records.
Where a step finds few rows the next one is twice as long, since each step costs as much as three entries."""
FEW_ROWS = 32
"""A step that finds fewer rows doubles the next one."""
MAX_ROWS = 256
"""The most rows of one walk, which take half a millisecond to walk and learn from; then it may be another connection's
turn."""
TOPICS_END = "responses_end"
"""The walker's name for the offset after the last topic."""


@functools.cache
def header_bytes(version: int) -> int:
    """Return the size of a Fetch response's header: its correlation id, and from v12 on an empty set of tagged
    fields."""
    return CORRELATION_ID_BYTES + response_header_version(API_FETCH, version)


@dataclass(frozen=True, slots=True)
class Form:
    """The layout that all answers of one version have in common.

    `body_at`: the offset in the frame at which the body begins. `least_bytes`: the length of the shortest frame that
    can hold the number of its topics. Both count the length prefix.
    """

    walk: Walk
    body_at: int
    least_bytes: int
    is_flexible: bool
    """True if the header has tagged fields, of which Kafka has defined none."""


@functools.cache
def form_of(version: int) -> Form:
    """Return the form of answers; its walk makes plain tuples."""
    return Form(
        response_walker(version, tuple),
        LENGTH_PREFIX_BYTES + header_bytes(version),
        LENGTH_PREFIX_BYTES + topic_count_at(version) + len(count_bytes(version, 0)),
        header_bytes(version) > CORRELATION_ID_BYTES,
    )


def says(head: Head) -> tuple[int, int]:
    """Return the error code and the session id in the head of an answer; 0 for each that the version or the head
    lacks."""
    return head.get("error_code", 0), head.get("session_id", 0)


class FrameWalk:
    """Walks one response of `size` bytes (length prefix not counted) whose prefix is at `window.start` now.

    `row`: what rows are made as; plain tuples cost least.
    """

    __slots__ = (
        "_at", "_finished", "_rows", "_step_bytes", "_steps", "_total", "_window", "has_more", "head", "topics_end",
    )  # fmt: skip

    def __init__(self, window: Window, *, version: int, size: int, row: type = tuple) -> None:
        self._window = window
        self._rows: list[ResponseEntry] = []
        self._total = LENGTH_PREFIX_BYTES + size
        self._at = LENGTH_PREFIX_BYTES + header_bytes(version)
        self._finished = False
        self._step_bytes = MIN_STEP_BYTES
        self.has_more = False
        """True if the last step stopped at `MAX_ROWS` although the window holds more."""
        self.head: Head = {}
        self.topics_end: int | None = None
        """The offset in the frame after the last topic, once it is known."""
        self._steps = response_walker(version, row)(
            window.buffer, size - header_bytes(version), self._rows.append, self.head
        )
        next(self._steps)

    @property
    def says(self) -> tuple[int, int]:
        return says(self.head)

    def step(self, passed: int) -> list[ResponseEntry]:
        """Walk what is in the window, whose first byte is the frame's byte `passed`; return the new rows.

        With `MAX_ROWS` of them or so it stops, and `has_more` says so. Positions in a row are the buffer's, valid
        until the window changes. Raises ProtocolError.
        """
        rows, send, step_bytes = self._rows, self._steps.send, self._step_bytes
        rows.clear()
        origin = self._window.start - passed
        end = min(self._window.end, origin + self._total)
        until = at = origin + self._at
        while not self._finished and len(rows) < MAX_ROWS and until < end and at < end:
            found = len(rows)
            until = min(end, max(at, until) + step_bytes)
            try:
                at = send((at, until))
            except StopIteration as done:
                at, self._finished = done.value, True
            if len(rows) - found >= FEW_ROWS:
                step_bytes = MIN_STEP_BYTES
            elif step_bytes < MAX_STEP_BYTES:
                step_bytes *= 2
        self._at, self._step_bytes = at - origin, step_bytes
        if self.topics_end is None and TOPICS_END in self.head:
            self.topics_end = self.head[TOPICS_END] - origin
        self.has_more = not self._finished and at < end and until < end
        if self._finished:
            torn = self._at != self._total
        else:
            torn = not self.has_more and end == origin + self._total and self._at < self._total
        if torn:
            raise ProtocolError("the leader's response does not end where its frame does")
        return rows

    def give_up(self) -> list[ResponseEntry]:
        """Walk no further, so that the rest of the frame passes unread; return the rows of the step that failed."""
        self._at, self._finished, self.has_more = self._total, True, False
        return self._rows

    def unseen(self, passed: int) -> int:
        """Return how many bytes, after the frame's first `passed` ones, need no walking: those walked already and the
        records that follow, also beyond the window."""
        return min(self._at, self._total) - passed


class PartialEntry:
    """The entry of an answer whose records are still on their way: it is learnt from when the last of them has gone on.

    A large answer goes on piece by piece, and the piece in which an entry is seen usually holds only the first of its
    records. If all of its records were accounted for at that moment, the budget would open again while they are still
    coming: when a leader's first answer took a tenth of a second to come, a tenth of the quota too much came in one
    second (1.31 to 1.35 of the quota, measured). Policy `kip73` counts them at that moment all the same, as a leader
    does. There is at most one such entry, the last one that was read.
    """

    __slots__ = ("_batches", "_entry", "_head", "_records_at", "ends")

    def __init__(self) -> None:
        self.ends: int | None = None
        """The offset in the frame where its records end; None: there is no such entry."""
        self._batches: BatchWalk | None = None
        """The walker of its records while they pass, if it matters where their batches end."""
        self._records_at = 0

    def watch(self, batches: BatchWalk | None, records_at: int) -> None:
        """Begin an entry whose records, at `records_at` in the frame, are not all in the window."""
        self._batches, self._records_at = batches, records_at

    def most(self, window: Window, passed: int) -> int | None:
        """Return how many bytes, after the frame's first `passed` ones, may go on before the window has to hold the
        next header of a batch; None for all of its records."""
        batches = self._batches
        if batches is None or batches.is_over:
            return None
        batches.look(window.buffer, window.start - passed + self._records_at, window.end)
        return None if batches.is_over else self._records_at + batches.at - passed

    def keep(self, row: ResponseEntry, buffer: Bytes, end: int, *, ends: int) -> None:
        """Keep an entry (a row of the walk) whose records end at `ends` in the frame. Its positions are offsets in
        `buffer`, which holds nothing from `end` on, and something else before the records have gone."""
        entry = ResponseEntry(*row)  # rows are plain tuples where that is all that is needed
        records_at = entry.records_at
        self._head = bytes(buffer[records_at : min(records_at + BATCH_HEADER_BYTES, end)])
        # Its positions count from where its records begin, as the bytes that are kept do.
        self._entry = entry._replace(entry_at=entry.entry_at - records_at, records_at=0)
        self.ends = ends

    def has_gone(self, passed: int) -> bool:
        """Return True if the frame's first `passed` bytes have all of its records."""
        return self.ends is not None and passed >= self.ends

    def learn(self, pending: PendingFetch, now: float) -> None:
        """Let the pending fetch learn from the entry: its records have gone on, or as many of them as ever will."""
        if self.ends is not None:
            self.ends = None
            pending.forwards((self._entry,), self._head, len(self._head), now, self._batches)
