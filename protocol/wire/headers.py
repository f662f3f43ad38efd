"""Request and response headers: their tables, and a peek that costs one unpack for the data path.

Must not know any body. Invariant: the peek reads nothing at or beyond the given end, and agrees with the
tables.
"""

from __future__ import annotations

import functools
import struct
from typing import TYPE_CHECKING, Any, NamedTuple

from construct import Int16sb, Int32sb, Struct, stream_read

from ..errors import ProtocolError
from .apis import API_CONTROLLED_SHUTDOWN, API_VERSIONS, is_flexible
from .framing import read_uvarint
from .layout import TAGS, Field, layout
from .primitives import KString, built

if TYPE_CHECKING:
    import io

    from .framing import Bytes


class _ClientId(KString):
    """A client id as brokers read it, whatever its bytes are."""

    def _parse(self, stream: io.BytesIO, context: Any, path: str) -> str | None:
        length = Int16sb._parsereport(stream, context, path)
        return None if length < 0 else str(stream_read(stream, length, path), "utf-8", "replace")


# RequestHeader.json. client_id keeps its int16 length in header version 2 (KIP-511): not a STRING.
REQUEST_HEADER = (
    Field(0, "api_key", Int16sb),
    Field(0, "api_version", Int16sb),
    Field(0, "correlation_id", Int32sb),
    Field(1, "client_id", _ClientId(nullable=True)),
)
RESPONSE_HEADER = (Field(0, "correlation_id", Int32sb),)  # ResponseHeader.json
FLEXIBLE_REQUEST_HEADER = 2
FLEXIBLE_RESPONSE_HEADER = 1

MAX_HEADER_TAGS = 64
"""The most tagged fields of one header. Kafka has defined none so far; each is a varint's work before the body is
known."""

REQUEST_CORRELATION_ID_AT = 4
"""The position in a request, its length prefix not counted: after api key and version. What follows it begins 4 bytes
later."""

_FIXED = struct.Struct(">hhi")
_CLIENT_ID_LENGTH = struct.Struct(">h")
_CORRELATION_ID = struct.Struct(">i")


