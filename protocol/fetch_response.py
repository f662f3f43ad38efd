"""Fetch responses that the sidecar writes itself, or adds to: entries without records (KIP-73).

Must not know when that is right to do: high watermarks and log start offsets are the caller's to answer for.
Invariant: such an entry has error 0 and records of length 0. Null records kill the fetchers of old brokers.
"""

from __future__ import annotations

import functools
import itertools
import struct
from typing import TYPE_CHECKING, NamedTuple

from .fetch import response_layout
from .layout import item_struct, offset_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .buffers import Bytes

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_CORRELATION_ID_BYTES = 4
_BATCH_LENGTH = struct.Struct(">8xi")  # after the base offset; the same place in message formats v0 to v2
_SMALLEST_MESSAGE_BYTES = 14  # format v0: crc, magic, attributes, null key, null value


class ReplayedEntry(NamedTuple):
    """One partition to answer without records."""

    topic: str
    partition: int
    high_watermark: int
    log_start_offset: int


class _Template(NamedTuple):
    """An entry without records, and where its numbers go; None for a field the version does not have."""

    entry: bytes
    partition: int
    high_watermark: int
    log_start_offset: int | None


@functools.cache
def _template(version: int) -> _Template:
    entry = item_struct(item_struct(response_layout(version), "responses"), "partitions")
    values = {
        "partition_index": 0,
        "error_code": 0,
        "high_watermark": 0,
        "last_stable_offset": -1,  # followers do not look at it, nor at the next
        "log_start_offset": -1,
        "aborted_transactions": None,
        "records": b"",
    }
    names = {field.name for field in entry.subcons}
    return _Template(
        entry=entry.build(values),
        partition=offset_bytes(entry, "partition_index"),
        high_watermark=offset_bytes(entry, "high_watermark"),
        log_start_offset=offset_bytes(entry, "log_start_offset") if "log_start_offset" in names else None,
    )


@functools.cache
def topic_count_at(version: int) -> int:
    """Where a response frame has the int32 count of its topics, its length prefix not counted."""
    return _CORRELATION_ID_BYTES + offset_bytes(response_layout(version), "responses")


def replayed_topics(version: int, entries: Sequence[ReplayedEntry]) -> tuple[int, bytes]:
    """(topic blocks, their bytes) to append to a response; consecutive entries of one topic share a block.

    Raises ProtocolError for a version not in SUPPORTED_FETCH_VERSIONS.
    """
    template = _template(version)
    parts: list[bytes] = []
    blocks = 0
    for topic, grouped in itertools.groupby(entries, key=_topic):
        members = [_entry(template, entry) for entry in grouped]
        name = topic.encode()
        parts += (_INT16.pack(len(name)), name, _INT32.pack(len(members)), *members)
        blocks += 1
    return blocks, b"".join(parts)


def empty_fetch_response(version: int, correlation_id: int, entries: Sequence[ReplayedEntry]) -> bytes:
    """A whole response frame, its length prefix not included, of these entries; throttle_time_ms is 0.

    Raises ProtocolError for a version not in SUPPORTED_FETCH_VERSIONS.
    """
    blocks, topics = replayed_topics(version, entries)
    head = bytearray(topic_count_at(version))
    _INT32.pack_into(head, 0, correlation_id)
    return bytes(head) + _INT32.pack(blocks) + topics


def first_batch_size(buffer: Bytes, records_at: int, end: int) -> int | None:
    """Bytes of the first batch (or message) of the records at ``records_at``, as it says itself.

    None if fewer than 12 bytes stand before ``end``, or the length is nonsense. The batch may well be
    longer than the records at hand.
    """
    if end - records_at < _BATCH_LENGTH.size:
        return None
    (length,) = _BATCH_LENGTH.unpack_from(buffer, records_at)
    return _BATCH_LENGTH.size + length if length >= _SMALLEST_MESSAGE_BYTES else None


def _entry(template: _Template, entry: ReplayedEntry) -> bytes:
    encoded = bytearray(template.entry)
    _INT32.pack_into(encoded, template.partition, entry.partition)
    _INT64.pack_into(encoded, template.high_watermark, entry.high_watermark)
    if template.log_start_offset is not None:
        _INT64.pack_into(encoded, template.log_start_offset, entry.log_start_offset)
    return bytes(encoded)


def _topic(entry: ReplayedEntry) -> str:
    return entry.topic
