"""Each primitive: values there and back, and bytes that must be refused without being believed."""

from __future__ import annotations

import io
from typing import Any

import pytest
from construct import Byte, Construct, ConstructError, Int16sb, Int32sb, Struct

from protocol.errors import ProtocolError
from protocol.wire.layout import STRING, TAGS, ArrayOf, Field, StructOf, layout, parse_whole
from protocol.wire.primitives import (
    UUID,
    UVARINT,
    KArray,
    KRecords,
    KString,
    Skipped,
    TaggedFields,
    built,
    minimum_bytes,
    parsed,
    remaining_bytes,
)
from tests.uncollected import uncollected

KNOWN = TaggedFields({0: "number" / Int32sb, 2: "text" / KString(UVARINT)})
PAIR = Struct("a" / Int16sb, "b" / Int16sb)


@pytest.mark.parametrize(
    ("codec", "data", "value"),
    [
        pytest.param(KString(), "0000", "", id="empty string"),
        pytest.param(KString(), "0003c3a978", "éx", id="string"),
        pytest.param(KString(nullable=True), "ffff", None, id="null string"),
        pytest.param(KString(nullable=True), "000178", "x", id="nullable string"),
        pytest.param(KString(UVARINT), "0278", "x", id="compact string"),
        pytest.param(KString(UVARINT, nullable=True), "00", None, id="compact null string"),
        pytest.param(KString(UVARINT), "01", "", id="compact empty string"),
        pytest.param(KArray(Byte), "00000000", [], id="empty array"),
        pytest.param(KArray(Byte), "000000020105", [1, 5], id="array"),
        pytest.param(KArray(Byte, nullable=True), "ffffffff", None, id="null array"),
        pytest.param(KArray(Byte, UVARINT), "030105", [1, 5], id="compact array"),
        pytest.param(KArray(Byte, UVARINT, nullable=True), "00", None, id="compact null array"),
        pytest.param(KArray(KString()), "0000000200000001 78", ["", "x"], id="array of strings"),
        pytest.param(UVARINT, "ac02", 300, id="varint"),
        pytest.param(UUID, "000102030405060708090a0b0c0d0e0f", bytes(range(16)), id="uuid"),
        pytest.param(KArray(UUID, UVARINT), "02" + "07" * 16, [b"\7" * 16], id="array of uuids"),
        pytest.param(TaggedFields(), "00", [], id="no tags"),
        pytest.param(TaggedFields(), "020002aabb8101 00", [(0, b"\xaa\xbb"), (129, b"")], id="tags"),
    ],
)
def test_there_and_back(codec: Construct, data: str, value: Any) -> None:
    encoded = bytes.fromhex(data)
    assert parse_whole(codec, encoded) == value
    assert codec.build(value) == encoded


@pytest.mark.parametrize(
    ("codec", "data", "skipped", "value"),
    [
        pytest.param(KRecords(), "00000003010203", Skipped(4, 3), b"\1\2\3", id="records"),
        pytest.param(KRecords(), "00000000", Skipped(4, 0), b"", id="empty records"),
        pytest.param(KRecords(), "ffffffff", Skipped(4, -1), None, id="null records"),
        pytest.param(KRecords(UVARINT), "04010203", Skipped(1, 3), b"\1\2\3", id="compact records"),
        pytest.param(KRecords(UVARINT), "00", Skipped(1, -1), None, id="compact null records"),
    ],
)
def test_records_are_skipped(codec: Construct, data: str, skipped: Skipped, value: bytes | None) -> None:
    encoded = bytes.fromhex(data)
    assert parse_whole(codec, encoded) == skipped
    assert codec.build(value) == encoded


@pytest.mark.parametrize(
    ("codec", "data"),
    [
        pytest.param(KString(), "", id="no length"),
        pytest.param(KString(), "00", id="half a length"),
        pytest.param(KString(), "000278", id="string too short"),
        pytest.param(KString(), "ffff", id="null where it is not allowed"),
        pytest.param(KString(nullable=True), "fffe", id="below null"),
        pytest.param(KString(), "0001ff", id="not UTF-8"),
        pytest.param(KString(UVARINT), "00", id="compact null where it is not allowed"),
        pytest.param(KString(UVARINT), "ffffffff0f", id="compact length of 4 GiB"),
        pytest.param(KString(UVARINT), "80", id="torn varint"),
        pytest.param(KString(UVARINT), "808080808001", id="varint of six bytes"),
        pytest.param(KArray(Byte), "7fffffff", id="count of 2**31 - 1"),
        pytest.param(KArray(Byte), "ffffffff", id="null array where it is not allowed"),
        pytest.param(KArray(Byte, nullable=True), "fffffffe", id="count below null"),
        pytest.param(KArray(PAIR), "000000020001000100", id="count beyond the bytes left"),
        pytest.param(KArray(KString()), "00000002000200000001", id="item too short"),
        pytest.param(KRecords(), "7fffffff", id="records of 2 GiB"),
        pytest.param(KRecords(), "0000000201", id="records too short"),
        pytest.param(TaggedFields(), "", id="no tag count"),
        pytest.param(TaggedFields(), "ffffffff0f", id="4 billion tags"),
        pytest.param(TaggedFields(), "0100", id="half a tag"),
        pytest.param(TaggedFields(), "010005aa", id="tag too short"),
        pytest.param(Int32sb, "0000", id="Construct's own errors"),
        pytest.param(UUID, "00" * 15, id="uuid too short"),
        pytest.param(KString(UVARINT), "818002" + "61" * 2**15, id="string longer than any may be"),
        pytest.param(KNOWN, "010002aabb", id="known tag too short"),
        pytest.param(KNOWN, "010005aabbccddee", id="known tag too long"),
    ],
)
def test_refused(codec: Construct, data: str) -> None:
    with pytest.raises(ProtocolError):
        parse_whole(codec, bytes.fromhex(data))


