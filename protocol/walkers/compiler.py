"""Turns a Construct Struct into the source of a walker, and the source into a function.

Must not know Fetch. It knows the shape of a message: fixed fields, then an array of blocks, each a name (or
an id) and an array of entries, which make up the rows; then whatever comes. What is plain and whole in the
buffer is read at one stroke: all fields of an entry by one unpack (see entry.py), and the first entry
together with the head of its block, because many blocks have no other. Where that does not hold, `stepwise`
reads the same fields one at a time.

Invariant: each read is preceded by a look at what is there, and each length by a look at what the body can
still hold.
"""

from __future__ import annotations

import struct
from typing import Any

from construct import Construct, FormatField, Struct

from ..errors import ProtocolError
from ..wire.layout import bare, member
from ..wire.primitives import UVARINT, KArray, KString, Sized, TaggedFields
from ..wire.topics import MAX_TOPIC_BYTES, DecodedNames
from .entry import ONE_BYTE, Unpack, plan_entry
from .rows import EntryWriter, Rows, row_maker
from .stepwise import head_fallback, read_at_once, skip_fallback, value_fallback

_TOO_LARGE = MAX_TOPIC_BYTES + 1
_EMPTY_VALUES = {KArray: [], KString: "", TaggedFields: b"\0"}


def compile_walker(body: Struct, rows: Rows) -> Any:
    """Return the walker of ``body``, and that of whole bodies as its attribute ``at_once``; TypeError for a shape that
    walkers do not take, which is a table's fault."""
    walk, walk.at_once = (_made(_Compiler(body, rows, at_once=at_once)) for at_once in (False, True))
    return walk


def _made(compiler: _Compiler) -> Any:
    source = compiler.source()
    namespace = compiler.namespace
    # All that varies in the source is field names from our own tables, and numbers.
    exec(compile(source, "<walker>", "exec"), namespace)  # noqa: S102
    return namespace["walk"]


def walker_source(body: Struct, rows: Rows, *, at_once: bool = False) -> str:
    """Return the Python that compile_walker runs, for people to read."""
    return _Compiler(body, rows, at_once=at_once).source()


