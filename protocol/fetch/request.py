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
    INITIAL_EPOCH,
    NO_SESSION_ID,
    request_layout,
)
from .topic_blocks import TopicBlocks, count_bytes
from .walker import RequestEntry, request_walker, walk_whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..wire.framing import Bytes
    from ..wire.topics import Topic


MAX_INT32 = 2**31 - 1
LAST_VERSION_WITH_REPLICA_ID = FIRST_VERSION_WITH_REPLICA_STATE - 1  # v15 moves it into a tag (KIP-903)
CONSUMER = -1

STEP_BYTES = 4096
"""The bytes of a long request that are parsed in one step: some hundred partitions."""

_INT32 = struct.Struct(">i")
MIN_BODY_BYTES = 16
"""The smallest body of any version: that of a v0 request for no partitions."""
_SESSION = struct.Struct(">ii")
_LAST_TAGS = struct.Struct(">BBiqB")
"""The 13 bytes of tag 1 (replica_state): replica id, replica epoch, no tagged fields of its own. Brokers put it
last."""
_REPLICA_STATE = (1, 13)


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
    min_bytes: int
    session_id: int | None  # the epoch comes right after it
    topics: int
    partition_max_bytes: int


@functools.cache
def _places(version: int) -> _Places:
    body = request_layout(version)
    entry = item_struct(item_struct(body, "topics"), "partitions")
    return _Places(
        max_wait_ms=offset_bytes(body, "max_wait_ms"),
        min_bytes=offset_bytes(body, "min_bytes"),
        session_id=offset_bytes(body, "session_id") if version >= FIRST_VERSION_WITH_SESSIONS else None,
        topics=offset_bytes(body, "topics"),
        partition_max_bytes=offset_bytes(entry, "partition_max_bytes"),
    )


def peek_replica_id(head: RequestHead, buffer: Bytes, end: int | None = None) -> int | None:
    """Return the replica id of a Fetch v0 to v14 request: negative for consumers. None if there is none to be seen.

    ``buffer`` is the one that ``head`` was peeked in; nothing at or beyond ``end`` (default: its length) is
    read. From v15 on it stands among the last bytes of the request: see `find_replica_id`.
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
    head = _head(frame)
    return _request(head, *walk_whole(request_walker(head.api_version), frame, head.body_at, len(frame)))


class FetchRequestParser:
    """Parses a long request in steps, each of which takes some tenths of a millisecond at most."""

    __slots__ = ("_at", "_entries", "_fields", "_frame", "_head", "_steps", "_until")

    def __init__(self, frame: Bytes) -> None:
        """Read the header. Raises ProtocolError, as `parse_fetch_request` does."""
        self._frame, self._head = frame, _head(frame)
        self._entries: list[RequestEntry] = []
        self._fields: dict[str, Any] = {}
        self._at = self._until = at = self._head.body_at
        walk = request_walker(self._head.api_version)
        self._steps = walk(frame, len(frame) - at, self._entries.append, self._fields)
        next(self._steps)

    def step(self) -> FetchRequest | None:
        """Parse the next STEP_BYTES. Return the request if that was the last step. Raises ProtocolError."""
        end = len(self._frame)
        self._until = min(max(self._until, self._at) + STEP_BYTES, end)
        try:
            self._at = self._steps.send((self._at, self._until))
        except StopIteration as done:
            if done.value != end:
                raise ProtocolError(f"{end - done.value} bytes follow the end of the message") from None
            return _request(self._head, self._entries, self._fields)
        if self._until == end:
            raise ProtocolError("the frame ends inside the message")
        return None


def _head(frame: Bytes) -> RequestHead:
    head = peek_request(frame, 0, len(frame))
    if head is None:
        raise ProtocolError("the frame ends inside the request header")
    if head.api_key != API_FETCH:
        raise ProtocolError(f"api_key {head.api_key} is not Fetch")
    return head


def _request(head: RequestHead, entries: list[RequestEntry], fields: Mapping[str, Any]) -> FetchRequest:
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


class FetchRequestBuilder:
    """Builds the frame that asks for other partitions than the request that a follower sent, or with other limits.

    ``request`` is ``frame`` parsed. Everything but what is added here is copied from ``frame``, unknown tagged fields
    too. Consecutive partitions of one topic share a block.
    """

    __slots__ = ("_after_limit", "_forgotten", "_frame", "_limit_at", "_request", "_topics")

    def __init__(self, frame: Bytes, request: FetchRequest) -> None:
        version = request.head.api_version
        self._frame, self._request = frame, request
        self._limit_at = _places(version).partition_max_bytes
        self._after_limit = self._limit_at + _INT32.size
        self._topics = TopicBlocks(version, request.topic_tags)
        self._forgotten: TopicBlocks | None = None

    def add_entries(self, entries: Iterable[tuple[RequestEntry, int]]) -> None:
        """Ask for these (entry of the request, partition_max_bytes)."""
        self._topics.add(entries, topic=_topic_of_entry, encode=self._encode_entry)

    def add_asked(self, asked: Iterable[Asked]) -> None:
        """Ask for partitions whose entries may be of an earlier frame, of the same version."""
        self._topics.add(asked, topic=_first, encode=self._encode_asked)

    def add_forgotten(self, keys: Iterable[tuple[Topic, int]]) -> None:
        """Have the session forget these."""
        if self._forgotten is None:
            self._forgotten = TopicBlocks(self._request.head.api_version)
        self._forgotten.add(keys, topic=_first, encode=_forgotten_partition)

    def build(self, *, max_wait_ms: int, min_bytes: int, session: tuple[int, int] | None = None) -> bytes:
        """Return the frame, without a length prefix. ``session``: its id and epoch (v7 or later), in which what was
        added as forgotten is; None: session and what it forgets are as the follower's request says."""
        request, frame = self._request, self._frame
        version, body_at = request.head.api_version, request.head.body_at
        places = _places(version)
        start = bytearray(frame[: body_at + places.topics])
        _INT32.pack_into(start, body_at + places.max_wait_ms, max_wait_ms)
        _INT32.pack_into(start, body_at + places.min_bytes, min_bytes)
        leaves_out = frame[request.topics_end : request.forgotten_end]
        if session is not None and places.session_id is not None:
            for index, number in enumerate(session):
                _INT32.pack_into(start, body_at + places.session_id + index * _INT32.size, number)
            blocks, pieces = (0, []) if self._forgotten is None else self._forgotten.end()
            leaves_out = b"".join((count_bytes(version, blocks), *pieces))
        blocks, pieces = self._topics.end()
        return b"".join((start, count_bytes(version, blocks), *pieces, leaves_out, frame[request.forgotten_end :]))

    def _encode_entry(self, granted: tuple[RequestEntry, int]) -> tuple[Bytes, ...]:
        entry, limit = granted
        frame, at = self._frame, entry.entry_at
        return frame[at : at + self._limit_at], _INT32.pack(limit), frame[at + self._after_limit : entry.entry_end]

    def _encode_asked(self, asked: Asked) -> tuple[Bytes, ...]:
        _, entry, limit = asked
        return entry[: self._limit_at], _INT32.pack(limit), entry[self._after_limit :]


