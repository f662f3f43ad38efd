"""Length prefixes and varints: where a frame ends, checked before anything is allocated or anyone steps by it.

`whole_request` and `whole_response` are the one place where the data path reads a length prefix and the length of a
client id together. Must not know what is inside a frame. Invariants: a size that leaves here is between 0 and the given
maximum; what is found whole lies within ``buffer[at:end]`` and ends behind ``at``. None stands both for a frame of
which bytes are missing and for one with an impossible length; of the latter, `headers` or `frame_size` say what is
wrong.
"""

from __future__ import annotations

import mmap
import struct
from typing import TypeAlias

from ..errors import ProtocolError

LENGTH_PREFIX = struct.Struct(">i")
LENGTH_PREFIX_BYTES = LENGTH_PREFIX.size
REQUEST_START = struct.Struct(">ihhih")
"""The start of a request: length prefix, api_key, api_version, correlation_id, length of the client id."""
RESPONSE_START = struct.Struct(">ii")
"""The start of a response: length prefix, correlation_id."""
REQUEST_START_BYTES, RESPONSE_START_BYTES = REQUEST_START.size, RESPONSE_START.size
_request_start, _response_start = REQUEST_START.unpack_from, RESPONSE_START.unpack_from
NULL_CLIENT_ID = -1
WholeRequest: TypeAlias = tuple[int, int, int, int, int]
"""The tuple (where the frame ends, api_key, api_version, correlation_id, where the client id ends), a plain one since
one is made for each small request. After the client id come the header's tagged fields, if any, and the body."""
MAX_UVARINT = 2**32 - 1
MAX_UVARINT_BYTES = 5
Bytes: TypeAlias = bytes | bytearray | memoryview | mmap.mmap
"""The buffers that this package accepts: indexing gives an int, slicing gives something ``str(…, "utf-8")`` can
read."""


def frame_size(buffer: Bytes, at: int, *, maximum: int) -> int:
    """Return bytes of the frame whose length prefix is ``buffer[at:at + 4]``, the prefix itself not counted.

    Raises ProtocolError if the size is negative or above ``maximum``, or if the four bytes are not there.
    """
    try:
        (size,) = LENGTH_PREFIX.unpack_from(buffer, at)
    except struct.error as error:
        raise ProtocolError("a length prefix has four bytes") from error
    if not 0 <= size <= maximum:
        raise ProtocolError(f"frame size {size} is not between 0 and {maximum}")
    return int(size)


def with_length(frame: bytes) -> bytes:
    """Return the frame as it goes over the wire: its length prefix, then the frame."""
    return LENGTH_PREFIX.pack(len(frame)) + frame


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


def read_uvarint(buffer: Bytes, at: int, end: int) -> tuple[int, int] | None:
    """Return (value, position after it) of the varint at ``at``, or None if it does not end before ``end``.

    Raises ProtocolError if it is longer than five bytes or above 2**32 - 1.
    """
    value = 0
    for index in range(min(end - at, MAX_UVARINT_BYTES)):
        byte = buffer[at + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            if value > MAX_UVARINT:
                raise ProtocolError("an unsigned varint does not fit 32 bits")
            return value, at + index + 1
    if end - at >= MAX_UVARINT_BYTES:
        raise ProtocolError("an unsigned varint has more than five bytes")
    return None


def write_uvarint(value: int) -> bytes:
    """Return ``value`` (0 to 2**32 - 1) in as few bytes as it takes."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
