"""Records are emptied where the leader wrote their length as a longer varint than it needs: no byte more is taken."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from protocol.errors import ProtocolError
from protocol.fetch.response import records_length, records_length_bytes
from protocol.wire.framing import write_uvarint
from tests.proxy.conversation import MIB, throttle

from .test_gather import lower
from .test_sessions import answer, asks, frame_of, hears, meet, told
from .wire import batch, entry, relayed

if TYPE_CHECKING:
    from trio.testing import MockClock

HIGH = 1_000_000


def padded(value: int, size: int) -> bytes:
    """The varint in exactly `size` bytes."""
    encoded = write_uvarint(value)
    if len(encoded) < size:
        encoded = encoded[:-1] + bytes([encoded[-1] | 0x80]) + b"\x80" * (size - len(encoded) - 1) + b"\0"
    return encoded


@pytest.mark.parametrize("size", [3, 4, 5])
@pytest.mark.parametrize("version", [12, 13, 17])
async def test_an_entry_is_emptied_to_its_last_byte(version: int, size: int, clock: MockClock) -> None:
    records = batch(100_000)
    entries = [entry(0, records, high_watermark=HIGH + 5), entry(1, b"", high_watermark=HIGH)]
    frame = answer(version, entries, session_id=0)
    at = frame.index(records)
    needed = len(write_uvarint(len(records) + 1))
    frame = frame[: at - needed] + padded(len(records) + 1, size) + frame[at:]
    async with relayed(throttle(400 * MIB)) as wire:
        await meet(wire, version, range(2), session_id=0)
        await asks(wire, frame_of(version, {0: 0, 1: 0}))
        lower(wire, 65536)
        received = await hears(wire, frame)
        assert told(version, received) == [(0, 0, HIGH + 5, 0), (1, 0, HIGH, 0)]
        assert received == answer(
            version, [entry(0, b"", high_watermark=HIGH + 5), entry(1, b"", high_watermark=HIGH)], session_id=0
        )


@pytest.mark.parametrize("before", [b"", b"\0", b"\xff\xff\xff\xff", b"\x80" * 6, b"\x81\x80"])
@pytest.mark.parametrize("length", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("records", [1, 126, 127, 16383, 70_000])
def test_only_the_length_itself_is_found(before: bytes, length: int, records: int) -> None:
    encoded = padded(records + 1, length)
    assert records_length_bytes(12, before + encoded, records) == len(encoded)


def test_below_flexible_versions_it_has_four_bytes() -> None:
    assert records_length_bytes(11, b"x" + records_length(11, 9), 9) == 4


def test_no_length_is_an_error() -> None:
    with pytest.raises(ProtocolError, match="no length of 9 bytes"):
        records_length_bytes(12, b"\xff\xff", 9)
