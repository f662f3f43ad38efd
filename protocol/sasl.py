"""What a SASL exchange shows to a proxy between client and broker: the user, and whether the broker accepts it.

    SaslHandshake      the mechanism, in clear
    SaslAuthenticate   what the mechanism says: PLAIN (RFC 4616) and SCRAM (RFC 5802) name the user, others do not here
    raw tokens         the same without headers, after SaslHandshake v0

Reads only; must not know connections. Invariants: no password, proof or token leaves a function here, nor is one in an
error; whatever cannot be read is no user.
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING

from .errors import ProtocolError
from .wire.apis import API_SASL_AUTHENTICATE, is_flexible
from .wire.framing import read_uvarint
from .wire.headers import peek_response, response_header_version

if TYPE_CHECKING:
    from .wire.framing import Bytes

PLAIN = "PLAIN"
SCRAM = frozenset({"SCRAM-SHA-256", "SCRAM-SHA-512"})
MOST_USER_BYTES = 1024
"""The longest name of a user that is taken for one: a distinguished name has some hundred bytes."""
_PARTS_OF_PLAIN = 3
_INT16, _INT32 = struct.Struct(">h"), struct.Struct(">i")
_SERVER_ACCEPTS = b"v="
"""How the last message of a SCRAM server begins, unless it refuses."""
_CLIENT_FINAL = b"c="
_CLIENT_FIRST = re.compile(rb"(?:n|y|p=[^,]*),(?:a=([^,]*))?,(?:m=[^,]*,)?n=([^,]+),r=[^,]*(?:,(.*))?", re.DOTALL)
_DELEGATION_TOKEN = b"tokenauth=true"
"""KIP-48: the name is a token's id, and only the broker knows whose token it is."""


def names_user(mechanism: str) -> bool:
    """Return True if a client names its user in this mechanism, in a way that is read here."""
    return mechanism == PLAIN or mechanism in SCRAM


def read_mechanism(buffer: Bytes, body_at: int, end: int) -> str:
    """Return the mechanism that a whole SaslHandshake names; empty if it cannot be read."""
    found = _sized(buffer, body_at, end, _INT16)
    return "" if found is None else _text(bytes(buffer[slice(*found)]))


def read_token(version: int, buffer: Bytes, body_at: int, end: int) -> bytes:
    """Return the token in a whole SaslAuthenticate request; empty if it cannot be read."""
    is_compact = is_flexible(API_SASL_AUTHENTICATE, version)
    found = _compact(buffer, body_at, end) if is_compact else _sized(buffer, body_at, end, _INT32)
    return b"" if found is None else bytes(buffer[slice(*found)])


def accepting_answer(version: int, buffer: Bytes, start: int, end: int) -> bytes | None:
    """Return the token in the whole SaslAuthenticate response ``buffer[start:end]``; None if the broker refuses, or if
    it cannot be read."""
    try:
        head = peek_response(buffer, start, end, response_header_version(API_SASL_AUTHENTICATE, version))
    except ProtocolError:
        return None
    if head is None or end - head.body_at < _INT16.size or _INT16.unpack_from(buffer, head.body_at)[0]:
        return None
    at, is_compact = head.body_at + _INT16.size, is_flexible(API_SASL_AUTHENTICATE, version)
    message = _compact(buffer, at, end) if is_compact else _sized(buffer, at, end, _INT16)
    if message is None:
        return None
    token = _compact(buffer, message[1], end) if is_compact else _sized(buffer, message[1], end, _INT32)
    return None if token is None else bytes(buffer[slice(*token)])


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
    """Return True if the broker's answer to a token, which is no refusal, ends the exchange."""
    return mechanism not in SCRAM or answer.startswith(_SERVER_ACCEPTS)


def _user(name: bytes) -> str | None:
    return _text(name) or None if len(name) <= MOST_USER_BYTES else None


def _text(data: bytes) -> str:
    """Return UTF-8 as text; empty if it is none."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return ""


def _sized(buffer: Bytes, at: int, end: int, length: struct.Struct) -> tuple[int, int] | None:
    """Return where the bytes behind a length begin and end, null as empty; None if that is not before ``end``."""
    start = at + length.size
    if start > end:
        return None
    after = start + max(length.unpack_from(buffer, at)[0], 0)
    return (start, after) if after <= end else None


def _compact(buffer: Bytes, at: int, end: int) -> tuple[int, int] | None:
    try:
        found = read_uvarint(buffer, at, end)
    except ProtocolError:
        return None
    if found is None:
        return None
    after = found[1] + max(found[0] - 1, 0)
    return (found[1], after) if after <= end else None