class RequestHead(NamedTuple):
    """A request header; ``body_at`` is where the body begins in the buffer that was looked at."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_at: int


class ResponseHead(NamedTuple):
    """A response header; ``body_at`` is where the body begins in the buffer that was looked at."""

    correlation_id: int
    body_at: int


def request_header_version(api_key: int, api_version: int) -> int:
    """Return 2 if flexible, else 1; only ControlledShutdown v0 has 0, no client id (ApiMessageTypeGenerator)."""
    if api_key == API_CONTROLLED_SHUTDOWN and api_version == 0:
        return 0
    return FLEXIBLE_REQUEST_HEADER if is_flexible(api_key, api_version) else 1


def response_header_version(api_key: int, api_version: int) -> int:
    """Return 0 or 1; ApiVersions answers with 0 always, so that a client of any age can read it (KIP-511)."""
    return FLEXIBLE_RESPONSE_HEADER if api_key != API_VERSIONS and is_flexible(api_key, api_version) else 0


@functools.cache
def request_header(version: int) -> Struct:
    """Return the Struct of this version of the request header."""
    return layout(REQUEST_HEADER, version, flexible=version >= FLEXIBLE_REQUEST_HEADER)


@functools.cache
def response_header(version: int) -> Struct:
    """Return the Struct of this version of the response header."""
    return layout(RESPONSE_HEADER, version, flexible=version >= FLEXIBLE_RESPONSE_HEADER)


def peek_request(buffer: Bytes, start: int, end: int, *, most_tags: int = MAX_HEADER_TAGS) -> RequestHead | None:
    """Return the header of the request that begins at ``start``, just after its length prefix.

    None if ``buffer[start:end]`` does not hold all of it: with the whole frame in hand, that means the
    frame is malformed. Raises ProtocolError if it cannot be a header, whatever follows. As in a broker, a client id of
    any negative length is null, and one that is not UTF-8 has replacement characters.
    """
    if end - start < _FIXED.size:
        return None
    api_key, api_version, correlation_id = _FIXED.unpack_from(buffer, start)
    if api_key < 0 or api_version < 0:
        raise ProtocolError(f"request header: api_key {api_key}, api_version {api_version}")
    version = request_header_version(api_key, api_version)
    at = start + _FIXED.size
    if version == 0:
        return RequestHead(api_key, api_version, correlation_id, None, at)
    if end - at < _CLIENT_ID_LENGTH.size:
        return None
    (length,) = _CLIENT_ID_LENGTH.unpack_from(buffer, at)
    at += _CLIENT_ID_LENGTH.size
    after = at + max(length, 0)
    if after > end:
        return None
    client_id = None if length < 0 else str(buffer[at:after], "utf-8", "replace")
    body_at = _after_tagged_fields(buffer, after, end, most_tags) if version >= FLEXIBLE_REQUEST_HEADER else after
    return None if body_at is None else RequestHead(api_key, api_version, correlation_id, client_id, body_at)


def plain_head(buffer: Bytes, start: int, end: int) -> RequestHead | None:
    """Return what a header says at fixed places, whatever its tagged fields are: ``body_at`` is where those begin, and
    the client id is None if it goes beyond ``end``. None if there are fewer bytes than the fixed ones."""
    if end - start < _FIXED.size + _CLIENT_ID_LENGTH.size:
        return None
    api_key, api_version, correlation_id = _FIXED.unpack_from(buffer, start)
    at = start + _FIXED.size + _CLIENT_ID_LENGTH.size
    (length,) = _CLIENT_ID_LENGTH.unpack_from(buffer, start + _FIXED.size)
    after = at + max(length, 0)
    is_there = length >= 0 and after <= end
    client_id = str(buffer[at:after], "utf-8", "replace") if is_there else None
    return RequestHead(api_key, api_version, correlation_id, client_id, min(after, end))


def request_correlation_id(frame: Bytes) -> int:
    """Return the correlation id of the whole request with which ``frame`` begins."""
    return int(_CORRELATION_ID.unpack_from(frame, REQUEST_CORRELATION_ID_AT)[0])


def peek_correlation_id(buffer: Bytes, start: int, end: int) -> int | None:
    """Return the correlation id of the response that begins at ``start``, just after its length prefix.

    None if it is not all there.
    """
    if end - start < _CORRELATION_ID.size:
        return None
    return int(_CORRELATION_ID.unpack_from(buffer, start)[0])


def peek_response(buffer: Bytes, start: int, end: int, version: int) -> ResponseHead | None:
    """Return the header, of that version, of the response that begins at ``start``, just after its length prefix.

    None if ``buffer[start:end]`` does not hold all of it. Raises ProtocolError if it cannot be a header.
    """
    correlation_id = peek_correlation_id(buffer, start, end)
    if correlation_id is None:
        return None
    at = start + _CORRELATION_ID.size
    body_at = _after_tagged_fields(buffer, at, end) if version >= FLEXIBLE_RESPONSE_HEADER else at
    return None if body_at is None else ResponseHead(correlation_id, body_at)


def request_bytes(api_key: int, api_version: int, correlation_id: int, client_id: str, body: bytes) -> bytes:
    """Return a request of ours, its length prefix not included: the header, then the encoded body."""
    head = {
        "api_key": api_key,
        "api_version": api_version,
        "correlation_id": correlation_id,
        "client_id": client_id,
        TAGS: [],
    }
    return built(request_header(request_header_version(api_key, api_version)), head) + body


def response_body(frame: Bytes, api_key: int, api_version: int) -> bytes:
    """Return what follows the header of a whole response. Raises ProtocolError if it ends inside the header."""
    data = bytes(frame)
    head = peek_response(data, 0, len(data), response_header_version(api_key, api_version))
    if head is None:
        raise ProtocolError("the frame ends inside the response header")
    return data[head.body_at :]


def _after_tagged_fields(buffer: Bytes, at: int, end: int, most: int = MAX_HEADER_TAGS) -> int | None:
    found = read_uvarint(buffer, at, end)
    if found is None:
        return None
    count, at = found
    if count > most:
        raise ProtocolError(f"{count} tagged fields in a header, more than {most}")
    for _ in range(count):
        for skips in (False, True):
            found = read_uvarint(buffer, at, end)
            if found is None:
                return None
            value, at = found
            at += value if skips else 0
    return at if at <= end else None
