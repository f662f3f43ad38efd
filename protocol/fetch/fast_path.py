"""Reads a Fetch request's session and replica id without walking the request.

Must not know what is done with a request. Invariant: nothing outside the given bytes is read. What a glance cannot tell
is None, and never a guess, with one exception: from v15 on the replica id is a guess, since the bytes at the end of a
request might belong to another tagged field. So that one is used for counting alone.
"""

from __future__ import annotations

import functools
import struct
from typing import TYPE_CHECKING, NamedTuple

from ..wire.layout import offset_bytes
from .request import LAST_VERSION_WITH_REPLICA_ID, peek_replica_id
from .tables import FIRST_VERSION_WITH_SESSIONS, request_layout

if TYPE_CHECKING:
    from ..wire.buffers import Bytes
    from ..wire.headers import RequestHead

LEAST_BODY_BYTES = 16
"""The smallest body of any version: that of a v0 request for no partitions."""

_SESSION = struct.Struct(">ii")
_LAST_TAGS = struct.Struct(">BBiqB")
"""Tag 1 (replica_state) of 13 bytes: replica id, replica epoch, no tagged fields of its own. Brokers put it last."""
_REPLICA_STATE = (1, 13)


class SessionAt(NamedTuple):
    """A fetch session's id, and the epoch of the request within it (KIP-227)."""

    session_id: int
    session_epoch: int


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
