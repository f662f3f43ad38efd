"""The bytes of an answer that go on now, and the entries in them: these are learnt from once the bytes have gone.

No I/O. Invariant: an entry is not learnt from twice: what `take` has returned is gone from here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.fetch.walker import ResponseEntry

if TYPE_CHECKING:
    import mmap
    from collections.abc import Sequence

    from .window import Window


class Piece:
    """Of one connection's answers, one after the other."""

    __slots__ = ("_at", "_relayed_before", "buffer", "end", "rows")

    def __init__(self) -> None:
        self.rows: Sequence[ResponseEntry] = ()
        """Entries, perhaps as plain tuples. Positions in them are offsets in `buffer`, which holds nothing from `end`
        on."""
        self.buffer: mmap.mmap
        self.end = self._at = self._relayed_before = 0

    def begin(self, rows: Sequence[ResponseEntry], window: Window, end: int, relayed_bytes: int) -> None:
        """The window's bytes up to `end` are about to go on, after `relayed_bytes` of answers."""
        self.rows, self.buffer, self.end = rows, window.buffer, end
        self._at, self._relayed_before = window.start, relayed_bytes

    def take(self) -> Sequence[ResponseEntry]:
        """Return the entries, not to be returned again if the connection ends in a pause of learning from them."""
        rows, self.rows = self.rows, ()
        return rows

    def begun(self, relayed_bytes: int) -> list[ResponseEntry]:
        """Return the entries of which some records have gone on, now that `relayed_bytes` of answers have."""
        ends = self._at + relayed_bytes - self._relayed_before
        return [row for row in self.rows if ResponseEntry(*row).records_at < ends]
