"""Edits a leader's response: its head, what is added, records that are taken away.

    edit ─▶ (at, remove, insert): at offset `at` of the frame, `insert` stands in place of `remove` bytes

A frame that is whole is edited in one join; a frame that streams by is edited piece by piece, with the same edits.
Entries of omitted replicas are put behind the leader's topics, so the number of topics and the frame's length grow.
Records that are over quota are taken out of their entry: every other field stays, and the records have length 0. They
are never null, which older followers do not survive (KIP-73). Bytes in, bytes out.

Invariant: but for its edits whatever the leader sent stays, in its order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from protocol.errors import ProtocolError
from protocol.fetch.response import (
    read_topic_count,
    records_length,
    records_length_bytes,
    replayed_topics,
    topic_count_at,
)
from protocol.fetch.topic_blocks import count_bytes
from protocol.wire.framing import LENGTH_PREFIX, LENGTH_PREFIX_BYTES, MAX_UVARINT_BYTES

from ..statistics.counters import Undecoded
from .direction import Replace
from .in_flight import MAX_FRAME_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from protocol.fetch.response import ReplayedEntry
    from protocol.fetch.walker import ResponseEntry
    from protocol.wire.framing import Bytes

    from ..config.settings import LimitSettings
    from ..throttle.pending_fetch import PendingFetch
    from .in_flight import InFlightRequests
    from .transfer import Window


class Edit(NamedTuple):
    """Offsets in the leader's frame, from the first byte of its length prefix on."""

    at: int
    remove: int
    insert: bytes


class Replays(NamedTuple):
    """Entries to add, encoded as `topics` topics."""

    topics: int
    encoded: bytes


NO_REPLAYS = Replays(0, b"")


def encode(version: int, entries: Sequence[ReplayedEntry]) -> Replays:
    return Replays(*replayed_topics(version, entries)) if entries else NO_REPLAYS


def edit_of_head(version: int, buffer: Bytes, frame: tuple[int, int], *, size: int, topics: int) -> Edit:
    """Return the edit of the frame's head that adds `topics` to the number of topics and makes `size` its length.

    `size` counts the old number of topics; that the new one may be longer is added here. `frame`: the offsets in
    `buffer` where the frame begins and where what has come of it ends. Raises ProtocolError if the number of topics is
    not there, or the frame would be longer than a frame can be.
    """
    start, end = frame
    count = read_topic_count(version, buffer, start + LENGTH_PREFIX_BYTES + topic_count_at(version), end)
    if count is None:
        raise ProtocolError("the leader's response ends within its header")
    new_count = count_bytes(version, count.topics + topics)
    new_size = size + len(new_count) - (count.after - count.at)
    if new_size > MAX_FRAME_BYTES:
        raise ProtocolError("the leader's response leaves no room for what was omitted")
    unchanged = buffer[start + LENGTH_PREFIX_BYTES : count.at]
    return Edit(0, count.after - start, b"".join((LENGTH_PREFIX.pack(new_size), unchanged, new_count)))


def emptied(version: int, buffer: Bytes, row: ResponseEntry, *, start: int, origin: int) -> Edit:
    """Return the edit that takes the records of this entry away.

    `buffer` holds the frame from offset `start` on, the length before those records included; `origin` is the offset in
    `buffer` at which the frame's first byte would be, and may be negative.
    """
    records_at = row.records_at
    before = buffer[max(start, records_at - MAX_UVARINT_BYTES) : records_at]
    prefix = records_length_bytes(version, before, row.records_size)
    return Edit(records_at - prefix - origin, prefix + row.records_size, records_length(version, 0))


def applied(memory: memoryview, origin: int, piece: tuple[int, int], edits: Iterable[Edit]) -> tuple[bytes, int]:
    """Return the `piece` of the frame, from offset to offset, with these edits made, and the offset up to which the
    frame is dealt with. That offset is behind the piece if the last edit removes bytes that are still to come.

    `origin` is the offset in `memory` at which the frame's first byte would be, and may be negative.
    """
    at, end = piece
    kept: list[Bytes] = []
    for edit in edits:
        if edit.at > at:
            kept.append(memory[origin + at : origin + edit.at])
        kept.append(edit.insert)
        at = edit.at + edit.remove
    if at < end:
        kept.append(memory[origin + at : origin + end])
    return b"".join(kept), at


