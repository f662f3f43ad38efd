"""An answer that loses records is kept here until its end: the frame begins with its length, which is not known before.

No I/O. Invariant: except for the frame's head, the bytes kept are the bytes that the follower will get.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.wire.framing import LENGTH_PREFIX_BYTES

from . import edits
from .exchange import Undecoded
from .reading import Replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from protocol.fetch.walker import ResponseEntry
    from protocol.wire.buffers import Bytes

    from ..config.settings import LimitSettings
    from ..throttle.outlook import Outlook
    from .additions import Additions
    from .exchange import Exchange
    from .response_walk import FrameWalk
    from .window import Window


class Keeping:
    """Keeps one connection's answers that lose records, one after the other, each from `begin` to `end`."""

    __slots__ = ("_additions", "_exchange", "_kept", "_kept_to", "_limits", "_outlook", "_reserved", "_total", "active")

    def __init__(self, exchange: Exchange, limits: LimitSettings, additions: Additions) -> None:
        self._exchange = exchange
        self._limits = limits
        self._additions = additions
        self._kept = bytearray()
        self._kept_to = 0
        """The offset in the leader's frame up to which its bytes are kept or left out already."""
        self._reserved = 0
        self.active = False
        """An answer is being kept."""

    def begin(self, outlook: Outlook, total: int) -> bool:
        """An answer of `total` bytes begins; False if there is no room for it, so that it passes as it is."""
        exchange, size = self._exchange, total - LENGTH_PREFIX_BYTES
        if size > self._limits.max_substitution_bytes:
            exchange.pass_undecoded(Undecoded.RESPONSE_TOO_LARGE)
            return False
        if not exchange.buffers.reserve(size):
            exchange.pass_undecoded(Undecoded.MEMORY)
            return False
        self._reserved = size
        self._outlook, self._total = outlook, total
        self._kept, self._kept_to, self.active = bytearray(), 0, True
        return True

    def end(self) -> None:
        """Release what was reserved for the answer, however it ended, and its bytes; does nothing if none was being
        kept."""
        self._kept = bytearray()
        self._exchange.buffers.release(self._reserved)
        self._reserved, self.active = 0, False

    def take(self, window: Window, walk: FrameWalk, piece: tuple[int, int], rows: Sequence[ResponseEntry]) -> Replace:
        """Keep a piece of the frame, without the records that are over quota; with the last piece everything kept goes
        on. `rows` are the entries in the piece.

        Raises ProtocolError if the frame would become too long, or ends within its header.
        """
        version, (start, end) = self._outlook.version, piece
        origin = window.start - start
        changes = [
            edits.emptied(version, window.buffer, row, start=window.start, origin=origin)
            for row in rows
            if self._outlook.withholds(row)
        ]
        changes += self._additions.due(walk, end)
        data, at = edits.applied(window.memory, origin, (max(start, self._kept_to), end), changes)
        kept = self._kept
        kept += data
        self._kept_to = max(at, end)
        if end < self._total:
            return Replace(end - start, b"")
        size = len(kept) - LENGTH_PREFIX_BYTES
        head = edits.head(version, kept, (0, len(kept)), size=size, topics=self._additions.replays.topics)
        kept[: head.remove] = head.insert
        return Replace(end - start, kept)

    def learn(self, rows: Sequence[ResponseEntry], buffer: Bytes, end: int, now: float) -> None:
        """Learn from entries that were kept. Positions in them are offsets in `buffer`, which holds nothing from `end`
        on."""
        outlook = self._outlook
        for row in rows:
            if outlook.withholds(row):
                outlook.discards(row, now)
            else:
                outlook.forwards((row,), buffer, end, now)
