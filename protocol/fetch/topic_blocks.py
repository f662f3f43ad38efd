"""Writes the topics of a Fetch message: blocks of a name or an id, a count, and entries.

Messages are put together here from entries that exist as bytes. Must not know what is in an entry. Invariant: what is
written is what Construct would write by the `tables`; tests compare the two.
"""

from __future__ import annotations

import itertools
import struct
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ..wire.apis import API_FETCH, is_flexible
from ..wire.framing import write_uvarint

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from ..wire.framing import Bytes
    from ..wire.topics import Topic

T = TypeVar("T")

NO_TAGS = b"\0"

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


class TopicBlocks:
    """The blocks of an array of topics, to which entries are added group by group.

    Consecutive entries of one topic share a block; a topic may come again later (PartitionStates in Kafka does the
    same). ``tags`` are the tagged fields of topics that have any.
    """

    __slots__ = ("_blocks", "_count", "_count_at", "_pieces", "_tags", "_topic", "_write")

    def __init__(self, version: int, tags: Mapping[Topic, bytes] | None = None) -> None:
        self._write = _writers(version)
        self._tags = tags
        self._pieces: list[Bytes] = []
        self._topic: Topic | None = None
        self._blocks = self._count = self._count_at = 0

    def add(self, entries: Iterable[T], *, topic: Callable[[T], Topic], encode: Callable[[T], Iterable[Bytes]]) -> None:
        """``encode`` gives the pieces of one entry."""
        for key, grouped in itertools.groupby(entries, key=topic):
            if key != self._topic:
                self._begin_block(key)
            encoded = [encode(entry) for entry in grouped]
            self._count += len(encoded)
            self._pieces.append(b"".join(itertools.chain.from_iterable(encoded)))

    def extend(self, topic: Topic, encoded: Collection[bytes]) -> None:
        """Add entries of one topic that are encoded already."""
        if topic != self._topic:
            self._begin_block(topic)
        self._count += len(encoded)
        self._pieces.append(b"".join(encoded))

    def end(self) -> tuple[int, list[Bytes]]:
        """Return the number of blocks, and their bytes in pieces."""
        self._end_block()
        return self._blocks, self._pieces

    def _begin_block(self, topic: Topic) -> None:
        self._end_block()
        self._topic = topic
        self._blocks += 1
        self._pieces += (self._write.topic(topic), b"")
        self._count_at = len(self._pieces) - 1

    def _end_block(self) -> None:
        if self._topic is None:
            return
        self._pieces[self._count_at] = self._write.number(self._count)
        self._pieces.append(self._tags.get(self._topic, self._write.end) if self._tags else self._write.end)
        self._topic, self._count = None, 0
