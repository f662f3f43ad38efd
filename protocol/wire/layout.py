"""Versions as data: a table of fields with version ranges becomes one Construct Struct per version.

Must not know any message. Invariant: a table is written once and names each field once per encoding;
flexible versions (KIP-482) change how its types are written, never the table.
"""

from __future__ import annotations

import functools
import io
from typing import TYPE_CHECKING, Any, NamedTuple

from construct import Construct, ConstructError, Container, FormatField, Int32sb, Renamed, Struct

from ..errors import ProtocolError
from .primitives import UUID, UVARINT, KArray, KBytes, KRecords, KString, TaggedFields, parsed

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_VERSION = 2**15 - 1
TAGS = "_tagged_fields"
NOTHING_SAID = object()  # not None: null is a default that specs give


class Field(NamedTuple):
    """One field of a message spec: versions ``first`` to ``last`` have it, and ``codec`` writes it.

    A field with a ``tag`` is left out of a message where its value is ``default``. Where the spec gives no default, the
    default is the type's zero.
    """

    first: int
    name: str
    codec: Any  # Construct, Encodings, ArrayOf or StructOf; Construct has no types, so the union is Any to mypy
    last: int = MAX_VERSION
    default: Any = NOTHING_SAID
    tag: int | None = None

    def is_in(self, version: int) -> bool:
        """Return True if this version of the message has the field."""
        return self.first <= version <= self.last


class Encodings(NamedTuple):
    """A type that flexible versions write in another way (KIP-482)."""

    plain: Construct
    compact: Construct


class ArrayOf(NamedTuple):
    """``[]T``, T being a struct that is given by a table of its own, or a type of fixed size."""

    item: tuple[Field, ...] | Construct
    nullable: bool = False


class StructOf(NamedTuple):
    """A struct as a field. In the messages read here all such fields are tagged."""

    fields: tuple[Field, ...]


STRING = Encodings(KString(), KString(UVARINT))
NULLABLE_STRING = Encodings(KString(nullable=True), KString(UVARINT, nullable=True))
NULLABLE_BYTES = Encodings(KBytes(nullable=True), KBytes(UVARINT, nullable=True))
RECORDS = Encodings(KRecords(), KRecords(UVARINT))


def layout(fields: Sequence[Field], version: int, *, flexible: bool = False) -> Struct:
    """Return the Struct of the fields that exist in ``version``; a flexible one ends in its tagged fields."""
    present = [field for field in fields if field.is_in(version)]
    members = [_member(field, version, flexible=flexible) for field in present if field.tag is None]
    if flexible:
        known = {field.tag: _member(field, version, flexible=True) for field in present if field.tag is not None}
        members.append(TAGS / TaggedFields(known))
    return Struct(*members)


def _member(field: Field, version: int, *, flexible: bool) -> Construct:
    return field.name / _codec(field.codec, version, flexible=flexible)


def _codec(codec: Any, version: int, *, flexible: bool) -> Construct:
    if isinstance(codec, Encodings):
        return codec.compact if flexible else codec.plain
    if isinstance(codec, StructOf):
        return layout(codec.fields, version, flexible=flexible)
    if isinstance(codec, ArrayOf):
        item = codec.item
        if isinstance(item, tuple):
            item = layout(item, version, flexible=flexible)
        return KArray(item, UVARINT if flexible else Int32sb, nullable=codec.nullable)
    return codec


def default_of(field: Field) -> Any:
    """Return the value that the field has in a message that does not contain it."""
    codec = field.codec.plain if isinstance(field.codec, Encodings) else field.codec
    if field.default is not NOTHING_SAID:
        return field.default
    if isinstance(codec, StructOf):
        return {member.name: default_of(member) for member in codec.fields}
    if isinstance(codec, ArrayOf):
        return []
    if isinstance(codec, FormatField):
        return bytes(codec.length) if codec is UUID else 0
    return ""


@functools.lru_cache(maxsize=1000)
def offset_bytes(struct: Struct, name: str) -> int:
    """Return how many bytes stand before field ``name`` in the struct, all fields before it being of fixed size."""
    before = [field.name for field in struct.subcons].index(name)
    return sum(field.sizeof() for field in struct.subcons[:before])


def item_struct(struct: Struct, name: str) -> Struct:
    """Return the struct of the items of array field ``name``."""
    return bare(member(struct, name)).subcon


def member(struct: Struct, name: str) -> Construct:
    """Return the struct's field of that name."""
    return next(field for field in struct.subcons if field.name == name)


def bare(codec: Construct) -> Construct:
    """Return the codec without the name it has in a struct."""
    return codec.subcon if isinstance(codec, Renamed) else codec


def parse_whole(struct: Struct, data: bytes) -> Container:
    """Return ``data`` as this struct, to the last byte; ProtocolError if it is anything else."""
    stream = io.BytesIO(data)
    try:
        value: Container = parsed(struct, stream)
    except ConstructError as error:
        raise ProtocolError(str(error)) from error
    if stream.tell() != len(data):
        raise ProtocolError(f"{len(data) - stream.tell()} bytes follow the end of the message")
    return value
