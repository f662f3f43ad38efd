"""A Fetch request as a value, and the request that is left when some partitions are taken out of it.

Works on a whole frame, its length prefix not included. Must not know why an entry stays or goes, nor the
rules of fetch sessions. Invariant: what is not deliberately changed leaves as the bytes it came as.
"""

from __future__ import annotations

import functools
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import ProtocolError
from ..walkers.rows import BLOCK_TAGS
from ..wire.apis import API_FETCH
from ..wire.headers import RequestHead, peek_request
from ..wire.layout import TAGS, item_struct, member, offset_bytes, parse_whole
from .tables import (
    FINAL_EPOCH,
    FIRST_VERSION_WITH_REPLICA_STATE,
    FIRST_VERSION_WITH_SESSIONS,
    NO_SESSION_ID,
    request_layout,
)
from .topic_blocks import count_bytes, topic_blocks
from .walker import RequestEntry, request_walker, walk_whole

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from ..wire.buffers import Bytes
    from ..wire.topics import Topic

MAX_INT32 = 2**31 - 1
LAST_VERSION_WITH_REPLICA_ID = FIRST_VERSION_WITH_REPLICA_STATE - 1  # v15 moves it into a tag (KIP-903)
CONSUMER = -1

_INT32 = struct.Struct(">i")


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """One request; positions in entries are positions in the frame."""

    head: RequestHead
    replica_id: int  # -1: a consumer
    max_wait_ms: int
    min_bytes: int
    max_bytes: int  # 2**31 - 1 before v3
    entries: list[RequestEntry]
    session_id: int = NO_SESSION_ID  # before v7 there are none (KIP-227)
    session_epoch: int = FINAL_EPOCH
    forgotten: list[tuple[Topic, int]] = field(default_factory=list)  # (topic, partition)
    topics_end: int = 0  # where the topics end in the frame
    forgotten_end: int = 0  # where the forgotten topics end; the same before v7
    topic_tags: Mapping[Topic, bytes] = field(default_factory=dict)


class Asked(NamedTuple):
    """A partition to ask for: its ``entry`` as the follower once wrote it, and the limit to put into that."""

    topic: Topic
    entry: Bytes
    partition_max_bytes: int


class _Places(NamedTuple):
    """Offsets in bytes: of fields from the start of the body, of the last one from the start of an entry."""

    max_wait_ms: int
    session_id: int | None  # the epoch comes right after it
    topics: int
    partition_max_bytes: int


@functools.cache
def _places(version: int) -> _Places:
    body = request_layout(version)
    entry = item_struct(item_struct(body, "topics"), "partitions")
    return _Places(
        max_wait_ms=offset_bytes(body, "max_wait_ms"),
        session_id=offset_bytes(body, "session_id") if version >= FIRST_VERSION_WITH_SESSIONS else None,
        topics=offset_bytes(body, "topics"),
        partition_max_bytes=offset_bytes(entry, "partition_max_bytes"),
    )


def peek_replica_id(head: RequestHead, buffer: Bytes, end: int | None = None) -> int | None:
    """Return the replica id of a Fetch v0 to v14 request: negative for consumers. None if there is none to be seen.

    ``buffer`` is the one that ``head`` was peeked in; nothing at or beyond ``end`` (default: its length) is
    read. From v15 on it stands among the last bytes of the request: see `glance_replica_id`.
    """
    if head.api_key != API_FETCH or head.api_version > LAST_VERSION_WITH_REPLICA_ID:
        return None
    if (len(buffer) if end is None else end) - head.body_at < _INT32.size:
        return None
    return int(_INT32.unpack_from(buffer, head.body_at)[0])


def parse_fetch_request(frame: Bytes) -> FetchRequest:
    """Return the request that ``frame`` is, to its last byte.

    Raises ProtocolError for anything else: another API, a version not in SUPPORTED_FETCH_VERSIONS, malformed or
    trailing bytes.
    """
    head = peek_request(frame, 0, len(frame))
    if head is None:
        raise ProtocolError("the frame ends inside the request header")
    if head.api_key != API_FETCH:
        raise ProtocolError(f"api_key {head.api_key} is not Fetch")
    walk = request_walker(head.api_version)
    entries, fields = walk_whole(walk, frame, head.body_at, len(frame))
    topics_end: int = fields["topics_end"]
    return FetchRequest(
        head=head,
        replica_id=_replica_id(head.api_version, fields),
        max_wait_ms=fields["max_wait_ms"],
        min_bytes=fields["min_bytes"],
        max_bytes=fields.get("max_bytes", MAX_INT32),
        entries=entries,
        session_id=fields.get("session_id", NO_SESSION_ID),
        session_epoch=fields.get("session_epoch", FINAL_EPOCH),
        forgotten=[
            (topic, partition)
            for topic, partitions, *_ in fields.get("forgotten_topics_data", ())
            for partition in partitions
        ],
        topics_end=topics_end,
        forgotten_end=fields.get("forgotten_topics_data_end", topics_end),
        topic_tags=fields.get(BLOCK_TAGS, {}),
    )


