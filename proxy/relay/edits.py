"""What is done to a leader's response, as edits of its bytes: its head, what is added, records that are taken away.

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
from protocol.wire.framing import LENGTH_PREFIX, LENGTH_PREFIX_BYTES
from protocol.wire.varint import MAX_UVARINT_BYTES

from .exchange import MAX_FRAME_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from protocol.fetch.response import ReplayedEntry
    from protocol.fetch.walker import ResponseEntry
    from protocol.wire.buffers import Bytes


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


def head(version: int, buffer: Bytes, frame: tuple[int, int], *, size: int, topics: int) -> Edit:
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
    said = records_length_bytes(version, before, row.records_size)
    return Edit(records_at - said - origin, said + row.records_size, records_length(version, 0))


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
