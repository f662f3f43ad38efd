"""Fetch responses that the sidecar writes itself, or adds to: entries without records (KIP-73), errors.

Must not know when that is right to do: high watermarks and log start offsets are the caller's to answer for.
Invariant: such an entry has error 0 and records of length 0. Null records kill the fetchers of old brokers.
"""

from __future__ import annotations

import functools
import struct
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from .apis import API_FETCH, is_flexible
from .fetch import FIRST_VERSION_WITH_SESSIONS, response_layout
from .headers import response_header, response_header_version
from .layout import TAGS, item_struct, offset_bytes
from .topic_blocks import NO_TAGS, count_bytes, topic_blocks
from .varint import read_uvarint, write_uvarint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .buffers import Bytes
    from .walker import Topic

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_BATCH_LENGTH = struct.Struct(">8xi")  # after the base offset; the same place in message formats v0 to v2
_SMALLEST_MESSAGE_BYTES = 14  # format v0: crc, magic, attributes, null key, null value


class ReplayedEntry(NamedTuple):
    """One partition to answer without records."""

    topic: Topic
    partition: int
    high_watermark: int
    log_start_offset: int


class TopicCount(NamedTuple):
    """How many topics a response has: ``buffer[at:after]`` says ``topics``."""

    at: int
    after: int
    topics: int


class _Template(NamedTuple):
    """An entry without records, and where its numbers go; None for a field the version does not have."""

    entry: bytes
    partition: int
    high_watermark: int
    log_start_offset: int | None


@functools.cache
def _template(version: int) -> _Template:
    entry = item_struct(item_struct(response_layout(version), "responses"), "partitions")
    values: dict[str, Any] = {
        "partition_index": 0,
        "error_code": 0,
        "high_watermark": 0,
        "last_stable_offset": -1,  # followers do not look at it, nor at the next but one
        "log_start_offset": -1,
        "aborted_transactions": None,
        "preferred_read_replica": -1,
        "records": b"",
        TAGS: [],
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
    """Where a response frame has the count of its topics, its length prefix not counted.

    An int32 below v12. From there on a varint (see read_topic_count), and here if the header has no tagged
    fields, which brokers never put there.
    """
    return len(_header(version, 0)) + offset_bytes(response_layout(version), "responses")


def read_topic_count(version: int, buffer: Bytes, at: int, end: int) -> TopicCount | None:
    """The count of topics that stands at ``at``; None if it is not all there before ``end``.

    Raises ProtocolError if it cannot be one.
    """
    if is_flexible(API_FETCH, version):
        found = read_uvarint(buffer, at, end)
        return None if found is None else TopicCount(at, found[1], found[0] - 1)
    if end - at < _INT32.size:
        return None
    return TopicCount(at, at + _INT32.size, _INT32.unpack_from(buffer, at)[0])


def records_length(version: int, size_bytes: int) -> bytes:
    """What stands right before records of that size; an entry without records has this of 0."""
    return write_uvarint(size_bytes + 1) if is_flexible(API_FETCH, version) else _INT32.pack(size_bytes)


def replayed_topics(version: int, entries: Sequence[ReplayedEntry]) -> tuple[int, bytes]:
    """(topic blocks, their bytes) to add to the end of a response's topics, to whose count they are added too.

    Consecutive entries of one topic share a block. Raises ProtocolError for a version not in
    SUPPORTED_FETCH_VERSIONS.
    """
    template = _template(version)
    blocks, pieces = topic_blocks(version, entries, topic=itemgetter(0), encode=functools.partial(_entry, template))
    return blocks, b"".join(pieces)


def empty_fetch_response(
    version: int, correlation_id: int, entries: Sequence[ReplayedEntry], *, session_id: int = 0
) -> bytes:
    """A whole response frame, its length prefix not included, of these entries; throttle_time_ms is 0.

    In a session that may be none: nothing has changed. Raises ProtocolError for a version not in
    SUPPORTED_FETCH_VERSIONS.
    """
    blocks, topics = replayed_topics(version, entries)
    return _frame(version, correlation_id, error_code=0, session_id=session_id, topics=(blocks, topics))


def error_fetch_response(version: int, correlation_id: int, error_code: int, *, session_id: int = 0) -> bytes:
    """A whole response frame that is nothing but a top-level error, which there is from v7 on (KIP-227).

    Raises ValueError for a version without.
    """
    if version < FIRST_VERSION_WITH_SESSIONS:
        raise ValueError(f"Fetch v{version} has no top-level error")
    return _frame(version, correlation_id, error_code=error_code, session_id=session_id, topics=(0, b""))


def first_batch_size(buffer: Bytes, records_at: int, end: int) -> int | None:
    """Bytes of the first batch (or message) of the records at ``records_at``, as it says itself.

    None if fewer than 12 bytes stand before ``end``, or the length is nonsense. The batch may well be
    longer than the records at hand.
    """
    if end - records_at < _BATCH_LENGTH.size:
        return None
    (length,) = _BATCH_LENGTH.unpack_from(buffer, records_at)
    return _BATCH_LENGTH.size + length if length >= _SMALLEST_MESSAGE_BYTES else None


def _header(version: int, correlation_id: int) -> bytes:
    header = response_header(response_header_version(API_FETCH, version))
    return bytes(header.build({"correlation_id": correlation_id, TAGS: []}))


def _frame(version: int, correlation_id: int, *, error_code: int, session_id: int, topics: tuple[int, bytes]) -> bytes:
    body = response_layout(version)
    start = bytearray(offset_bytes(body, "responses"))
    if version >= FIRST_VERSION_WITH_SESSIONS:
        _INT16.pack_into(start, offset_bytes(body, "error_code"), error_code)
        _INT32.pack_into(start, offset_bytes(body, "session_id"), session_id)
    blocks, encoded = topics
    tags = NO_TAGS if is_flexible(API_FETCH, version) else b""
    return b"".join((_header(version, correlation_id), start, count_bytes(version, blocks), encoded, tags))


def _entry(template: _Template, entry: ReplayedEntry) -> tuple[Bytes]:
    encoded = bytearray(template.entry)
    _INT32.pack_into(encoded, template.partition, entry.partition)
    _INT64.pack_into(encoded, template.high_watermark, entry.high_watermark)
    if template.log_start_offset is not None:
        _INT64.pack_into(encoded, template.log_start_offset, entry.log_start_offset)
    return (encoded,)
