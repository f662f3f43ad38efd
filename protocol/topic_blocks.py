"""How the topics of a Fetch message are written: blocks of a name or an id, a count, and entries.

For those who put messages together from entries. Must not know what is in an entry. Invariant: what is
written is what the tables of `fetch` say; tests hold it to them.
"""

from __future__ import annotations

import itertools
import struct
from typing import TYPE_CHECKING, TypeVar

from .apis import API_FETCH, is_flexible
from .varint import write_uvarint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from .buffers import Bytes
    from .walker import Topic

T = TypeVar("T")

NO_TAGS = b"\0"

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


def count_bytes(version: int, count: int) -> bytes:
    """The number of items of an array, as this version of Fetch writes it."""
    return write_uvarint(count + 1) if is_flexible(API_FETCH, version) else _INT32.pack(count)


def topic_bytes(version: int, topic: Topic) -> bytes:
    """A topic's name (a str, below v13) or id (16 bytes)."""
    if isinstance(topic, bytes):
        return topic
    name = topic.encode()
    return (write_uvarint(len(name) + 1) if is_flexible(API_FETCH, version) else _INT16.pack(len(name))) + name


def topic_blocks(
    version: int,
    entries: Iterable[T],
    *,
    topic: Callable[[T], Topic],
    encode: Callable[[T], Bytes],
    tags: Mapping[Topic, bytes] | None = None,
) -> tuple[int, list[Bytes]]:
    """(number of blocks, their bytes in pieces); consecutive entries of one topic share a block.

    A topic may come again later (PartitionStates in Kafka does the same). ``tags`` are the tagged fields of
    topics that have any.
    """
    flexible = is_flexible(API_FETCH, version)
    pieces: list[Bytes] = []
    blocks = 0
    for key, grouped in itertools.groupby(entries, key=topic):
        members = [encode(entry) for entry in grouped]
        pieces += (topic_bytes(version, key), count_bytes(version, len(members)), *members)
        if flexible:
            pieces.append(tags.get(key, NO_TAGS) if tags else NO_TAGS)
        blocks += 1
    return blocks, pieces
