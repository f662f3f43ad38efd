"""Field by field: the same value however the bytes come, and nothing is read that is not there."""

from __future__ import annotations

from typing import Any

import pytest
from construct import Construct, Int16sb, Struct

from protocol.errors import ProtocolError
from protocol.walkers.stepwise import (
    Fallback,
    count_fallback,
    entry_fallback,
    head_fallback,
    skip_fallback,
    value_fallback,
)
from protocol.wire.primitives import UUID, UVARINT, KArray, KRecords, KString, TaggedFields

PAIR = Struct("a" / Int16sb, "tags" / TaggedFields())
POISON = b"\xee"

VALUES = [
    pytest.param("n" / Int16sb, "0102", 258, id="number"),
    pytest.param("s" / KString(), "000378c3a9", "xé", id="text"),
    pytest.param("s" / KString(UVARINT, nullable=True), "00", None, id="null text"),
    pytest.param("i" / UUID, "07" * 16, b"\7" * 16, id="uuid"),
    pytest.param("a" / KArray(Int16sb, UVARINT), "0300010002", [1, 2], id="numbers"),
    pytest.param("a" / KArray(PAIR, UVARINT), "0300010000020105017f", [(1, b"\0"), (2, b"\1\5\1\x7f")], id="structs"),
    pytest.param("a" / KArray(PAIR, UVARINT, nullable=True), "00", None, id="null structs"),
    pytest.param("t" / TaggedFields(), "020001aa810200", b"\2\0\1\xaa\x81\2\0", id="tags"),
]


def fed(fallback: Fallback, data: bytes, *, step: int, place: int = 3) -> tuple[list[Any], int]:
    """(values, bytes done with) when the bytes come in such steps, each time to another place, poison around them."""
    buffer = bytearray(POISON * place)
    done = received = 0
    steps = fallback(buffer, place, place, place + len(data))
    try:
        at = next(steps)
        while True:
            done += at - place
            place = (place * 7 + 1) % 50
            received = min(received + step, len(data))
            buffer[:] = POISON * place + data[done:received] + POISON * 9
            at = steps.send((place, max(place, place + received - done)))
    except StopIteration as stop:
        pos, _, end, *values = stop.value
        return values, len(data) - (end - pos)


@pytest.mark.parametrize("step", [1, 2, 3, 1000])
@pytest.mark.parametrize(("codec", "data", "value"), VALUES)
def test_values_come_in_any_pieces(codec: Construct, data: str, value: Any, step: int) -> None:
    encoded = bytes.fromhex(data)
    assert fed(value_fallback(codec, "v"), encoded, step=step) == ([value], len(encoded))
    assert fed(skip_fallback(codec, "v"), encoded, step=step) == ([], len(encoded))


@pytest.mark.parametrize(("codec", "data", "value"), VALUES)
def test_values_that_are_cut_off_are_errors(codec: Construct, data: str, value: Any) -> None:
    encoded = bytes.fromhex(data)
    for size in range(len(encoded)):
        for fallback in (value_fallback(codec, "v"), skip_fallback(codec, "v")):
            with pytest.raises(ProtocolError):
                fed(fallback, encoded[:size], step=1)


@pytest.mark.parametrize(
    ("codec", "data"),
    [
        ("s" / KString(UVARINT), b"\x81\x80\x02" + bytes(2**15)),
        ("s" / KString(), b"\0\1\xff"),
        ("s" / KString(), b"\xff\xff"),
        ("a" / KArray(Int16sb), b"\x7f\xff\xff\xff\0\0"),
        ("t" / TaggedFields(), b"\xff\xff\xff\xff\x0f\0\0"),
        ("t" / TaggedFields(), b"\1\1\xff\xff\xff\xff\x0f\0"),
        ("t" / TaggedFields(), b"\xff\xff\xff\xff\xff\xff"),
    ],
)
def test_what_cannot_be_is_refused(codec: Construct, data: bytes) -> None:
    with pytest.raises(ProtocolError):
        fed(value_fallback(codec, "v"), data, step=1)


@pytest.mark.parametrize("step", [1, 4, 1000])
def test_records_are_not_waited_for(step: int) -> None:
    fields = ["n" / Int16sb, "gone" / KArray(PAIR, UVARINT), "data" / KRecords(UVARINT)]
    start = bytes.fromhex("0007020001010201ffac02")
    read = fed(entry_fallback(fields, ["n", "data"], "e"), start + bytes(299), step=step)
    (began, number, size), done = read
    assert (number, size, done) == (7, 299, len(start))
    assert began <= 50, "a position in the buffer as it was then"


@pytest.mark.parametrize("step", [1, 1000])
def test_heads_and_counts(step: int) -> None:
    array = "items" / KArray(Int16sb, UVARINT)
    head = head_fallback("name" / KString(UVARINT), array, "h")
    assert fed(head, bytes.fromhex("02780300010002"), step=step) == (["x", 2], 3)
    assert fed(count_fallback(array.subcon, "c"), bytes.fromhex("0300010002"), step=step) == ([2], 1)
