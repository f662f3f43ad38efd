"""Unsigned varints: Kafka's own vectors, and the five-byte bound."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import ProtocolError
from protocol.wire.varint import MAX_UVARINT, read_uvarint, write_uvarint

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
