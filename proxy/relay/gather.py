"""Leader-side empty-record substitution (KIP-73): a response without the records that are over quota.

The frame's length stands before everything else, so what is kept is collected first. Entries keep every field but
their records, whose length becomes 0: never null, which older followers do not survive. No I/O.

Invariant: an entry with an error, or of a replica that is in sync, is kept byte for byte.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.fetch_response import records_length, records_length_bytes

from .replaying import completed

if TYPE_CHECKING:
    from protocol.walker import ResponseEntry

    from ..throttle.outlook import Outlook
    from .replaying import Replays
    from .window import Window


class Gathered:
    """What is kept of one response, collected pass by pass."""

    def __init__(self, outlook: Outlook, window: Window) -> None:
        self._outlook = outlook
        self._window = window
        self._kept = bytearray()
        self._keep_from = 0
        """Offset in the frame from which bytes are to be kept: beyond the window while records are discarded."""

    def substitute(self, row: ResponseEntry, passed: int, now: float) -> None:
        """Keep the entry up to its records, with a records length of 0. `passed` is the offset at window.start."""
        origin = self._window.start - passed
        self._kept += self._window.buffer[origin + self._keep_from : row.records_at]
        version = self._outlook.version
        del self._kept[-records_length_bytes(version, self._kept, row.records_size) :]
        self._kept += records_length(version, 0)
        self._keep_from = row.records_at + row.records_size - origin
        self._outlook.discards(row, now)

    def take(self, size: int, passed: int) -> None:
        """Done with the next `size` bytes of the window: keep those that are not being discarded."""
        window = self._window
        origin = window.start - passed
        if self._keep_from < passed + size:
            self._kept += window.buffer[origin + self._keep_from : origin + passed + size]
            self._keep_from = passed + size
        window.take(size)

    def frame(self, replays: Replays, *, after_topics: int) -> bytes:
        """Return the kept frame with `replays` behind its topics, after which `after_topics` bytes follow."""
        kept = memoryview(self._kept)
        return completed(self._outlook.version, kept, (0, len(kept)), replays, len(kept) - after_topics)
