"""Writes the topics of a Fetch message: blocks of a name or an id, a count, and entries.

Messages are put together here from entries that exist as bytes. Must not know what is in an entry. Invariant: what is
written is what Construct would write by the `tables`; tests compare the two.
"""

from __future__ import annotations

import itertools
import struct
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ..pacing import paced
from ..wire.apis import API_FETCH, is_flexible
from ..wire.varint import write_uvarint

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from ..wire.buffers import Bytes
    from ..wire.topics import Topic

T = TypeVar("T")

NO_TAGS = b"\0"
MOST_PIECES = 256
"""So many are put together at once. Those of 25 000 entries, joined in the end, would take 5 ms without a pause."""

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


class _Writers(NamedTuple):
    """The writers of one version: of a count, of a topic, and of the end of a block."""

    number: Callable[[int], bytes]
    topic: Callable[[Topic], bytes]
    end: bytes


def _compact_count(count: int) -> bytes:
    return write_uvarint(count + 1)


def _compact_topic(topic: Topic) -> bytes:
    if isinstance(topic, bytes):
        return topic
    name = topic.encode()
    return write_uvarint(len(name) + 1) + name


def _plain_topic(topic: Topic) -> bytes:
    name = str(topic).encode()
    return _INT16.pack(len(name)) + name


_COMPACT = _Writers(_compact_count, _compact_topic, NO_TAGS)
_PLAIN = _Writers(_INT32.pack, _plain_topic, b"")


def _writers(version: int) -> _Writers:
    return _COMPACT if is_flexible(API_FETCH, version) else _PLAIN


def count_bytes(version: int, count: int) -> bytes:
    """Return the number of items of an array, as this version of Fetch writes it."""
    return _writers(version).number(count)


def topic_bytes(version: int, topic: Topic) -> bytes:
    """Return a topic's name (a str, below v13) or id (16 bytes)."""
    return _writers(version).topic(topic)


def end_of_block(version: int) -> bytes:
    """Return what follows a block's entries: no tagged fields, where there may be any."""
    return _writers(version).end


def topic_blocks(
    version: int,
    entries: Collection[T],
    *,
    topic: Callable[[T], Topic],
    encode: Callable[[T], Iterable[Bytes]],
    tags: Mapping[Topic, bytes] | None = None,
) -> tuple[int, list[Bytes]]:
    """Return (number of blocks, their bytes in pieces); ``encode`` gives the pieces of one entry.

    Consecutive entries of one topic share a block; a topic may come again later (PartitionStates in Kafka does
    the same). ``tags`` are the tagged fields of topics that have any.
    """
    write = _writers(version)
    pieces: list[Bytes] = []
    fresh: list[Bytes] = []
    blocks = 0
    for key, grouped in itertools.groupby(paced(entries), key=topic):
        pieces += (write.topic(key), b"")
        count_at, count = len(pieces) - 1, 0
        for entry in grouped:
            fresh += encode(entry)
            count += 1
            if len(fresh) >= MOST_PIECES:
                pieces.append(b"".join(fresh))
                fresh.clear()
        pieces += fresh
        fresh.clear()
        pieces[count_at] = write.number(count)
        pieces.append(tags.get(key, write.end) if tags else write.end)
        blocks += 1
    return blocks, pieces
