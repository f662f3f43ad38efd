"""Length prefixes: refused before anything is allocated for them."""

from __future__ import annotations

import struct

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from protocol.errors import ProtocolError
from protocol.wire.apis import API_FETCH, is_flexible
from protocol.wire.framing import (
    MAX_UVARINT,
    REQUEST_START,
    frame_size,
    read_uvarint,
    whole_request,
    whole_response,
    with_length,
    write_uvarint,
)
from protocol.wire.headers import peek_request, peek_response

from ..frames import FETCHES, GOLDEN, Golden
from ..test_kafka_json import edited, edits


@pytest.mark.parametrize(
    ("prefix", "size"),
    [(b"\0\0\0\0", 0), (b"\0\0\0\x64", 100), (b"\0\0\0\x63", 99)],
)
def test_sizes_up_to_the_maximum(prefix: bytes, size: int) -> None:
    assert frame_size(b"??" + prefix, 2, maximum=100) == size


@pytest.mark.parametrize("prefix", [b"\xff\xff\xff\xff", b"\x80\0\0\0", b"\0\0\0\x65", b"\x7f\xff\xff\xff"])
def test_sizes_beyond_are_refused(prefix: bytes) -> None:
    with pytest.raises(ProtocolError, match="not between 0 and 100"):
        frame_size(prefix, 0, maximum=100)


@pytest.mark.parametrize("at", [1, 4])
def test_a_prefix_has_four_bytes(at: int) -> None:
    with pytest.raises(ProtocolError, match="four bytes"):
        frame_size(b"\0\0\0\0", at, maximum=100)


def test_a_frame_goes_out_with_its_length() -> None:
    message = with_length(b"frame")
    assert message == b"\0\0\0\5frame"
    assert frame_size(message, 0, maximum=5) == 5


FRAMES = sorted(with_length(path.read_bytes()) for path in GOLDEN.glob("frames/*.bin"))
BACKWARDS = struct.pack(">ihhih", -4, 3, 0, 7, -32768)
"""Fourteen bytes that said of themselves that they end where they begin."""
SIZES = st.sampled_from([-(2**31), -4, -1, 0, 3, 4, 9, 10, 13, 2**31 - 1]) | st.integers(-40, 400)
STARTS = st.builds(
    struct.Struct(">ihhih").pack,
    SIZES,
    st.integers(-2, 80),
    st.integers(-2, 40),
    st.integers(-(2**31), 2**31 - 1),
    st.sampled_from([-32768, -2, -1, 0, 1, 32767]) | st.integers(-40, 400),
)
HOSTILE = st.lists(STARTS | st.sampled_from(FRAMES) | st.binary(max_size=40), max_size=6).map(b"".join)


@settings(max_examples=2000)
@given(HOSTILE, st.integers(0, 30), edits)
@example(BACKWARDS, 0, [])
@example(FRAMES[0] + BACKWARDS, 0, [])
def test_a_walk_along_frames_goes_forward(data: bytes, at: int, changes: list[tuple[str, int, int]]) -> None:
    data = edited(data, changes)
    for end in (len(data), max(len(data) - 3, 0)):
        place = at
        while (request := whole_request(data, place, end)) is not None:
            after, _, _, _, client_id_end = request
            assert place + REQUEST_START.size <= client_id_end <= after <= end
            place = after
        place = at
        while (response := whole_response(data, place, end)) is not None:
            assert place + 8 <= response[0] <= end
            place = response[0]


@pytest.mark.parametrize("case", FETCHES, ids=lambda case: f"{case.name}")
def test_what_is_whole_is_what_kafka_says(case: Golden) -> None:
    frame = with_length(case.frame)
    data, end = b"..." + frame + b"more", 3 + len(frame)
    if case.kind == "request":
        body_at = end - len(case.body) - is_flexible(API_FETCH, case.version)
        assert whole_request(data, 3, end) == (end, API_FETCH, case.version, case.said["correlationId"], body_at)
        assert whole_request(data, 3, end - 1) is None
    else:
        assert whole_response(data, 3, end) == (end, case.said["correlationId"])
        assert whole_response(data, 3, end - 1) is None


@settings(max_examples=1000)
@given(HOSTILE, st.sampled_from([0, 1]))
def test_a_header_is_found_within_its_bytes_or_not_at_all(data: bytes, version: int) -> None:
    for peek in (peek_request, lambda buffer, start, end: peek_response(buffer, start, end, version)):
        try:
            head = peek(data, 0, len(data))
        except ProtocolError:
            continue
        assert head is None or 0 < head.body_at <= len(data)


# ByteUtilsTest.testUnsignedVarintSerde
VECTORS = [
    (0, "00"),
    (1, "01"),
    (63, "3f"),
    (64, "40"),
    (8191, "ff3f"),
    (8192, "8040"),
    (1048575, "ffff3f"),
    (1048576, "808040"),
    (2147483647, "ffffffff07"),
    (4294967295, "ffffffff0f"),
]


@pytest.mark.parametrize(("value", "encoded"), VECTORS)
def test_vectors(value: int, encoded: str) -> None:
    data = bytes.fromhex(encoded)
    assert write_uvarint(value) == data
    assert read_uvarint(b"\xff" + data + b"\xff", 1, 1 + len(data)) == (value, 1 + len(data))


@given(st.integers(0, MAX_UVARINT))
def test_there_and_back(value: int) -> None:
    encoded = write_uvarint(value)
    assert read_uvarint(encoded, 0, len(encoded)) == (value, len(encoded))
    for size in range(len(encoded)):
        assert read_uvarint(encoded, 0, size) is None


@pytest.mark.parametrize("encoded", ["ffffffff10", "ffffffff7f", "8080808080", "ffffffffffff"])
def test_more_than_32_bits_is_an_error(encoded: str) -> None:
    data = bytes.fromhex(encoded)
    with pytest.raises(ProtocolError):
        read_uvarint(data, 0, len(data))


def test_past_the_end_there_is_nothing() -> None:
    assert read_uvarint(b"", 3, 0) is None
