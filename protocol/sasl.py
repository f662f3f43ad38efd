"""SaslHandshake (api key 17) and SaslAuthenticate (36, KIP-152): how the sidecar logs in to ask a broker something.

The requests that we send, and what their responses say. Must not know mechanisms: what they exchange is bytes here.
Invariant: names, order and versions are those of SaslHandshakeRequest.json, SaslAuthenticateRequest.json and their
responses (Kafka 3.9 and 4.1), of the one version of each that every broker since Kafka 1.0 knows.
"""

from __future__ import annotations

from typing import Any

from construct import Construct, GreedyBytes, Int16sb, Int32sb, Prefixed, Struct

from .errors import ProtocolError
from .wire.apis import API_SASL_AUTHENTICATE, API_SASL_HANDSHAKE
from .wire.contexts import built
from .wire.headers import request_header, request_header_version
from .wire.layout import NULLABLE_STRING, STRING, parse_whole
from .wire.primitives import KArray

HANDSHAKE_VERSION = 1
AUTHENTICATE_VERSION = 0
_BYTES = Prefixed(Int32sb, GreedyBytes)
_HANDSHAKE = Struct("mechanism" / STRING.plain)
_HANDSHAKE_RESPONSE = Struct(
    "correlation_id" / Int32sb, "error_code" / Int16sb, "mechanisms" / KArray(STRING.plain)
)  # fmt: skip
_AUTHENTICATE = Struct("auth_bytes" / _BYTES)
_AUTHENTICATE_RESPONSE = Struct(
    "correlation_id" / Int32sb,
    "error_code" / Int16sb,
    "error_message" / NULLABLE_STRING.plain,
    "auth_bytes" / _BYTES,
)


class SaslRefusedError(ProtocolError):
    """The broker does not have the mechanism, or does not accept who logs in."""


def handshake_request(correlation_id: int, mechanism: str, *, client_id: str) -> bytes:
    """Return the frame, its length prefix not included, that names the mechanism."""
    return _request(
        API_SASL_HANDSHAKE, HANDSHAKE_VERSION, correlation_id, client_id, built(_HANDSHAKE, {"mechanism": mechanism})
    )


def read_handshake(frame: bytes, mechanism: str) -> None:
    """Check the broker's answer to SaslHandshake. Raises SaslRefusedError if the broker does not have it, ProtocolError
    for whatever is no such response."""
    answer = parse_whole(_HANDSHAKE_RESPONSE, frame)
    if answer.error_code:
        raise SaslRefusedError(f"it has no {mechanism}, but {', '.join(answer.mechanisms) or 'no mechanism at all'}")


def authenticate_request(correlation_id: int, auth_bytes: bytes, *, client_id: str) -> bytes:
    """Return the frame, its length prefix not included, that carries what the mechanism says."""
    body = built(_AUTHENTICATE, {"auth_bytes": auth_bytes})
    return _request(API_SASL_AUTHENTICATE, AUTHENTICATE_VERSION, correlation_id, client_id, body)


def read_authenticate(frame: bytes) -> bytes:
    """Return what the broker's mechanism answers.

    Raises SaslRefusedError if it does not accept who logs in, ProtocolError for whatever is no such response.
    """
    answer = parse_whole(_AUTHENTICATE_RESPONSE, frame)
    if answer.error_code:
        raise SaslRefusedError(f"login refused: {answer.error_message or f'error {answer.error_code}'}")
    return bytes(answer.auth_bytes)


def _request(api_key: int, api_version: int, correlation_id: int, client_id: str, body: bytes) -> bytes:
    header: Construct[Any, Any] = request_header(request_header_version(api_key, api_version))
    head = {
        "api_key": api_key,
        "api_version": api_version,
        "correlation_id": correlation_id,
        "client_id": client_id,
    }
    return built(header, head) + body