def _topic_of_entry(granted: tuple[RequestEntry, int]) -> Topic:
    return granted[0].topic


def _first(keyed: tuple[Topic, *tuple[object, ...]]) -> Topic:
    return keyed[0]


def _forgotten_partition(key: tuple[Topic, int]) -> tuple[bytes]:
    return (_INT32.pack(key[1]),)


class SessionAt(NamedTuple):
    """A fetch session's id, and the epoch of the request within it (KIP-227)."""

    session_id: int
    session_epoch: int

    @property
    def is_full(self) -> bool:
        """True if the request lists every partition."""
        return self.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH)


@functools.cache
def session_at(version: int) -> int | None:
    """Return where the body of a request of this version has its session id; None before v7."""
    return offset_bytes(request_layout(version), "session_id") if version >= FIRST_VERSION_WITH_SESSIONS else None


def peek_session(head: RequestHead, buffer: Bytes, end: int) -> SessionAt | None:
    """Return the session that the request names; None before v7, or if it is not all before ``end``."""
    offset = session_at(head.api_version)
    if offset is None or end - head.body_at < offset + _SESSION.size:
        return None
    return SessionAt(*_SESSION.unpack_from(buffer, head.body_at + offset))


def find_replica_id(head: RequestHead, buffer: Bytes, end: int) -> int | None:
    """Return the replica id of a whole request that ends at ``end``; None if a glance does not find one.

    From v15 on the replica id is in a tagged field at the end of the request (KIP-903), which a consumer's has not.
    """
    if head.api_version <= LAST_VERSION_WITH_REPLICA_ID:
        return peek_replica_id(head, buffer, end)
    if end - head.body_at < _LAST_TAGS.size:
        return None
    tag, size, replica_id, _, tags = _LAST_TAGS.unpack_from(buffer, end - _LAST_TAGS.size)
    return int(replica_id) if (tag, size) == _REPLICA_STATE and not tags else None
