"""Frames of SASL exchanges (KIP-152, KIP-368), written out by hand; length prefixes are not included."""

from __future__ import annotations

from protocol.wire.framing import write_uvarint

HANDSHAKE, AUTHENTICATE = 17, 36
CORRELATION_ID = 9


def _head(api_key: int, version: int) -> bytes:
    return api_key.to_bytes(2) + version.to_bytes(2) + CORRELATION_ID.to_bytes(4) + (3).to_bytes(2) + b"app"


def handshake(mechanism: str, *, version: int = 1) -> bytes:
    return _head(HANDSHAKE, version) + len(mechanism).to_bytes(2) + mechanism.encode()


def handshake_response(error_code: int = 0) -> bytes:
    return CORRELATION_ID.to_bytes(4) + error_code.to_bytes(2) + (1).to_bytes(4) + (5).to_bytes(2) + b"PLAIN"


def authenticate(token: bytes, *, version: int = 2) -> bytes:
    if version < 2:
        return _head(AUTHENTICATE, version) + len(token).to_bytes(4) + token
    return _head(AUTHENTICATE, version) + b"\0" + write_uvarint(len(token) + 1) + token + b"\0"


def authenticate_response(
    token: bytes = b"", *, version: int = 2, error_code: int = 0, session_lifetime_ms: int = 0
) -> bytes:
    lifetime = session_lifetime_ms.to_bytes(8) if version > 0 else b""
    message = b"denied" if error_code else None
    if version < 2:
        told = b"\xff\xff" if message is None else len(message).to_bytes(2) + message
        return CORRELATION_ID.to_bytes(4) + error_code.to_bytes(2) + told + len(token).to_bytes(4) + token + lifetime
    told = b"\0" if message is None else write_uvarint(len(message) + 1) + message
    answer = write_uvarint(len(token) + 1) + token
    return CORRELATION_ID.to_bytes(4) + b"\0" + error_code.to_bytes(2) + told + answer + lifetime + b"\0"


def plain(user: str, authorized: str = "") -> bytes:
    return f"{authorized}\0{user}\0secret".encode()


def client_first(user: str, *, more: str = "") -> bytes:
    return f"n,,n={user},r=fyko+d2lbbFgONRv9qkxdawL{more}".encode()


CLIENT_FINAL = b"c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts="
SERVER_FIRST = b"r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096"
SERVER_FINAL = b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ="
SERVER_REFUSES = b"e=invalid-proof"