class _Compiler(EntryWriter):
    """Writes one walker."""

    def __init__(self, body: Struct, rows: Rows, *, at_once: bool) -> None:
        super().__init__({"ProtocolError": ProtocolError, "at_once": read_at_once}, at_once=at_once)
        if rows.row is not tuple:
            self.namespace["Row"] = row_maker(rows.row)
        self.rows = rows
        self.body = body
        self.blocks = member(body, rows.path[0])
        block = bare(self.blocks).subcon
        self.name, self.entries, *rest = block.subcons
        self.tags = rest[0] if rest else None
        if self.entries.name != rows.path[1] or not all(isinstance(bare(each), TaggedFields) for each in rest):
            raise TypeError(f"{self.blocks.name}: walkers take blocks of a name, an array and tagged fields alone")
        self.path = ".".join(rows.path)
        self.entry = plan_entry(bare(self.entries).subcon, rows.columns)

    def source(self) -> str:
        """Return the whole function."""
        index = self.body.subcons.index(self.blocks)
        if self.at_once:
            self.open("def walk(buffer, pos, end, emit, head):")
            self.line("stop = end")
        else:
            self.open("def walk(buffer, limit, emit, head):")
            self.line("pos, end = yield 0", "stop = pos + limit", "end = min(end, stop)")
        self.first_fields(self.body.subcons[:index])
        if self.entry.unpack is not None:
            self.marks = self.where_to_look_again(self.entry.unpack)
            self.line(*self.marks)
        self.open("for _ in range(n):")
        self.a_block()
        self.close()
        self.marks = []
        self.line(f"head['{self.blocks.name}_end'] = pos")
        for field in self.body.subcons[index + 1 :]:
            self.last_field(field)
        self.line("return pos")
        return self.text()

    def first_fields(self, fields: list[Construct]) -> None:
        """Emit code that reads the fixed fields before the blocks, and the number of blocks."""
        blocks: Sized = bare(self.blocks)
        compact = blocks.prefix is UVARINT
        for field in fields:
            if not isinstance(bare(field), FormatField):
                raise TypeError(f"{field.name}: walkers take nothing but fixed fields before {self.blocks.name}")
        formats = "".join(bare(field).fmtstr[1:] for field in fields)
        unpack = struct.Struct(f">{formats}{'B' if compact else 'i'}")
        self.wait(str(unpack.size))
        names = "".join(f"head[{field.name!r}], " for field in fields)
        self.line(f"{names}n, = {self.constant(unpack.unpack_from)}(buffer, pos)", f"pos += {unpack.size}")
        if compact:
            self.line("n -= 1")
            self.long_count(blocks, self.blocks.name)
        self.check_count(blocks, self.blocks.name)

    def last_field(self, field: Construct) -> None:
        """Emit code that reads a field after the blocks: in most messages an empty array, an empty text, no tagged
        fields."""
        codec, wanted = bare(field), field.name in self.rows.head
        names = f"head[{field.name!r}]" if wanted else ""
        slow = (value_fallback if wanted else skip_fallback)(field, field.name)
        if isinstance(codec, FormatField):
            self.delegate(names, slow)
        else:
            self.if_empty(codec)
            if wanted:
                self.line(f"{names} = {_EMPTY_VALUES[type(codec)]!r}")
            self.otherwise(names, slow)
        self.line(f"head['{field.name}_end'] = pos")

    def a_block(self) -> None:
        """Emit code that reads the head of a block, then its entries."""
        slow = head_fallback(self.name, self.entries, self.blocks.name)
        if self.entry.unpack is None:
            self.delegate("topic, n", slow)
        else:
            self.fast_head(self.entry.unpack)
            self.otherwise("topic, n", slow)
        if self.rows.block:
            self.line("emit((topic, n))")
        self.all_entries()
        self.end_of_block()

    def fast_head(self, first: Unpack) -> None:
        """Open a block of code for a head and a first entry that are there: both are read by one unpack."""
        entries: Sized = bare(self.entries)
        compact = entries.prefix is UVARINT
        rest = ("B" if compact else "i") + first.format.format[1:]
        count_bytes, entry_bytes = (1 if compact else 4), first.format.size
        codec = bare(self.name)
        if isinstance(codec, FormatField):
            start, head = 0, str(codec.length + count_bytes)
            unpack = self.constant(struct.Struct(codec.fmtstr + rest).unpack_from)
        else:
            start = 1 if codec.prefix is UVARINT else 2
            head = f"size + {start + count_bytes}"
            unpack = f"{self.constant(_unpacks_by_size(rest, codec))}[size]"
        self.size_of_head(codec, f"{head} + {entry_bytes}")
        names = ", ".join(["name", "n", *first.names])
        self.line(f"{names}, = {unpack}(buffer, pos{f' + {start}' if start else ''})")
        decoded = "name" if isinstance(codec, FormatField) else f"{self.constant(DecodedNames())}[name]"
        self.line(f"topic = {decoded}")
        self.line(f"pos += {head}")
        if compact:
            self.line("n -= 1")
        holds = ["n == 1", first.holds]
        if not self.rows.block:
            self.open(f"if {' and '.join(filter(None, holds))}:")
            self.past_fields(first)
            self.rest_of_entry()
            self.end_of_block()
            self.line("continue")
            self.close()
        if compact:
            self.long_count(entries, self.path)
        self.check_count(entries, self.path)

    def where_to_look_again(self, entry: Unpack) -> list[str]:
        """Return marks: up to them a block's head with the first entry, and an entry, are there whatever they hold."""
        codec = bare(self.name)
        largest = codec.length if isinstance(codec, FormatField) else codec.minimum_bytes + MAX_TOPIC_BYTES
        around = bare(self.entries).minimum_bytes + entry.format.size
        return [f"last_head = end - {largest + around}", f"last_entry = end - {entry.format.size}"]

    def size_of_head(self, codec: Construct, whole: str) -> None:
        """Open a block of code for a head that is short and all there; the code sets ``size``, a name's bytes."""
        named = not isinstance(codec, FormatField)
        self.open("if pos > last_head:")
        if named:
            self.line(f"size = {_TOO_LARGE}")
            self.open(f"if end - pos >= {codec.minimum_bytes}:")
            self.size_of_name(codec)
            self.close()
        self.line(f"is_there = end - pos >= {whole}")
        self.close()
        self.open("else:")
        if named:
            self.size_of_name(codec)
        self.line("is_there = True")
        self.close()
        self.open(f"if is_there{f' and size <= {MAX_TOPIC_BYTES}' if named else ''}:")

    def size_of_name(self, codec: Sized) -> None:
        if codec.prefix is not UVARINT:
            self.line(f"size, = {self.constant(struct.Struct('>H').unpack_from)}(buffer, pos)")
            return
        self.line("size = buffer[pos] - 1")
        self.open(f"if not 0 <= size < {ONE_BYTE - 1}:")
        self.line(f"size = {_TOO_LARGE}")
        self.close()


def _unpacks_by_size(rest: str, name: Sized) -> list[Any]:
    """Return one unpack function for each size of a name and what follows it; a compact size of one byte ends at
    126."""
    sizes = range(ONE_BYTE - 1 if name.prefix is UVARINT else MAX_TOPIC_BYTES + 1)
    return [struct.Struct(f">{size}s{rest}").unpack_from for size in sizes]
