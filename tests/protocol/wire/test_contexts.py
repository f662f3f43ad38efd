"""Messages that Construct parses and builds leave nothing behind for the garbage collector."""

from __future__ import annotations

import io

import pytest
from construct import ConstructError, Int16sb, Struct

from protocol.errors import ProtocolError
from protocol.wire.contexts import built, parsed
from protocol.wire.layout import STRING, TAGS, ArrayOf, Field, StructOf, layout, parse_whole
from tests.uncollected import uncollected

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
