"""Reads the user from a SASL exchange between client and broker, and whether the broker accepts it.

    SaslHandshake      the mechanism, in clear
    SaslAuthenticate   what the mechanism says: PLAIN (RFC 4616) and SCRAM (RFC 5802) name the user, others do not here
    raw tokens         the same without headers, after SaslHandshake v0

Must not know connections. Invariants: no password, proof or token leaves a function here, nor is one in an
error; whatever cannot be read is no user.
"""

from __future__ import annotations

import io
import math
import re
from typing import TYPE_CHECKING, NamedTuple

from construct import ConstructError, Int16sb, Int64sb

from .errors import ProtocolError
from .wire.apis import API_SASL_AUTHENTICATE, API_SASL_HANDSHAKE, is_flexible
from .wire.headers import peek_response, response_header_version
from .wire.layout import NULLABLE_BYTES, NULLABLE_STRING, STRING, Field, layout
from .wire.primitives import parsed

if TYPE_CHECKING:
    from construct import Container

    from .wire.framing import Bytes

HANDSHAKE = (Field(0, "mechanism", STRING),)
HANDSHAKE_RESPONSE = (Field(0, "error_code", Int16sb),)  # what follows are the broker's mechanisms
AUTHENTICATE = (Field(0, "auth_bytes", NULLABLE_BYTES),)  # null is none of the spec's, and is read as empty
AUTHENTICATE_RESPONSE = (
    Field(0, "error_code", Int16sb),
    Field(0, "error_message", NULLABLE_STRING),
    Field(0, "auth_bytes", NULLABLE_BYTES),
    Field(1, "session_lifetime_ms", Int64sb),
)
PLAIN = "PLAIN"
OAUTHBEARER = "OAUTHBEARER"
SCRAM = frozenset({"SCRAM-SHA-256", "SCRAM-SHA-512"})
MAX_USER_BYTES = 1024
"""The longest name of a user that is taken for one: a distinguished name has some hundred bytes."""
_PARTS_OF_PLAIN = 3
_SERVER_ACCEPTS = b"v="
"""The beginning of a SCRAM server's last message, unless it refuses."""
_CLIENT_FINAL = b"c="
_CLIENT_FIRST = re.compile(rb"(?:n|y|p=[^,]*),(?:a=([^,]*))?,(?:m=[^,]*,)?n=([^,]+),r=[^,]*(?:,(.*))?", re.DOTALL)
_DELEGATION_TOKEN = b"tokenauth=true"
"""KIP-48: the name is a token's id, and only the broker knows whose token it is."""


def names_user(mechanism: str) -> bool:
    """Return True if a client names its user in this mechanism, in a way that is read here."""
    return mechanism == PLAIN or mechanism in SCRAM


def read_mechanism(buffer: Bytes, body_at: int, end: int) -> str:
    """Return the mechanism that a whole SaslHandshake names; empty if it cannot be read."""
    body = _body(HANDSHAKE, API_SASL_HANDSHAKE, 0, buffer, body_at, end)
    return "" if body is None else str(body.mechanism)


def has_mechanism(version: int, buffer: Bytes, start: int, end: int) -> bool:
    """Return True if the whole SaslHandshake response ``buffer[start:end]`` takes the mechanism. Where no client
    authenticates by SASL, a broker answers with ILLEGAL_SASL_STATE."""
    try:
        head = peek_response(buffer, start, end, response_header_version(API_SASL_HANDSHAKE, version))
    except ProtocolError:
        return False
    body = None if head is None else _body(HANDSHAKE_RESPONSE, API_SASL_HANDSHAKE, version, buffer, head.body_at, end)
    return body is not None and body.error_code == 0


def read_token(version: int, buffer: Bytes, body_at: int, end: int) -> bytes:
    """Return the token in a whole SaslAuthenticate request; empty if it cannot be read."""
    body = _body(AUTHENTICATE, API_SASL_AUTHENTICATE, version, buffer, body_at, end)
    return b"" if body is None else body.auth_bytes or b""


class AcceptingAnswer(NamedTuple):
    """A broker's answer to a token that it does not refuse."""

    token: bytes
    session_seconds: float = math.inf
    """How long the session lasts unless the client authenticates again (KIP-368); inf: the broker sets no end."""


def accepting_answer(version: int, buffer: Bytes, start: int, end: int) -> AcceptingAnswer | None:
    """Return what the whole SaslAuthenticate response ``buffer[start:end]`` says; None if the broker refuses, or if it
    cannot be read."""
    try:
        head = peek_response(buffer, start, end, response_header_version(API_SASL_AUTHENTICATE, version))
    except ProtocolError:
        return None
    if head is None:
        return None
    body = _body(AUTHENTICATE_RESPONSE, API_SASL_AUTHENTICATE, version, buffer, head.body_at, end)
    if body is None or body.error_code:
        return None
    lifetime_ms = body.get("session_lifetime_ms", 0)
    return AcceptingAnswer(body.auth_bytes or b"", lifetime_ms / 1000 if lifetime_ms > 0 else math.inf)


def is_first(mechanism: str, token: bytes) -> bool:
    """Return True if a client's token begins an exchange, and so names the user."""
    return mechanism == PLAIN or not token.startswith(_CLIENT_FINAL)


def named_user(mechanism: str, token: bytes) -> str | None:
    """Return the user that the first token of an exchange names: whom the client wants to act as, or else who it is.
    None if that is not to be seen."""
    if mechanism == PLAIN:
        parts = token.split(b"\0")
        return _user(parts[0] or parts[1]) if len(parts) == _PARTS_OF_PLAIN else None
    found = _CLIENT_FIRST.fullmatch(token) if mechanism in SCRAM else None
    if found is None or _DELEGATION_TOKEN in (found[3] or b"").split(b","):
        return None
    return _user((found[1] or found[2]).replace(b"=2C", b",").replace(b"=3D", b"="))


def is_accepted(mechanism: str, answer: bytes) -> bool:
    """Return True if the broker's answer to a token, which is no refusal, ends the exchange. Of OAUTHBEARER one that
    says something is a refusal (RFC 7628); of GSSAPI any answer counts, as its end is not to be seen."""
    if mechanism == OAUTHBEARER:
        return not answer
    return mechanism not in SCRAM or answer.startswith(_SERVER_ACCEPTS)


def _user(name: bytes) -> str | None:
    return _text(name) or None if len(name) <= MAX_USER_BYTES else None


def _text(data: bytes) -> str:
    """Return UTF-8 as text; empty if it is none."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return ""


def _body(
    fields: tuple[Field, ...], api_key: int, version: int, buffer: Bytes, start: int, end: int
) -> Container | None:
    """Return a message's fields; None if they cannot be read. What follows them is ignored, as brokers do."""
    struct = layout(fields, version, flexible=is_flexible(api_key, version))
    try:
        return parsed(struct, io.BytesIO(bytes(buffer[start:end])))
    except (ConstructError, ProtocolError):
        return None