@pytest.mark.parametrize(
    ("codec", "data"),
    [
        (KString(), "0002aa"),
        (KArray(Byte), "7fffffff0000"),
        (KArray(PAIR), "0000000200010001000100"),
        (KRecords(), "7fffffff0000"),
        (KRecords(UVARINT), "ffffffff0f0000"),
    ],
)
def test_lengths_are_refused_before_they_are_believed(codec: Construct, data: str) -> None:
    with pytest.raises(ProtocolError, match="more than the bytes that follow"):
        parse_whole(codec, bytes.fromhex(data))


@pytest.mark.parametrize(
    ("codec", "fewest"),
    [
        (Int32sb, 4),
        ("named" / Int16sb, 2),
        (Struct("a" / Int32sb, "s" / KString(), "r" / KRecords()), 10),
        (KArray(PAIR), 4),
        (Struct("a" / KArray(PAIR, UVARINT), "t" / TaggedFields()), 2),
    ],
)
def test_minimum_bytes(codec: Construct, fewest: int) -> None:
    assert minimum_bytes(codec) == fewest


def test_remaining_bytes_leaves_the_stream_where_it_was() -> None:
    stream = io.BytesIO(b"abcdef")
    stream.read(2)
    assert remaining_bytes(stream) == 4
    assert stream.read() == b"cdef"


def test_known_tags_by_name() -> None:
    fields = KNOWN.encoded({"text": "x", "number": 5, "other": None})
    assert fields == [(0, b"\0\0\0\5"), (2, b"\2x")]
    assert KNOWN.values([*fields, (1, b"?"), (2, b"\2y")]) == {"number": 5, "text": "y"}
    assert parse_whole(KNOWN, KNOWN.build(fields)) == fields
    assert KNOWN.encoded({}) == []


_ITEM = (Field(0, "name", STRING), Field(0, "number", Int16sb))
MESSAGE = layout(
    (Field(0, "items", ArrayOf(_ITEM)), Field(0, "kept", StructOf(_ITEM), tag=1)), version=0, flexible=True
)
VALUE = {"items": [{"name": "a", "number": 1, TAGS: []}, {"name": "b", "number": 2, TAGS: []}], TAGS: []}
TAGGED = bytes.fromhex("01 01 01 05 0261 0007 00")
"""No items; tag 1, of 5 bytes: ("a", 7) and no tags."""


def test_what_is_built_and_parsed_is_what_construct_builds_and_parses() -> None:
    data = built(MESSAGE, VALUE)
    assert data == MESSAGE.build(VALUE)
    assert parsed(MESSAGE, io.BytesIO(data)) == MESSAGE.parse(data) == VALUE


def test_parsing_leaves_nothing() -> None:
    data = built(MESSAGE, VALUE)
    with uncollected(leaves_nothing=True):
        parse_whole(MESSAGE, data)


def test_tagged_fields_leave_nothing() -> None:
    tags = MESSAGE.subcons[-1].subcon
    with uncollected(leaves_nothing=True):
        whole = parse_whole(MESSAGE, TAGGED)
        assert tags.values(whole[TAGS])["kept"].number == 7
        assert tags.encoded({"kept": {"name": "a", "number": 7, TAGS: []}}) == whole[TAGS]
        del whole


def test_building_leaves_nothing() -> None:
    with uncollected(leaves_nothing=True):
        built(MESSAGE, VALUE)


def test_what_cannot_be_parsed_or_built_leaves_nothing() -> None:
    with uncollected(leaves_nothing=True):
        try:  # pytest.raises would keep the error, whose traceback is a circle
            parse_whole(MESSAGE, b"\x05\x02")
        except ProtocolError as error:
            told = str(error)
    assert told
    with uncollected(leaves_nothing=True), pytest.raises(ConstructError):
        built(Struct("number" / Int16sb), {"number": 2**20})
