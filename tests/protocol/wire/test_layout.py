"""Tables become Structs, version by version; the Fetch tables and a made-up one that turns flexible."""

from __future__ import annotations

from typing import Any

import pytest
from construct import Int8sb, Int16sb, Int32sb
from hypothesis import given

from protocol.errors import ProtocolError
from protocol.fetch.tables import REQUEST, RESPONSE, request_layout, response_layout
from protocol.wire.layout import (
    RECORDS,
    STRING,
    TAGS,
    ArrayOf,
    Field,
    item_struct,
    layout,
    offset_bytes,
    parse_whole,
)

from ..frames import request_frames, response_frames

ITEM = (Field(0, "name", STRING), Field(1, "data", RECORDS))
TABLE = (
    Field(0, "old", Int8sb, last=1),
    Field(0, "kept", Int16sb),
    Field(1, "new", Int32sb),
    Field(0, "items", ArrayOf(ITEM, nullable=True)),
)


@pytest.mark.parametrize(
    ("version", "names"),
    [
        (0, ["old", "kept", "items"]),
        (1, ["old", "kept", "new", "items"]),
        (2, ["kept", "new", "items"]),
    ],
)
def test_fields_come_and_go(version: int, names: list[str]) -> None:
    assert [field.name for field in layout(TABLE, version).subcons] == names


def test_a_flexible_version_writes_the_same_table_compactly() -> None:
    value: dict[str, Any] = {
        "kept": 5,
        "new": 6,
        "items": [{"name": "n", "data": b"d", TAGS: []}],
        TAGS: [(3, b"x")],
    }
    struct = layout(TABLE, 2, flexible=True)
    encoded = struct.build(value)
    assert encoded == bytes.fromhex("0005 00000006 02 026e 0264 00 01 03 01 78")
    parsed = parse_whole(struct, encoded)
    assert parsed["items"][0].name == "n"
    assert parsed[TAGS] == [(3, b"x")]


def test_offsets_are_of_the_version() -> None:
    assert offset_bytes(layout(TABLE, 0), "items") == 3
    assert offset_bytes(layout(TABLE, 2), "items") == 6
    with pytest.raises(ValueError, match="new"):
        offset_bytes(layout(TABLE, 0), "new")


def test_item_struct() -> None:
    assert [field.name for field in item_struct(layout(TABLE, 1), "items").subcons] == ["name", "data"]


def test_a_message_ends_where_its_bytes_do() -> None:
    with pytest.raises(ProtocolError, match="2 bytes follow"):
        parse_whole(Int16sb, b"\0\1\2\3")


@given(request_frames)
def test_requests_parse_to_what_they_were_built_from(made_up: tuple[int, dict[str, Any]]) -> None:
    version, values = made_up
    struct = request_layout(version)
    encoded = struct.build(values)
    assert struct.build(parse_whole(struct, encoded)) == encoded


@given(response_frames)
def test_responses_parse_to_what_they_were_built_from(made_up: tuple[int, dict[str, Any]]) -> None:
    version, values = made_up
    struct = response_layout(version)
    encoded = struct.build(values)
    parsed = parse_whole(struct, encoded)
    for topic in parsed.responses:
        for partition in topic.partitions:
            at, size = partition.records
            partition.records = None if size < 0 else encoded[at : at + size]
    assert struct.build(parsed) == encoded


@pytest.mark.parametrize("table", [REQUEST, RESPONSE])
def test_no_table_names_a_field_twice(table: tuple[Field, ...]) -> None:
    names = [field.name for field in table]
    assert len(names) == len(set(names))
