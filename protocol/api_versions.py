"""ApiVersions (api key 18, KIP-35): which versions of a request a broker knows.

A broker that is sent a version it does not know closes the connection, and logs an error with a stack trace. Every
broker since Kafka 0.10 answers this one, in version 0. Invariant: names and order are those of ApiVersionsRequest.json
and ApiVersionsResponse.json (Kafka 3.9 and 4.1).
"""

from __future__ import annotations

from construct import Int16sb, Int32sb, Struct

from .errors import ProtocolError
from .wire.apis import API_VERSIONS, api_name
from .wire.contexts import built
from .wire.headers import request_header, request_header_version
from .wire.layout import parse_whole
from .wire.primitives import KArray

VERSION = 0
_API = Struct("api_key" / Int16sb, "min_version" / Int16sb, "max_version" / Int16sb)
RESPONSE = Struct("correlation_id" / Int32sb, "error_code" / Int16sb, "api_keys" / KArray(_API))


def api_versions_request(correlation_id: int, *, client_id: str) -> bytes:
    """Return the frame, its length prefix not included. It has no body."""
    head = {
        "api_key": API_VERSIONS,
        "api_version": VERSION,
        "correlation_id": correlation_id,
        "client_id": client_id,
    }
    return built(request_header(request_header_version(API_VERSIONS, VERSION)), head)


def newest_version(frame: bytes, api_key: int, ours: range) -> int:
    """Return the newest version of a request that the broker which answered ``frame`` knows, of those that are ours.

    Raises ProtocolError if there is none, and for whatever is no such response, to the last byte.
    """
    answer = parse_whole(RESPONSE, frame)
    if answer.error_code:
        raise ProtocolError(f"ApiVersions: error {answer.error_code}")
    found = [(api.min_version, api.max_version) for api in answer.api_keys if api.api_key == api_key]
    first, last = found[0] if found else (0, -1)
    common = range(max(first, ours.start), min(last + 1, ours.stop))
    if not common:
        has = f"v{first} to v{last}" if found else "none"
        raise ProtocolError(
            f"expected a broker that knows {api_name(api_key)} v{ours.start} to v{ours.stop - 1}, and it knows {has}"
        )
    return common[-1]
