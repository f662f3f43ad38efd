"""Fetch responses that the sidecar writes itself, or adds to: entries without records (KIP-73), errors.

Must not know when it is right to write an entry: the caller answers for its high watermark and log start offset.
Invariant: such an entry has error 0 and records of length 0, not null, which would kill the fetchers of old brokers.
"""

from __future__ import annotations

import functools
import itertools
import struct
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import ProtocolError
from ..wire.apis import API_FETCH, is_flexible
from ..wire.framing import MAX_UVARINT_BYTES, read_uvarint, write_uvarint
from ..wire.headers import response_header, response_header_version
from ..wire.layout import TAGS, item_struct, offset_bytes
from ..wire.primitives import built
from .tables import FIRST_VERSION_WITH_SESSIONS, FIRST_VERSION_WITH_TOPIC_IDS, response_layout
from .topic_blocks import NO_TAGS, TopicBlocks, count_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..wire.framing import Bytes
    from ..wire.topics import Topic

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_TOPIC_ID_BYTES = 16
_OFFSETS = ("high_watermark", "last_stable_offset", "log_start_offset")
"""The offsets of an entry, which stand one after the other, as far as a version has them."""


class ReplayedEntry(NamedTuple):
    """One partition to answer without records."""

    topic: Topic
    partition: int
    high_watermark: int
    log_start_offset: int
    last_stable_offset: int = -1
    """-1: not known; consumers that read committed records look at it, followers do not."""


class TopicCount(NamedTuple):
    """The count of topics in a response: ``buffer[at:after]`` encodes ``topics``."""

    at: int
    after: int
    topics: int


class _Template(NamedTuple):
    """Packs an entry without records: the partition, constant bytes, the offsets that the version has, and constant
    bytes."""

    pack: Callable[..., bytes]
    constants: tuple[bytes, bytes]
    offsets: int
    """The number of its offsets: the high watermark, from v4 on the last stable offset, from v5 on the log
    start offset."""


@functools.cache
def _template(version: int) -> _Template:
    entry = item_struct(item_struct(response_layout(version), "responses"), "partitions")
    values: dict[str, Any] = {
        "partition_index": 0,
        "error_code": 0,
        "high_watermark": 0,
        "last_stable_offset": 0,
        "log_start_offset": 0,
        "aborted_transactions": None,
        "preferred_read_replica": -1,
        "records": b"",
        TAGS: [],
    }
    names = {field.name for field in entry.subcons}
    encoded, offsets = built(entry, values), sum(name in names for name in _OFFSETS)
    first = offset_bytes(entry, "partition_index") + _INT32.size
    at = offset_bytes(entry, _OFFSETS[0])
    constants = encoded[first:at], encoded[at + offsets * _INT64.size :]
    formats = f">i{len(constants[0])}s{offsets}q{len(constants[1])}s"
    return _Template(struct.Struct(formats).pack, constants, offsets)


@functools.cache
def topic_count_at(version: int) -> int:
    """Return where a response frame has the count of its topics, its length prefix not counted.

    An int32 below v12. From there on a varint (see read_topic_count), and here if the header has no tagged
    fields, which brokers never put there.
    """
    return len(_header(version, 0)) + offset_bytes(response_layout(version), "responses")


def read_topic_count(version: int, buffer: Bytes, at: int, end: int) -> TopicCount | None:
    """Return the count of topics that stands at ``at``; None if it is not all there before ``end``.

    Raises ProtocolError if it cannot be one.
    """
    if is_flexible(API_FETCH, version):
        found = read_uvarint(buffer, at, end)
        return None if found is None else TopicCount(at, found[1], found[0] - 1)
    if end - at < _INT32.size:
        return None
    return TopicCount(at, at + _INT32.size, _INT32.unpack_from(buffer, at)[0])


def first_error_code(version: int, buffer: Bytes, start: int, end: int) -> int | None:
    """Return the error code of the whole response that begins at ``start``, after its length prefix, or else that of
    its first partition; None if it has no partition, or if that does not begin before ``end``."""
    if version >= FIRST_VERSION_WITH_SESSIONS:
        code_at = start + len(_header(version, 0)) + offset_bytes(response_layout(version), "error_code")
        if end - code_at < _INT16.size:
            return None
        if code := _INT16.unpack_from(buffer, code_at)[0]:
            return int(code)
    try:
        count = read_topic_count(version, buffer, start + topic_count_at(version), end)
        if count is None or count.topics <= 0:
            return None
        at = _after_topic(version, buffer, count.after, end)
        partitions = None if at is None else read_topic_count(version, buffer, at, end)
    except ProtocolError:
        return None
    if partitions is None or end - partitions.after < _INT32.size + _INT16.size:
        return None
    return int(_INT16.unpack_from(buffer, partitions.after + _INT32.size)[0]) if partitions.topics > 0 else None


