"""Plans how one entry is read at a stroke: one format for all its fields, and when the result is right.

Must not know how walkers are written. A varint is taken for its first byte, an array for empty, a nullable string for
null, a tag section for none: `holds` says of what was unpacked whether that was right. Where it was not, the entry is
read again, one field at a time. Invariant: `unpack` covers all bytes of an entry that holds, up to its records.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from construct import Construct, FormatField, Struct

from ..wire.layout import bare
from ..wire.primitives import UVARINT, KArray, KRecords, KString, TaggedFields

if TYPE_CHECKING:
    from collections.abc import Sequence

ENTRY_AT = "entry_at"
ENTRY_END = "entry_end"
RECORDS_AT = "records_at"
RECORDS_SIZE = "records_size"
ONE_BYTE = 0x80  # a varint below it is that byte alone
LONG_VARINT_BYTES = 4  # what a varint may have after its first byte


class Unpack(NamedTuple):
    """``names`` are the local names of what ``format`` gives."""

    format: struct.Struct
    names: list[str]
    holds: str  # a Python condition; empty if there is nothing to doubt


class Plain(NamedTuple):
    """The usual shape of an entry without records: all of one size, so that many are read at a stroke.

    ``names`` are the local names of what ``format`` gives. ``is_other`` is a Python condition on them that an entry has
    another shape: records, an array or a string that is not null, tagged fields. It is empty if none has.
    """

    format: struct.Struct
    names: list[str]
    is_other: str
    first_look: tuple[int, int] | None  # a byte of the length of records: where it is, and what; None: there are none
    records_at: int  # where records would begin


class Entry(NamedTuple):
    """``fields`` are those up to the records or the end, ``wanted`` the names of those that are looked at."""

    fields: list[Construct]
    after: Construct | None  # the tagged fields that follow the records
    records: Construct | None
    wanted: list[str]
    unpack: Unpack | None  # None if an entry cannot be read at one stroke
    plain: Plain | None  # None if a row has something that is not in the usual shape
    emits_late: bool  # the row has something that comes after the records

    @property
    def locals(self) -> list[str]:
        """The local names of ``wanted``."""
        return [local(field) for field in self.fields if field.name in self.wanted]


def plan_entry(item: Struct, columns: Sequence[str]) -> Entry:
    """Return the plan for entries of this struct; TypeError if something other than tagged fields follows records."""
    members = item.subcons
    size = next((index + 1 for index, field in enumerate(members) if _is_records(field)), len(members))
    fields, after = members[:size], members[size:]
    if after and not (len(after) == 1 and isinstance(bare(after[0]), TaggedFields)):
        raise TypeError(f"{after[0].name}: only tagged fields may follow records")
    records = fields[-1] if _is_records(fields[-1]) else None
    wanted = [field.name for field in fields if field.name in columns or field is records]
    late = ENTRY_END in columns or any(field.name in columns for field in after) or records is None
    return Entry(
        fields=fields,
        after=after[0] if after else None,
        records=records,
        wanted=wanted,
        unpack=_unpack(fields, wanted),
        plain=None if after and after[0].name in columns else _plain(members, wanted),
        emits_late=late or RECORDS_SIZE not in columns,
    )


def local(field: Construct) -> str:
    """Return what a field is called in a walker."""
    return "length" if _is_records(field) else f"{field.name}_"


def _is_records(field: Construct) -> bool:
    return isinstance(bare(field), KRecords)


def _unpack(fields: Sequence[Construct], wanted: Sequence[str]) -> Unpack | None:
    formats, names, doubts = "", [], []
    for field in fields:
        codec, name = bare(field), local(field)
        if isinstance(codec, FormatField):
            formats += codec.fmtstr[1:] if field.name in wanted else f"{codec.length}x"
            names += [name] if field.name in wanted else []
            continue
        if isinstance(codec, TaggedFields):
            doubts.append(f"not {name}")
        elif isinstance(codec, KString) and codec.nullable:
            doubts.append(f"not {name}" if codec.prefix is UVARINT else f"{name} == -1")
        elif isinstance(codec, KArray):
            doubts.append(_is_empty(codec, name))
        elif not isinstance(codec, KRecords):
            return None
        if field.name in wanted and not isinstance(codec, KRecords):
            return None
        varint = isinstance(codec, TaggedFields) or codec.prefix is UVARINT
        formats += "B" if varint else "h" if isinstance(codec, KString) else "i"
        names.append(name)
    unpack = struct.Struct(">" + formats)
    if names and names[-1] == "length" and varint:
        doubts.append(f"(length < {ONE_BYTE} or end - pos >= {unpack.size + LONG_VARINT_BYTES})")
    return Unpack(unpack, names, " and ".join(doubts))


def _is_empty(codec: KArray, name: str) -> str:
    if codec.prefix is UVARINT:
        return f"{name} < 2" if codec.nullable else f"{name} == 1"
    return f"-1 <= {name} < 1" if codec.nullable else f"{name} == 0"


def _plain(members: Sequence[Construct], wanted: Sequence[str]) -> Plain | None:
    formats, names, others, size, first_look, records_at = ">", [], [], 0, None, 0
    for field in members:
        codec, name = bare(field), local(field)
        if isinstance(codec, FormatField):
            formats += codec.fmtstr[1:] if field.name in wanted else f"{codec.length}x"
            names += [name] if field.name in wanted else []
            size += codec.length
            continue
        is_records = isinstance(codec, KRecords)
        if field.name in wanted and not is_records:
            return None
        usual = _usual(codec)
        varint = isinstance(codec, TaggedFields) or codec.prefix is UVARINT
        form = "B" if varint else "h" if isinstance(codec, KString) else "i"
        formats += form
        names.append(name)
        others.append(f"{name} != {usual}" if usual else name)
        size += struct.calcsize(f">{form}")
        if is_records:
            first_look, records_at = (size - 1, usual), size
    # What differs most often is asked first.
    return Plain(struct.Struct(formats), names, " or ".join(reversed(others)), first_look, records_at)


def _usual(codec: Construct) -> int:
    """Return the number that is all of such a value in the usual shape: null if it may be, but for records, which are
    empty (KIP-73)."""
    if isinstance(codec, TaggedFields):
        return 0
    size = -1 if codec.nullable and not isinstance(codec, KRecords) else 0
    return size + 1 if codec.prefix is UVARINT else size
