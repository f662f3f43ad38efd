"""Versions as data: a table of fields with version ranges becomes one Construct Struct per version.

Must not know any message. Invariant: a table is written once and names each field once per encoding;
flexible versions (KIP-482) change how its types are written, never the table.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, NamedTuple

from construct import Construct, ConstructError, Container, Int32sb, Struct

from .errors import ProtocolError
from .primitives import TAGGED_FIELDS, UVARINT, KArray, KRecords, KString

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_VERSION = 2**15 - 1
TAGS = "_tagged_fields"


class Field(NamedTuple):
    """One field of a message spec: in versions ``first`` to ``last``, written by ``codec``."""

    first: int
    name: str
    codec: Any  # Construct, Encodings or ArrayOf; Construct has no types, so the union is Any to mypy
    last: int = MAX_VERSION


class Encodings(NamedTuple):
    """A type that flexible versions write in another way (KIP-482)."""

    plain: Construct
    compact: Construct


class ArrayOf(NamedTuple):
    """``[]T``, T being a struct that is given by a table of its own."""

    fields: tuple[Field, ...]
    nullable: bool = False


STRING = Encodings(KString(), KString(UVARINT))
RECORDS = Encodings(KRecords(), KRecords(UVARINT))


def layout(fields: Sequence[Field], version: int, *, flexible: bool = False) -> Struct:
    """The Struct of the fields that exist in ``version``; a flexible one ends in its tagged fields."""
    present = (field for field in fields if field.first <= version <= field.last)
    members = [field.name / _codec(field.codec, version, flexible=flexible) for field in present]
    if flexible:
        members.append(TAGS / TAGGED_FIELDS)
    return Struct(*members)


def _codec(codec: Any, version: int, *, flexible: bool) -> Construct:
    if isinstance(codec, Encodings):
        return codec.compact if flexible else codec.plain
    if isinstance(codec, ArrayOf):
        item = layout(codec.fields, version, flexible=flexible)
        return KArray(item, UVARINT if flexible else Int32sb, nullable=codec.nullable)
    return codec


def offset_bytes(struct: Struct, name: str) -> int:
    """How many bytes stand before field ``name`` in the struct, all fields before it being of fixed size."""
    before = [field.name for field in struct.subcons].index(name)
    return sum(field.sizeof() for field in struct.subcons[:before])


def item_struct(struct: Struct, name: str) -> Struct:
    """The struct of the items of array field ``name``."""
    array = next(field.subcon for field in struct.subcons if field.name == name)
    return array.subcon


def parse_whole(struct: Struct, data: bytes) -> Container:
    """``data`` as this struct, to the last byte; ProtocolError if it is anything else."""
    stream = io.BytesIO(data)
    try:
        value = struct.parse_stream(stream)
    except ConstructError as error:
        raise ProtocolError(str(error)) from error
    if stream.tell() != len(data):
        raise ProtocolError(f"{len(data) - stream.tell()} bytes follow the end of the message")
    return value