def _after_topic(version: int, buffer: Bytes, at: int, end: int) -> int | None:
    """Return where a topic's name or id ends that begins at ``at``."""
    if version >= FIRST_VERSION_WITH_TOPIC_IDS:
        return at + _TOPIC_ID_BYTES
    if is_flexible(API_FETCH, version):
        found = read_uvarint(buffer, at, end)
        return None if found is None else found[1] + max(found[0] - 1, 0)
    if end - at < _INT16.size:
        return None
    return at + _INT16.size + max(int(_INT16.unpack_from(buffer, at)[0]), 0)


def records_length(version: int, size_bytes: int) -> bytes:
    """Return what stands right before records of that size; an entry without records has this of 0."""
    return write_uvarint(size_bytes + 1) if is_flexible(API_FETCH, version) else _INT32.pack(size_bytes)


def records_length_bytes(version: int, kept: Bytes, size_bytes: int) -> int:
    """Return how many bytes at the end of ``kept`` say that records of this size (more than 0) follow.

    In flexible versions a leader may write the length as a longer varint than it needs. The bytes before it cannot be
    taken for a part of it: with each byte more the number would be another one. Raises ProtocolError if none say so.
    """
    if not is_flexible(API_FETCH, version):
        return _INT32.size
    end = len(kept)
    for count in range(1, min(MAX_UVARINT_BYTES, end) + 1):
        found = _varint_of(kept, end - count, end)
        if found == size_bytes + 1:
            return count
    raise ProtocolError(f"no length of {size_bytes} bytes stands before the records")


def _varint_of(kept: Bytes, at: int, end: int) -> int | None:
    """Return the varint that is exactly ``kept[at:end]``; None if that is none."""
    try:
        found = read_uvarint(kept, at, end)
    except ProtocolError:
        return None
    return found[0] if found is not None and found[1] == end else None


def replayed_topics(version: int, entries: Sequence[ReplayedEntry]) -> tuple[int, bytes]:
    """Return (topic blocks, their bytes) to add to the end of a response's topics, to whose count they are added too.

    Consecutive entries of one topic share a block. Raises ProtocolError for a version not in
    SUPPORTED_FETCH_VERSIONS.
    """
    topics = ReplayedTopics(version)
    topics.add(entries)
    return topics.end()


class ReplayedTopics:
    """Encodes the entries of `replayed_topics` part by part."""

    __slots__ = ("_blocks", "_template")

    def __init__(self, version: int) -> None:
        self._template, self._blocks = _template(version), TopicBlocks(version)

    def add(self, entries: Sequence[ReplayedEntry]) -> None:
        pack, (first, last), offsets = self._template
        for topic, group in itertools.groupby(entries, key=itemgetter(0)):
            if offsets == 1:  # without a choice for each entry it takes two thirds of the time
                encoded = [pack(at, first, high, last) for _, at, high, _, _ in group]
            else:
                encoded = [
                    pack(at, first, *(high, stable, start)[:offsets], last) for _, at, high, start, stable in group
                ]
            self._blocks.extend(topic, encoded)

    def end(self) -> tuple[int, bytes]:
        blocks, pieces = self._blocks.end()
        return blocks, b"".join(pieces)


def empty_fetch_response(
    version: int, correlation_id: int, entries: Sequence[ReplayedEntry], *, session_id: int = 0
) -> bytes:
    """Return a whole response frame, its length prefix not included, of these entries; throttle_time_ms is 0.

    In a session that may be none: nothing has changed. Raises ProtocolError for a version not in
    SUPPORTED_FETCH_VERSIONS.
    """
    return response_of_topics(version, correlation_id, replayed_topics(version, entries), session_id=session_id)


def response_of_topics(version: int, correlation_id: int, topics: tuple[int, bytes], *, session_id: int = 0) -> bytes:
    """Return the same of entries that are encoded already, as `replayed_topics` returns them."""
    return _frame(version, correlation_id, error_code=0, session_id=session_id, topics=topics)


def error_fetch_response(version: int, correlation_id: int, error_code: int, *, session_id: int = 0) -> bytes:
    """Return a whole response frame that is nothing but a top-level error, which there is from v7 on (KIP-227).

    Raises ValueError for a version without.
    """
    if version < FIRST_VERSION_WITH_SESSIONS:
        raise ValueError(f"Fetch v{version} has no top-level error")
    return _frame(version, correlation_id, error_code=error_code, session_id=session_id, topics=(0, b""))


def _header(version: int, correlation_id: int) -> bytes:
    header = response_header(response_header_version(API_FETCH, version))
    return built(header, {"correlation_id": correlation_id, TAGS: []})


def _frame(version: int, correlation_id: int, *, error_code: int, session_id: int, topics: tuple[int, bytes]) -> bytes:
    body = response_layout(version)
    start = bytearray(offset_bytes(body, "responses"))
    if version >= FIRST_VERSION_WITH_SESSIONS:
        _INT16.pack_into(start, offset_bytes(body, "error_code"), error_code)
        _INT32.pack_into(start, offset_bytes(body, "session_id"), session_id)
    blocks, encoded = topics
    tags = NO_TAGS if is_flexible(API_FETCH, version) else b""
    return b"".join((_header(version, correlation_id), start, count_bytes(version, blocks), encoded, tags))
