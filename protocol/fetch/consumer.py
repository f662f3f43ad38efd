"""A consumer's Fetch as far as a client quota needs it: its limits, its session, and whether it lists anything.

The same of a share group's ShareFetch (KIP-932). Read at fixed places, without walking the request. From v15 on the
replica id is in a tagged field at the end, so all of the request has to be there. Must not know quotas. Invariant: a
replica's Fetch is never taken for a consumer's.
"""

from __future__ import annotations

import functools
import struct
from typing import TYPE_CHECKING, NamedTuple

from ..wire.apis import API_FETCH, is_flexible
from ..wire.framing import read_uvarint
from ..wire.layout import offset_bytes
from .request import LAST_VERSION_WITH_REPLICA_ID, SessionAt, find_replica_id, parse_fetch_request, peek_session
from .tables import FINAL_EPOCH, FIRST_VERSION_WITH_SESSIONS, NO_SESSION_ID, request_layout

if TYPE_CHECKING:
    from ..wire.framing import Bytes
    from ..wire.headers import RequestHead

FIRST_VERSION_WITH_MAX_BYTES = 3  # KIP-74
SUPPORTED_SHARE_FETCH_VERSIONS = range(3)
FIRST_VERSION_WITH_ISOLATION = 4  # KIP-98
READ_COMMITTED = 1
_INT32 = struct.Struct(">i")
_MIN_BYTES_AFTER_NAMES = 8
"""The bytes of a ShareFetch between its two names and min_bytes: the session's epoch and max_wait_ms."""


class Limits(NamedTuple):
    """The positions in the buffer of how much a request asks for; None where the version has no such field."""

    min_bytes_at: int
    max_bytes_at: int | None


class ConsumerFetch(NamedTuple):
    limits: Limits
    session: SessionAt
    """The id and epoch of the session; before v7 no session, and the epoch of a full request."""
    epoch_at: int | None
    """The position of the epoch in the buffer; None before v7."""
    lists_nothing: bool
    """True if there are no topics and no forgotten topics: in a session, nothing has changed since the last request."""
    reads_committed: bool
    """True if the consumer reads up to the last stable offset alone (KIP-98)."""


class _Places(NamedTuple):
    min_bytes: int
    max_bytes: int | None
    isolation_level: int | None
    epoch: int | None
    topics: int
    nothing: bytes
    """The bytes from `topics` on of a request that lists no topic, and from v7 on forgets none."""


@functools.cache
def _places(version: int) -> _Places:
    body = request_layout(version)
    empty = b"\x01" if is_flexible(API_FETCH, version) else bytes(4)
    sessions = version >= FIRST_VERSION_WITH_SESSIONS
    return _Places(
        min_bytes=offset_bytes(body, "min_bytes"),
        max_bytes=offset_bytes(body, "max_bytes") if version >= FIRST_VERSION_WITH_MAX_BYTES else None,
        isolation_level=offset_bytes(body, "isolation_level") if version >= FIRST_VERSION_WITH_ISOLATION else None,
        epoch=offset_bytes(body, "session_epoch") if sessions else None,
        topics=offset_bytes(body, "topics"),
        nothing=empty * (2 if sessions else 1),
    )


def bytes_to_peek(head: RequestHead, at: int, total: int) -> int:
    """Return how many bytes of the frame of ``total`` bytes at ``at`` `peek_consumer_fetch` needs."""
    if head.api_version > LAST_VERSION_WITH_REPLICA_ID:
        return total
    places = _places(head.api_version)
    return min(head.body_at - at + places.topics + len(places.nothing), total)


def peek_consumer_fetch(head: RequestHead, buffer: Bytes, start: int, end: int) -> ConsumerFetch | None:
    """Return what the Fetch that begins at ``start``, after its length prefix, says; None if it is a replica's.

    `bytes_to_peek` of it are before ``end``. Raises ProtocolError if it is malformed.
    """
    if head.api_version > LAST_VERSION_WITH_REPLICA_ID:
        replica_id = find_replica_id(head, buffer, end)
        if replica_id is None or replica_id < 0:  # a glance may be wrong about that
            replica_id = parse_fetch_request(bytes(buffer[start:end])).replica_id
    else:
        replica_id = find_replica_id(head, buffer, end)
    if replica_id is None or replica_id >= 0:
        return None
    places, at = _places(head.api_version), head.body_at
    topics = at + places.topics
    return ConsumerFetch(
        Limits(at + places.min_bytes, None if places.max_bytes is None else at + places.max_bytes),
        peek_session(head, buffer, end) or SessionAt(NO_SESSION_ID, FINAL_EPOCH),
        None if places.epoch is None else at + places.epoch,
        bytes(buffer[topics : min(topics + len(places.nothing), end)]) == places.nothing,
        places.isolation_level is not None and buffer[at + places.isolation_level] == READ_COMMITTED,
    )


def share_fetch_limits(head: RequestHead, buffer: Bytes, end: int) -> Limits | None:
    """Return the limits of a ShareFetch that begins before ``end``; None if they are not there, or not known. Raises
    ProtocolError if it is malformed."""
    at = head.body_at
    for _ in ("group_id", "member_id"):
        found = read_uvarint(buffer, at, end)
        if found is None:
            return None
        at = found[1] + max(found[0] - 1, 0)  # 0: null
    at += _MIN_BYTES_AFTER_NAMES
    is_known = head.api_version in SUPPORTED_SHARE_FETCH_VERSIONS and at + 2 * _INT32.size <= end
    return Limits(at, at + _INT32.size) if is_known else None


def lower_limits(limits: Limits, buffer: bytearray | memoryview, most_bytes: int) -> None:
    """Ask for at most so many bytes, as a broker does that has a client quota: `max_bytes` is never raised, and
    `min_bytes` is no more than it. Before v3 a request has no such limit, and stays as it is."""
    if limits.max_bytes_at is None:
        return
    most = min(max(most_bytes, 1), _INT32.unpack_from(buffer, limits.max_bytes_at)[0])
    _INT32.pack_into(buffer, limits.max_bytes_at, most)
    if _INT32.unpack_from(buffer, limits.min_bytes_at)[0] > most:
        _INT32.pack_into(buffer, limits.min_bytes_at, most)
