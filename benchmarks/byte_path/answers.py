"""A leader's answers, fast enough that a leader in Python is not what is measured.

Pure. Invariant: an answer is what the field tables of `protocol` build, byte for byte, however it was made.
"""

from __future__ import annotations

import functools
import itertools
import struct
from typing import TYPE_CHECKING, Any

from protocol.fetch.tables import response_layout
from protocol.wire.apis import API_FETCH, is_flexible
from protocol.wire.headers import response_header, response_header_version
from protocol.wire.layout import TAGS, item_struct

from .loads import FETCH_OFFSET, HIGH_WATERMARK, PREFIX_BYTES, topic_block

if TYPE_CHECKING:
    from collections.abc import Iterable

    from construct import Construct

    from protocol.wire.topics import Topic

_BATCH_HEAD = struct.Struct(">qiib")
MIN_BATCH_BYTES = 61
_MAGIC = 2
_COUNT_BYTES = 4
_KNOWN_ENTRIES = 8192
_HEAD: dict[str, Any] = {"throttle_time_ms": 0, "error_code": 0, "session_id": 0, TAGS: []}

Wanted = tuple["Topic", int, int]
"""Topic, partition, bytes of records."""


class _Parts:
    """A stream that keeps each piece that is written to it as it is, so that record batches are not copied."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []

    def write(self, data: bytes) -> int:
        self.parts.append(data)
        return len(data)


@functools.lru_cache(maxsize=256)
def batch(size: int) -> bytes:
    """Return so many bytes, which begin like a record batch of that size; none if they are too few for one."""
    if size < MIN_BATCH_BYTES:
        return bytes(size)
    return _BATCH_HEAD.pack(FETCH_OFFSET, size - 12, 0, _MAGIC) + bytes(size - _BATCH_HEAD.size)


def response(version: int, wanted: Iterable[Wanted]) -> list[bytes]:
    """Return the whole frame, its length prefix first and correlation id 0, in parts: equal batches are the same
    object."""
    header = response_header(response_header_version(API_FETCH, version)).build({"correlation_id": 0, TAGS: []})
    blocks = [(topic, list(entries)) for topic, entries in itertools.groupby(wanted, key=lambda entry: entry[0])]
    parts = [header, *(_flexible if is_flexible(API_FETCH, version) else _plain)(version, blocks)]
    return [sum(map(len, parts)).to_bytes(PREFIX_BYTES), *parts]


def _flexible(version: int, blocks: list[tuple[Topic, list[Wanted]]]) -> list[bytes]:
    responses = [
        topic_block(version, topic, [_entry(partition, size) for _, partition, size in entries])
        for topic, entries in blocks
    ]
    return _written(response_layout(version), {**_HEAD, "responses": responses})


def _plain(version: int, blocks: list[tuple[Topic, list[Wanted]]]) -> list[bytes]:
    """Build it by hand: before v12 an array is a count of 4 bytes and its items, and a struct has no tags."""
    body = response_layout(version)
    block = item_struct(body, "responses")
    parts = [_without_count(body, {**_HEAD, "responses": []}), len(blocks).to_bytes(_COUNT_BYTES)]
    for topic, entries in blocks:
        parts += (_without_count(block, topic_block(version, topic, [])), len(entries).to_bytes(_COUNT_BYTES))
        for _, partition, size in entries:
            parts += _entry_parts(version, partition, size)
    return parts


def _without_count(layout: Construct, value: dict[str, Any]) -> bytes:
    return bytes(layout.build(value))[:-_COUNT_BYTES]


@functools.lru_cache(maxsize=_KNOWN_ENTRIES)
def _entry_parts(version: int, partition: int, size: int) -> tuple[bytes, ...]:
    entry = item_struct(item_struct(response_layout(version), "responses"), "partitions")
    *head, records = _written(entry, _entry(partition, size)) if size else (*_written(entry, _entry(partition, 0)), b"")
    return (b"".join(head), records)


def _entry(partition: int, size: int) -> dict[str, Any]:
    return {
        "partition_index": partition, "error_code": 0, "high_watermark": HIGH_WATERMARK, "last_stable_offset": -1,
        "log_start_offset": 0, "aborted_transactions": None, "preferred_read_replica": -1, "records": batch(size),
        TAGS: [],
    }  # fmt: skip


def _written(layout: Construct, value: dict[str, Any]) -> list[bytes]:
    stream = _Parts()
    layout.build_stream(value, stream)
    return stream.parts
