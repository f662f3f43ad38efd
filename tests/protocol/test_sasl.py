"""What a SASL exchange shows: the user that a token names, and whether the broker accepts it."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.sasl import (
    MAX_USER_BYTES,
    accepting_answer,
    has_mechanism,
    is_accepted,
    is_first,
    named_user,
    names_user,
    read_mechanism,
    read_token,
)
from tests.proxy.clients.sasl_frames import (
    CLIENT_FINAL,
    SERVER_FINAL,
    SERVER_FIRST,
    SERVER_REFUSES,
    authenticate,
    authenticate_response,
    client_first,
    handshake,
    handshake_response,
    plain,
)

SCRAM = "SCRAM-SHA-512"
BODY_AT = 13
"""Behind the header with the client id "app"."""


@pytest.mark.parametrize(
    ("mechanism", "token", "user"),
    [
        ("PLAIN", plain("alice"), "alice"),
        ("PLAIN", plain("alice", authorized="bob"), "bob"),
        ("PLAIN", plain("jörg"), "jörg"),
        ("PLAIN", b"\0alice", None),
        ("PLAIN", b"\0alice\0secret\0more", None),
        ("PLAIN", b"\0\0secret", None),
        ("PLAIN", b"\0\xff\xfe\0secret", None),
        ("PLAIN", plain("a" * MAX_USER_BYTES), "a" * MAX_USER_BYTES),
        ("PLAIN", plain("a" * (MAX_USER_BYTES + 1)), None),
        (SCRAM, client_first("alice"), "alice"),
        ("SCRAM-SHA-256", client_first("alice"), "alice"),
        (SCRAM, client_first("a=2Cb=3Dc"), "a,b=c"),
        (SCRAM, client_first("a=3D2C"), "a=2C"),
        (SCRAM, b"n,a=bob,n=alice,r=nonce", "bob"),
        (SCRAM, b"y,,n=alice,r=nonce", "alice"),
        (SCRAM, b"n,,m=more,n=alice,r=nonce", "alice"),
        (SCRAM, client_first("token-id", more=",tokenauth=true"), None),  # whose it is knows only the broker
        (SCRAM, client_first("alice", more=",other=1"), "alice"),
        (SCRAM, b"n,,n=,r=nonce", None),
        (SCRAM, CLIENT_FINAL, None),
        (SCRAM, plain("alice"), None),
        ("OAUTHBEARER", b"n,,\x01auth=Bearer abc\x01\x01", None),
        ("GSSAPI", b"\x60\x82", None),
        ("", plain("alice"), None),
    ],
)
def test_the_user_that_a_token_names(mechanism: str, token: bytes, user: str | None) -> None:
    assert named_user(mechanism, token) == user


@pytest.mark.parametrize(
    ("mechanism", "answer", "accepted"),
    [
        ("PLAIN", b"", True),
        (SCRAM, SERVER_FIRST, False),
        (SCRAM, SERVER_REFUSES, False),
        (SCRAM, SERVER_FINAL, True),
        ("OAUTHBEARER", b"", True),
    ],
)
def test_the_answer_that_ends_an_exchange(mechanism: str, answer: bytes, accepted: bool) -> None:
    assert is_accepted(mechanism, answer) is accepted


def test_first_tokens_name_a_user() -> None:
    assert is_first("PLAIN", plain("alice"))
    assert is_first(SCRAM, client_first("alice"))
    assert not is_first(SCRAM, CLIENT_FINAL)
    assert [names_user(each) for each in ("PLAIN", SCRAM, "GSSAPI", "OAUTHBEARER", "")] == [True, True] + 3 * [False]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_requests_and_responses(version: int) -> None:
    frame = authenticate(plain("alice"), version=version)
    body_at = BODY_AT + (version >= 2)
    assert read_token(version, frame, body_at, len(frame)) == plain("alice")
    answer = authenticate_response(SERVER_FINAL, version=version)
    assert accepting_answer(version, answer, 0, len(answer)) == (SERVER_FINAL, math.inf)
    refused = authenticate_response(version=version, error_code=58)
    assert accepting_answer(version, refused, 0, len(refused)) is None


def test_the_mechanism() -> None:
    frame = handshake("PLAIN")
    assert read_mechanism(frame, BODY_AT, len(frame)) == "PLAIN"


@given(data=st.binary(max_size=40), version=st.integers(0, 3), at=st.integers(0, 10))
def test_whatever_comes_nothing_is_raised(data: bytes, version: int, at: int) -> None:
    read_mechanism(data, at, len(data))
    read_token(version, data, at, len(data))
    accepting_answer(version, data, at, len(data))
    for mechanism in ("PLAIN", SCRAM):
        user = named_user(mechanism, data)
        assert user is None or 0 < len(user.encode()) <= MAX_USER_BYTES


@given(frame=st.sampled_from([authenticate(plain("alice"), version=version) for version in range(3)]), data=st.data())
def test_a_part_of_a_frame_has_no_token(frame: bytes, data: st.DataObject) -> None:
    version = frame[3]
    end = data.draw(st.integers(BODY_AT, len(frame) - 2))
    assert read_token(version, frame, BODY_AT + (version >= 2), end) == b""


@pytest.mark.parametrize(
    ("answer", "takes_it"), [(handshake_response(), True), (handshake_response(34), False), (b"", False)]
)
def test_a_handshake_may_be_refused(answer: bytes, *, takes_it: bool) -> None:
    """A listener without SASL answers ILLEGAL_SASL_STATE."""
    assert has_mechanism(1, answer, 0, len(answer)) is takes_it


def test_what_ends_an_exchange_of_oauthbearer() -> None:
    assert is_accepted("OAUTHBEARER", b"")
    assert not is_accepted("OAUTHBEARER", b'{"status":"invalid_token"}')
