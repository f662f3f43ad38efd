"""A Fetch request as a value, and the request that is left when some partitions are taken out of it.

Works on a whole frame, its length prefix not included. Must not know why an entry stays or goes.
Invariant: what is not deliberately changed leaves as the bytes it came as.
"""

from __future__ import annotations

import functools
import itertools
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from .apis import API_FETCH
from .errors import ProtocolError
from .fetch import request_layout
from .headers import RequestHead, peek_request
from .layout import item_struct, offset_bytes
from .walker import RequestEntry, request_walker, walk_whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .buffers import Bytes

MAX_INT32 = 2**31 - 1
LAST_VERSION_WITH_REPLICA_ID = 14  # v15 moves it into a tag (KIP-903)

_INT16 = struct.Struct(">h")
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


class _Places(NamedTuple):
    """Offsets in bytes: of two fields from the start of the body, of one from the start of an entry."""

    max_wait_ms: int
    topics: int
    partition_max_bytes: int


@functools.cache
def _places(version: int) -> _Places:
    body = request_layout(version)
    entry = item_struct(item_struct(body, "topics"), "partitions")
    return _Places(
        max_wait_ms=offset_bytes(body, "max_wait_ms"),
        topics=offset_bytes(body, "topics"),
        partition_max_bytes=offset_bytes(entry, "partition_max_bytes"),
    )


def peek_replica_id(head: RequestHead, buffer: Bytes, end: int | None = None) -> int | None:
    """The replica id of a Fetch v0 to v14 request: negative for consumers. None if there is none to be seen.

    ``buffer`` is the one that ``head`` was peeked in; nothing at or beyond ``end`` (default: its length) is
    read.
    """
    if head.api_key != API_FETCH or head.api_version > LAST_VERSION_WITH_REPLICA_ID:
        return None
    if (len(buffer) if end is None else end) - head.body_at < _INT32.size:
        return None
    return int(_INT32.unpack_from(buffer, head.body_at)[0])


def parse_fetch_request(frame: Bytes, head: RequestHead | None = None) -> FetchRequest:
    """The request that ``frame`` is, to its last byte; ``head`` if it was peeked in this very frame already.

    Raises ProtocolError for anything else: another API, a version not in SUPPORTED_FETCH_VERSIONS,
    malformed or trailing bytes.
    """
    if head is None:
        head = peek_request(frame, 0, len(frame))
    if head is None:
        raise ProtocolError("the frame ends inside the request header")
    if head.api_key != API_FETCH:
        raise ProtocolError(f"api_key {head.api_key} is not Fetch")
    entries, fields = walk_whole(request_walker(head.api_version), frame, head.body_at, len(frame))
    return FetchRequest(
        head=head,
        replica_id=fields["replica_id"],
        max_wait_ms=fields["max_wait_ms"],
        min_bytes=fields["min_bytes"],
        max_bytes=fields.get("max_bytes", MAX_INT32),
        entries=entries,
    )


def rebuild_fetch_request(
    frame: Bytes,
    request: FetchRequest,
    entries: Sequence[tuple[RequestEntry, int]],
    *,
    max_wait_ms: int,
) -> bytes:
    """The frame that asks for exactly these (entry, partition_max_bytes), in this order; no length prefix.

    ``request`` is ``frame`` parsed, and the entries are its own. Everything else is copied. Consecutive
    entries of one topic share a block; a topic may come again later (PartitionStates in Kafka does the
    same). With all entries, their own partition_max_bytes and max_wait_ms, the result is ``frame``, if that
    names no topic twice in a row or in vain.
    """
    places = _places(request.head.api_version)
    body_at = request.head.body_at
    wait_at = body_at + places.max_wait_ms
    topics_at = body_at + places.topics
    after_wait = wait_at + _INT32.size
    topics: list[Bytes] = []
    blocks = 0
    for topic, grouped in itertools.groupby(entries, key=_topic):
        members = list(grouped)
        name = topic.encode()
        topics += (_INT16.pack(len(name)), name, _INT32.pack(len(members)))
        for entry, partition_max_bytes in members:
            limit_at = entry.entry_at + places.partition_max_bytes
            after = limit_at + _INT32.size
            topics += (frame[entry.entry_at : limit_at], _INT32.pack(partition_max_bytes))
            topics.append(frame[after : entry.entry_end])
        blocks += 1
    start = (frame[:wait_at], _INT32.pack(max_wait_ms), frame[after_wait:topics_at], _INT32.pack(blocks))
    return b"".join((*start, *topics))


def _topic(granted: tuple[RequestEntry, int]) -> str:
    return granted[0].topic
