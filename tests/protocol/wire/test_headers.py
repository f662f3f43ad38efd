"""Headers: the peek against Kafka's frames, against the tables, and against bytes that are no header."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import ProtocolError
from protocol.wire.apis import API_CONTROLLED_SHUTDOWN, API_VERSIONS
from protocol.wire.headers import (
    RequestHead,
    peek_correlation_id,
    peek_request,
    peek_response,
    plain_head,
    request_header,
    request_header_version,
    response_header,
    response_header_version,
)
from protocol.wire.layout import TAGS, parse_whole

from ..frames import HEADS, POISON, REQUESTS, RESPONSES, Golden, golden_lines

every_request = pytest.mark.parametrize("case", [*HEADS, *REQUESTS], ids=lambda case: case.name)


def test_header_versions_are_kafkas() -> None:
    for key, name, version, request, response in golden_lines("header_versions.jsonl"):
        assert request_header_version(key, version) == request, f"{name} v{version}"
        assert response_header_version(key, version) == response, f"{name} v{version}"


def test_the_two_exceptions() -> None:
    assert request_header_version(API_CONTROLLED_SHUTDOWN, 0) == 0
    assert response_header_version(API_VERSIONS, 3) == 0


@every_request
def test_kafkas_headers(case: Golden) -> None:
    head = peek_request(case.frame, 0, len(case.frame))
    body_at = case.said.get("bodyAt", case.body_at)
    assert head == (
        case.said["apiKey"],
        case.said["apiVersion"],
        case.said["correlationId"],
        case.said["clientId"],
        body_at,
    )
    struct_of = request_header(request_header_version(head.api_key, head.api_version))
    parsed = parse_whole(struct_of, case.frame[:body_at])
    assert (parsed.api_key, parsed.correlation_id) == (head.api_key, head.correlation_id)
    assert parsed.get("client_id") == head.client_id


@every_request
def test_none_until_all_of_it_is_there(case: Golden) -> None:
    before = bytes([POISON]) * 5
    body_at = case.said.get("bodyAt", case.body_at)
    for size in range(body_at):
        torn = before + case.frame[:size] + bytes([POISON]) * 40
        assert peek_request(torn, 5, 5 + size) is None
    head = peek_request(before + case.frame, 5, 5 + body_at)
    assert head is not None
    assert head.body_at == 5 + body_at


@pytest.mark.parametrize(
    "header",
    [
        pytest.param(struct.pack(">hhih", -1, 0, 1, -1), id="negative api key"),
        pytest.param(struct.pack(">hhih", 1, -1, 1, -1), id="negative version"),
        pytest.param(struct.pack(">hhih", 1, 12, 1, -1) + b"\xff" * 6, id="tag count too long"),
        pytest.param(struct.pack(">hhih", 1, 12, 1, -1) + b"\x41", id="too many tags"),
    ],
)
def test_what_cannot_be_a_header(header: bytes) -> None:
    with pytest.raises(ProtocolError):
        peek_request(header, 0, len(header))


@pytest.mark.parametrize(
    ("length", "raw", "client_id"),
    [(-2, b"", None), (5, b"bad\xff\xfe", "bad\ufffd\ufffd"), (4, b"\xf0\x9f\x92x", "\ufffdx")],
)
def test_client_ids_are_decoded_as_a_broker_does(length: int, raw: bytes, client_id: str | None) -> None:
    """`RequestHeaderData` reads any negative length as null, and Java's UTF-8 never fails."""
    header = struct.pack(">hhih", 0, 8, 1, length) + raw
    assert peek_request(header, 0, len(header)) == RequestHead(0, 8, 1, client_id, len(header))
    assert plain_head(header, 0, len(header)) == RequestHead(0, 8, 1, client_id, len(header))


def test_what_stands_at_fixed_places_is_read_whatever_the_tagged_fields_are() -> None:
    header = struct.pack(">hhih", 0, 9, 7, 3) + b"app" + b"\x41"
    assert plain_head(header, 0, len(header)) == RequestHead(0, 9, 7, "app", 13)
    assert plain_head(header, 0, 11) == RequestHead(0, 9, 7, None, 11)
    assert plain_head(header, 0, 9) is None


@pytest.mark.parametrize(
    "tags",
    [
        pytest.param(b"\x02\0\xff\xff\xff\xff\x0f", id="beyond the frame"),
        pytest.param(b"\2\0\0", id="one of two"),
        pytest.param(b"\1\0\2x", id="torn value"),
    ],
)
def test_tags_that_do_not_end_are_none(tags: bytes) -> None:
    header = struct.pack(">hhih", 1, 12, 1, -1) + tags
    assert peek_request(header, 0, len(header)) is None


def test_tags_are_stepped_over() -> None:
    values = {"api_key": 1, "api_version": 12, "correlation_id": 9, "client_id": "c"}
    header = request_header(2).build(values | {TAGS: [(0, b"xyz"), (200, b"")]})
    assert peek_request(header + b"body", 0, len(header) + 4) == RequestHead(1, 12, 9, "c", len(header))


def test_keys_nobody_knows_are_flexible() -> None:
    header = request_header(2).build(
        {"api_key": 999, "api_version": 0, "correlation_id": 9, "client_id": None, TAGS: []}
    )
    head = peek_request(header, 0, len(header))
    assert head is not None
    assert head.body_at == len(header)


@given(st.binary(max_size=40))
def test_anything_is_a_head_or_none_or_an_error(data: bytes) -> None:
    try:
        head = peek_request(data, 0, len(data))
    except ProtocolError:
        return
    assert head is None or head.body_at <= len(data)


@pytest.mark.parametrize("case", RESPONSES[:3], ids=lambda case: case.name)
def test_correlation_ids(case: Golden) -> None:
    assert peek_correlation_id(case.frame, 0, len(case.frame)) == case.said["correlationId"]
    assert parse_whole(response_header(0), case.frame[:4]).correlation_id == case.said["correlationId"]
    assert peek_correlation_id(case.frame, 0, 3) is None


@pytest.mark.parametrize(("version", "header"), [(0, "00000007"), (1, "0000000700"), (1, "00000007010502abcd")])
def test_response_headers(version: int, header: str) -> None:
    data = bytes.fromhex(header)
    buffer = b"??" + data + b"body"
    for missing in range(1, len(data) + 1):
        assert peek_response(buffer, 2, 2 + len(data) - missing, version) is None
    assert peek_response(buffer, 2, len(buffer), version) == (7, 2 + len(data))


def test_a_response_header_whose_tags_cannot_be() -> None:
    with pytest.raises(ProtocolError):
        peek_response(bytes(4) + b"\xff" * 6, 0, 10, 1)