def _replica_id(version: int, fields: Mapping[str, Any]) -> int:
    if version <= LAST_VERSION_WITH_REPLICA_ID:
        return int(fields["replica_id"])
    tags = member(request_layout(version), TAGS).subcon
    state = tags.values(parse_whole(tags, fields[TAGS])).get("replica_state")
    return CONSUMER if state is None else int(state.replica_id)


def entry_bytes(frame: Bytes, entry: RequestEntry) -> bytes:
    """Return what the follower wrote of this partition, to be kept for an Asked in a later request."""
    return bytes(frame[entry.entry_at : entry.entry_end])


def rebuild_fetch_request(
    frame: Bytes,
    request: FetchRequest,
    entries: Sequence[tuple[RequestEntry, int]],
    *,
    max_wait_ms: int,
) -> bytes:
    """Return the frame that asks for exactly these (entry, partition_max_bytes), in this order; no length prefix.

    ``request`` is ``frame`` parsed, and the entries are its own. Everything else is copied. Consecutive
    entries of one topic share a block. With all entries, their own partition_max_bytes and max_wait_ms, the
    result is ``frame``, if that names no topic twice in a row or in vain.
    """
    places = _places(request.head.api_version)

    def encode(granted: tuple[RequestEntry, int]) -> tuple[Bytes, ...]:
        entry, limit = granted
        limit_at = entry.entry_at + places.partition_max_bytes
        after = limit_at + _INT32.size
        return frame[entry.entry_at : limit_at], _INT32.pack(limit), frame[after : entry.entry_end]

    topics = topic_blocks(
        request.head.api_version, entries, topic=_topic_of_entry, encode=encode, tags=request.topic_tags
    )
    forgotten = frame[request.topics_end : request.forgotten_end]
    return _rebuilt(frame, request, topics, forgotten=forgotten, session=None, max_wait_ms=max_wait_ms)


def rebuild_session_request(
    frame: Bytes,
    request: FetchRequest,
    asked: Collection[Asked],
    *,
    forgotten: Collection[tuple[Topic, int]],
    session_id: int,
    session_epoch: int,
    max_wait_ms: int,
) -> bytes:
    """Return the frame (v7 or later) that lists exactly these partitions and forgets those; no length prefix.

    ``request`` is ``frame`` parsed. What is asked may be of an earlier frame, of the same version. Everything
    else is copied from ``frame``, unknown tagged fields too.
    """
    version = request.head.api_version
    limit_at = _places(version).partition_max_bytes
    after = limit_at + _INT32.size

    def encode(ask: Asked) -> tuple[Bytes, ...]:
        return ask.entry[:limit_at], _INT32.pack(ask.partition_max_bytes), ask.entry[after:]

    topics = topic_blocks(version, asked, topic=_first, encode=encode, tags=request.topic_tags)
    blocks, pieces = topic_blocks(version, forgotten, topic=_first, encode=_forgotten_partition)
    return _rebuilt(
        frame,
        request,
        topics,
        forgotten=b"".join((count_bytes(version, blocks), *pieces)),
        session=(session_id, session_epoch),
        max_wait_ms=max_wait_ms,
    )


def _rebuilt(
    frame: Bytes,
    request: FetchRequest,
    topics: tuple[int, list[Bytes]],
    *,
    forgotten: Bytes,
    session: tuple[int, int] | None,
    max_wait_ms: int,
) -> bytes:
    version, body_at = request.head.api_version, request.head.body_at
    places = _places(version)
    start = bytearray(frame[: body_at + places.topics])
    _INT32.pack_into(start, body_at + places.max_wait_ms, max_wait_ms)
    if session is not None and places.session_id is not None:
        for index, number in enumerate(session):
            _INT32.pack_into(start, body_at + places.session_id + index * _INT32.size, number)
    blocks, pieces = topics
    return b"".join((start, count_bytes(version, blocks), *pieces, forgotten, frame[request.forgotten_end :]))


def _topic_of_entry(granted: tuple[RequestEntry, int]) -> Topic:
    return granted[0].topic


def _first(keyed: tuple[Topic, *tuple[object, ...]]) -> Topic:
    return keyed[0]


def _forgotten_partition(key: tuple[Topic, int]) -> tuple[bytes]:
    return (_INT32.pack(key[1]),)
