"""Frames that are whole in a buffer. Every length that stands before the body is checked before anyone steps by it.

This is the one place where the data path reads a length prefix and the length of a client id together. Whoever goes
along the frames of a buffer learns here where the next frame begins, which is always further on. Must not know what is
done with a frame.

Invariant: what is returned lies within ``buffer[at:end]`` and ends behind ``at``. None stands both for a frame of which
bytes are missing and for one with an impossible length; of the latter, `headers` or `framing` say what is wrong.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, TypeAlias

from .framing import LENGTH_PREFIX_BYTES

if TYPE_CHECKING:
    from .buffers import Bytes

REQUEST_START = struct.Struct(">ihhih")
"""Length prefix, api_key, api_version, correlation_id, length of the client id."""
RESPONSE_START = struct.Struct(">ii")
"""Length prefix, correlation_id."""
REQUEST_START_BYTES, RESPONSE_START_BYTES = REQUEST_START.size, RESPONSE_START.size
_request_start, _response_start = REQUEST_START.unpack_from, RESPONSE_START.unpack_from
NULL_CLIENT_ID = -1

WholeRequest: TypeAlias = tuple[int, int, int, int, int]
"""(where the frame ends, api_key, api_version, correlation_id, where the client id ends): a plain tuple, since one is
made for each small request. Behind the client id stand the header's tagged fields, if any, and the body."""


def whole_request(buffer: Bytes, at: int, end: int) -> WholeRequest | None:
    """Return the request whose length prefix is at ``at``, if all of it, with a client id, is before ``end``."""
    client_id_end = at + REQUEST_START_BYTES
    if client_id_end > end:
        return None
    size, api_key, version, correlation_id, client_id_bytes = _request_start(buffer, at)
    after = at + LENGTH_PREFIX_BYTES + size
    if after > end or client_id_bytes < NULL_CLIENT_ID:
        return None
    if client_id_bytes > 0:
        client_id_end += client_id_bytes
    return None if client_id_end > after else (after, api_key, version, correlation_id, client_id_end)


def whole_response(buffer: Bytes, at: int, end: int) -> tuple[int, int] | None:
    """Return (where it ends, correlation_id) of the response whose length prefix is at ``at``, if all is before
    ``end``."""
    if end - at < RESPONSE_START_BYTES:
        return None
    size, correlation_id = _response_start(buffer, at)
    after = at + LENGTH_PREFIX_BYTES + size
    return (after, correlation_id) if at + RESPONSE_START_BYTES <= after <= end else None
