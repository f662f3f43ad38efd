"""The entry of an answer whose records are still on their way: it is learnt from when the last of them has gone on.

A large answer goes on piece by piece, and the piece in which an entry is seen usually holds only the first of its
records. If all of its records were accounted for at that moment, the budget would open again while they are still
coming. When a leader's first answer took a tenth of a second to come, a tenth of the quota too much came in one second
(1.31 to 1.35 of the quota, measured). Policy `kip73` counts them at that moment all the same, as a leader does
(`throttle/begun.py`).

No I/O. Invariant: there is at most one such entry, the last one that was read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.fetch.batches import BATCH_HEADER_BYTES
from protocol.fetch.walker import ResponseEntry

if TYPE_CHECKING:
    from protocol.fetch.batches import BatchWalk
    from protocol.wire.buffers import Bytes

    from ..throttle.outlook import Outlook
    from .window import Window


class UnfinishedEntry:
    """Of one connection's answers, one after the other."""

    __slots__ = ("_batches", "_entry", "_head", "_records_at", "ends")

    def __init__(self) -> None:
        self.ends: int | None = None
        """The offset in the frame where its records end; None: there is no such entry."""
        self._batches: BatchWalk | None = None
        """Walks its records while they pass, if it matters where their batches end."""
        self._records_at = 0

    def watch(self, batches: BatchWalk | None, records_at: int) -> None:
        """An entry begins whose records, at `records_at` in the frame, are not all in the window."""
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
        """Tell whether the frame's first `passed` bytes have all of its records."""
        return self.ends is not None and passed >= self.ends

    def learn(self, outlook: Outlook, now: float) -> None:
        """Its records have gone on, or as many of them as ever will: the outlook learns from it."""
        if self.ends is not None:
            self.ends = None
            outlook.forwards((self._entry,), self._head, len(self._head), now, self._batches)
