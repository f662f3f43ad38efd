"""Entries that are added to an answer for the partitions that its request left out.

The entries are put behind the leader's topics, and the frame's head is changed to count them. No I/O.

Invariant: the entries of an answer are added once, in one place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.wire.framing import LENGTH_PREFIX_BYTES

from . import edits
from .edits import Edit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from protocol.fetch.response import ReplayedEntry

    from ..throttle.outlook import Outlook
    from .edits import Replays
    from .response_walk import FrameWalk
    from .window import Window


class Additions:
    """The entries added to the answers of one connection, one answer after the other, each from `begin` on."""

    __slots__ = ("_encoded", "_total", "_version", "owed", "replays")

    def __init__(self) -> None:
        self._encoded: tuple[int, Sequence[ReplayedEntry]] = (0, ())
        """The version and the entries that `replays` encodes: from one fetch to the next they are mostly the same, and
        are not encoded again."""
        self.replays: Replays = edits.NO_REPLAYS
        self.owed = False
        """Entries are to be added, and have not been."""

    def begin(self, outlook: Outlook, total: int) -> None:
        """An answer of `total` bytes begins, to which the outlook's replays are to be added."""
        entries, version = outlook.replays, outlook.version
        self._total, self._version = total, version
        self.owed = bool(entries)
        encoded = self._encoded
        if encoded[1] is not entries and encoded != (version, entries):
            self.replays = edits.encode(version, entries)
            self._encoded = version, entries

    def head(self, window: Window) -> Edit:
        """The edit of the frame's head, which is in the window from its start on. Raises ProtocolError."""
        size = self._total - LENGTH_PREFIX_BYTES + len(self.replays.encoded)
        frame = window.start, window.end
        return edits.head(self._version, window.buffer, frame, size=size, topics=self.replays.topics)

    def add(self, at: int) -> Edit:
        """The edit that adds the entries, at the offset of the frame where its last topic ends."""
        self.owed = False
        return Edit(at, 0, self.replays.encoded)

    def due(self, walk: FrameWalk, end: int) -> list[Edit]:
        """That edit in a list, if it has not been made and its place is known and not behind `end`; else none."""
        at = walk.topics_end
        return [self.add(at)] if self.owed and at is not None and at <= end else []
