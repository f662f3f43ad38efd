from __future__ import annotations

import struct

import pytest

from protocol.errors import ProtocolError
from protocol.own_requests import (
    SaslRefusedError,
    authenticate_request,
    handshake_request,
    read_authenticate,
    read_handshake,
)


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


HEAD = struct.pack(">i", 7)
REFUSED = struct.pack(">h", 58) + text("Authentication failed") + struct.pack(">i", 0)


def test_a_handshake_names_the_mechanism() -> None:
    request = handshake_request(7, "SCRAM-SHA-512", client_id="me")
    assert request == struct.pack(">hhi", 17, 1, 7) + text("me") + text("SCRAM-SHA-512")


def test_what_a_mechanism_says_goes_as_bytes() -> None:
    request = authenticate_request(7, b"\0user\0secret", client_id="me")
    assert request == struct.pack(">hhi", 36, 0, 7) + text("me") + struct.pack(">i", 12) + b"\0user\0secret"


def test_a_broker_that_has_the_mechanism() -> None:
    read_handshake(HEAD + struct.pack(">hi", 0, 1) + text("PLAIN"), "PLAIN")


@pytest.mark.parametrize(
    ("has", "message"), [(["SCRAM-SHA-256", "GSSAPI"], "no PLAIN, but SCRAM-SHA-256, GSSAPI"), ([], "no mechanism")]
)
def test_a_broker_that_has_not(has: list[str], message: str) -> None:
    names = b"".join(map(text, has))
    with pytest.raises(SaslRefusedError, match=message):
        read_handshake(HEAD + struct.pack(">hi", 33, len(has)) + names, "PLAIN")


def test_an_answer_is_the_mechanisms() -> None:
    assert read_authenticate(HEAD + struct.pack(">hhi", 0, -1, 3) + b"v=x") == b"v=x"


def test_a_refusal_says_why() -> None:
    with pytest.raises(SaslRefusedError, match="login refused: Authentication failed"):
        read_authenticate(HEAD + REFUSED)
    with pytest.raises(SaslRefusedError, match="error 58"):
        read_authenticate(HEAD + struct.pack(">hhi", 58, -1, 0))


@pytest.mark.parametrize(
    "frame", [b"", HEAD, HEAD + b"\0", HEAD + struct.pack(">hhi", 0, -1, 9) + b"x", HEAD + REFUSED + b"more"]
)
def test_what_is_no_answer_is_an_error(frame: bytes) -> None:
    with pytest.raises(ProtocolError):
        read_authenticate(frame)
    with pytest.raises(ProtocolError):
        read_handshake(frame, "PLAIN")