class Additions:
    """The entries added to the answers of one connection, one answer after the other, each from `begin` on."""

    __slots__ = ("_encoded", "_total", "_version", "owed", "replays")

    def __init__(self) -> None:
        self._encoded: tuple[int, Sequence[ReplayedEntry]] = (0, ())
        """The version and the entries that `replays` encodes: from one fetch to the next they are mostly the same, and
        are not encoded again."""
        self.replays = NO_REPLAYS
        self.owed = False
        """True if entries are to be added and have not been."""

    def begin(self, pending: PendingFetch, total: int) -> None:
        """Begin an answer of `total` bytes, to which the pending fetch's replays are to be added."""
        entries, version = pending.replays, pending.version
        self._total, self._version = total, version
        self.owed = bool(entries)
        encoded = self._encoded
        if encoded[1] is not entries and encoded != (version, entries):
            ready = pending.encoded_replays
            self.replays = encode(version, entries) if ready is None else Replays(*ready)
            self._encoded = version, entries

    def edit_head(self, window: Window) -> Edit:
        """Return the edit of the frame's head, which is in the window from its start on. Raises ProtocolError."""
        size = self._total - LENGTH_PREFIX_BYTES + len(self.replays.encoded)
        frame = window.start, window.end
        return edit_of_head(self._version, window.buffer, frame, size=size, topics=self.replays.topics)

    def add(self, at: int) -> Edit:
        """Return the edit that adds the entries, at the offset of the frame where its last topic ends."""
        self.owed = False
        return Edit(at, 0, self.replays.encoded)

    def due(self, topics_end: int | None, end: int) -> list[Edit]:
        """Return that edit in a list, if it is still due and its place is known and not behind `end`; else none."""
        return [self.add(topics_end)] if self.owed and topics_end is not None and topics_end <= end else []


class ResponseBuffer:
    """Keeps one connection's answers that lose records, one after the other, each from `begin` to `end`.

    The frame begins with its length, which is not known before its end. Invariant: except for the frame's head, the
    bytes kept are the bytes that the follower will get.
    """

    __slots__ = (
        "_additions",
        "_in_flight",
        "_kept",
        "_kept_to",
        "_limits",
        "_pending",
        "_reserved",
        "_total",
        "active",
    )

    def __init__(self, in_flight: InFlightRequests, limits: LimitSettings, additions: Additions) -> None:
        self._in_flight = in_flight
        self._limits = limits
        self._additions = additions
        self._kept = bytearray()
        self._kept_to = 0
        """The offset in the leader's frame up to which its bytes are kept or left out already."""
        self._reserved = 0
        self.active = False
        """True while an answer is being kept."""

    def begin(self, pending: PendingFetch, total: int) -> bool:
        """Begin to keep an answer of `total` bytes; return False if there is no room for it, so that it passes as it
        is."""
        in_flight, size = self._in_flight, total - LENGTH_PREFIX_BYTES
        if size > self._limits.max_substitution_bytes:
            in_flight.pass_undecoded(Undecoded.RESPONSE_TOO_LARGE)
            return False
        if not in_flight.buffers.reserve(size):
            in_flight.pass_undecoded(Undecoded.MEMORY)
            return False
        self._reserved = size
        self._pending, self._total = pending, total
        self._kept, self._kept_to, self.active = bytearray(), 0, True
        return True

    def end(self) -> None:
        """Release what was reserved for the answer, however it ended, and its bytes; does nothing if none was being
        kept."""
        self._kept = bytearray()
        self._in_flight.buffers.release(self._reserved)
        self._reserved, self.active = 0, False

    def keep_piece(
        self, window: Window, piece: tuple[int, int], rows: Sequence[ResponseEntry], topics_end: int | None
    ) -> Replace:
        """Keep a piece of the frame, without the records that are over quota; with the last piece everything kept goes
        on. `rows` are the entries in the piece, `topics_end` the offset where the last topic ends, once it is known.

        Raises ProtocolError if the frame would become too long, or ends within its header.
        """
        version, (start, end) = self._pending.version, piece
        origin = window.start - start
        changes = [
            emptied(version, window.buffer, row, start=window.start, origin=origin)
            for row in rows
            if self._pending.withholds(row)
        ]
        changes += self._additions.due(topics_end, end)
        data, at = applied(window.memory, origin, (max(start, self._kept_to), end), changes)
        kept = self._kept
        kept += data
        self._kept_to = max(at, end)
        if end < self._total:
            return Replace(end - start, b"")
        size = len(kept) - LENGTH_PREFIX_BYTES
        head = edit_of_head(version, kept, (0, len(kept)), size=size, topics=self._additions.replays.topics)
        kept[: head.remove] = head.insert
        return Replace(end - start, kept)
