"""Makes the rows that a walker emits, and the code that reads entries into them.

Must not know how entries are grouped, nor Fetch. Invariant: see compiler.py, of which this is a part.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from ..wire.layout import bare
from ..wire.primitives import UVARINT, Sized, TaggedFields
from .entry import (
    ENTRY_AT,
    ENTRY_END,
    LONG_VARINT_BYTES,
    ONE_BYTE,
    RECORDS_AT,
    RECORDS_SIZE,
    Entry,
    Plain,
    Unpack,
    local,
)
from .stepwise import count_fallback, entry_fallback, skip_fallback, value_fallback

if TYPE_CHECKING:
    from collections.abc import Mapping

    from construct import Construct


TOPIC = "topic"
BLOCK_TAGS = "_block_tags"
_ONE_BY_ONE: Mapping[str, str] = MappingProxyType({})
_POSITIONS = {TOPIC: "topic", ENTRY_AT: "entry_at", ENTRY_END: "pos", RECORDS_AT: "pos", RECORDS_SIZE: "length"}
FEW_PLAIN = 8
"""The number of rows that take as long as setting up a stroke for many entries of the usual shape."""
MOST_PLAIN = 256
"""The most entries that one stroke looks at."""
TRIED_AGAIN = 64
"""The number of entries that are read one by one after a stroke that found few of the usual shape."""


class Rows(NamedTuple):
    """The rows of a walker: a ``row`` of ``columns`` for each entry of the array at ``path``.

    A column is TOPIC (the block's name or id), the name of a field of the entry, or a position; ``absent``
    says what stands for a field that the version does not have. An array column gives a list, or None. With
    ``block``, each block is announced by a tuple of its topic and the number of its entries. ``head`` names
    the fields after the blocks that go into the head: others are stepped over. BLOCK_TAGS among them is for
    the blocks' own tagged fields.
    """

    row: type
    path: tuple[str, str]
    columns: tuple[str, ...]
    absent: Mapping[str, Any] = MappingProxyType({})
    block: bool = False
    head: tuple[str, ...] = ()


def row_maker(row: type) -> type:
    """Return a type with the attributes of NamedTuple ``row`` that is called with one tuple, and makes it in C.

    To make rows is the largest part of walking. NamedTuple's own constructor is written in Python, and
    ``tuple.__new__(row, …)`` packs its arguments twice: this takes three quarters of its time.
    """
    members = {name: value for name, value in vars(row).items() if name not in ("__new__", "__orig_bases__")}
    return type(row.__name__, (tuple,), members)


class Source:
    """Writes a function line by line; ``namespace`` is what it must be run in.

    ``marks`` are lines that say again what depends on ``end``, wherever that changes. With ``at_once`` the function is
    for bodies that are all there: it never asks for more, and where a body ends too early it says so.
    """

    def __init__(self, namespace: dict[str, Any], *, at_once: bool) -> None:
        self.at_once = at_once
        self.written: list[str] = []
        self.marks: list[str] = []
        self.indent = 0
        self.namespace = namespace

    def text(self) -> str:
        return "\n".join(self.written) + "\n"

    def constant(self, value: Any) -> str:
        name = f"constant_{len(self.namespace)}"
        self.namespace[name] = value
        return name

    def line(self, *lines: str) -> None:
        self.written += ["    " * self.indent + line for line in lines]

    def open(self, line: str) -> None:
        self.line(line)
        self.indent += 1

    def close(self) -> None:
        self.indent -= 1

    def fail(self, message: str) -> None:
        self.line(f"raise ProtocolError(f{message!r})")

    def more(self) -> None:
        """Emit code that yields to the caller: everything before pos is done with, and more is needed from there on."""
        self.line("was = pos", "pos, end = yield pos", "stop += pos - was", "end = min(end, stop)", *self.marks)

    def wait(self, size: str) -> None:
        """Emit code that waits until so many bytes are there; it is an error if the body has fewer."""
        if self.at_once:
            self.open(f"if end - pos < {size}:")
            self.fail("the message ends too early")
            self.close()
            return
        self.open(f"while end - pos < {size}:")
        self.open("if end >= stop:")
        self.fail("the message ends too early")
        self.close()
        self.more()
        self.close()


class EntryWriter(Source):
    """Writes what is done with the entries of a block, there being ``n`` of them."""

    rows: Rows
    entry: Entry
    path: str
    tags: Construct | None  # of a block

    def all_entries(self) -> None:
        """Emit code that reads the entries of a block; those that follow each other in the usual shape at a stroke."""
        plain = self.entry.plain
        if plain is None:
            self.open("for _ in range(n):")
            self.an_entry(self.entry.unpack)
            self.close()
            return
        self.open("while n > 0:")
        self.line(f"few = {FEW_PLAIN}")
        self.many_plain(plain)
        self.open("for _ in range(few if few < n else n):")
        self.an_entry(self.entry.unpack)
        self.close()
        self.line("n -= few")
        self.close()

    def many_plain(self, plain: Plain) -> None:
        """Emit code that reads as many entries of the usual shape as there are from here on; `few`: how many others are
        read before it is tried again."""
        size = plain.format.size
        self.open(f"if n > {FEW_PLAIN} and end - pos > {FEW_PLAIN * size}:")
        self.line(f"few = {TRIED_AGAIN}")
        if plain.first_look is not None:
            at, byte = plain.first_look
            self.open(f"if buffer[pos + {at}] == {byte}:")
        self.line("began = pos", f"until = pos + min(n, (end - pos) // {size}, {MOST_PLAIN}) * {size}")
        iterate = self.constant(plain.format.iter_unpack)
        self.open(f"for {''.join(f'{name}, ' for name in plain.names) or '()'} in {iterate}(buffer[pos:until]):")
        if plain.is_other:
            self.open(f"if {plain.is_other}:")
            self.line("break")
            self.close()
        self.line("entry_at = pos", f"pos += {size}")
        self.emit_row({RECORDS_AT: f"entry_at + {plain.records_at}", RECORDS_SIZE: "0"})
        self.close()
        self.line(f"m = (pos - began) // {size}", "n -= m")
        self.open(f"if m > {FEW_PLAIN}:")
        self.line(f"few = {FEW_PLAIN // 2}")
        for _ in range(2 + (plain.first_look is not None)):
            self.close()

    def an_entry(self, unpack: Unpack | None) -> None:
        names = ["entry_at", *self.entry.locals]
        slow = entry_fallback(self.entry.fields, self.entry.wanted, self.path)
        if unpack is None:
            self.delegate(", ".join(names), slow)
            self.rest_of_entry()
            return
        delegation = (", ".join(names), slow)
        if self.at_once:
            self.open("if pos > last_entry:")
            self.delegate(*delegation)
        else:
            self.open("while pos > last_entry:")
            self.open("if end >= stop:")
            self.delegate(*delegation)
            self.line("break")
            self.close()
            self.more()
        self.close()
        self.open("else:")
        self.line(f"{', '.join(unpack.names)}, = {self.constant(unpack.format.unpack_from)}(buffer, pos)")
        if unpack.holds:
            self.open(f"if {unpack.holds}:")
            self.past_fields(unpack)
            self.otherwise(*delegation)
        else:
            self.past_fields(unpack)
        self.close()
        self.rest_of_entry()

    def past_fields(self, unpack: Unpack) -> None:
        self.line("entry_at = pos", f"pos += {unpack.format.size}")
        if self.entry.records is not None and bare(self.entry.records).prefix is UVARINT:
            self.rest_of_varint("length")
            self.line("length -= 1")

    def rest_of_varint(self, name: str) -> None:
        """Emit code that adds the bytes of a varint after its first."""
        for index in range(1, LONG_VARINT_BYTES + 1):
            shift = 7 * index
            self.open(f"if {name if index == 1 else 'more'} >= {ONE_BYTE}:")
            self.line("more = buffer[pos]", "pos += 1", f"{name} += (more << {shift}) - {1 << shift}")
            if index == LONG_VARINT_BYTES:
                self.open("if more > 15:")
                self.fail("an unsigned varint does not fit 32 bits")
                self.close()
        for _ in range(LONG_VARINT_BYTES):
            self.close()

    def rest_of_entry(self) -> None:
        """Emit code that reads from the records on, their length being known."""
        entry = self.entry
        if entry.records is not None:
            self.check_records()
            if not entry.emits_late:
                self.emit_row()
            elif RECORDS_AT in self.rows.columns:
                self.line("records_at = pos")
            self.past_records()
        if entry.after is not None:
            if entry.after.name in self.rows.columns:
                self.delegate(local(entry.after), value_fallback(entry.after, self.path))
            else:
                self.past_tags(entry.after)
        if entry.emits_late:
            self.emit_row()

    def check_records(self) -> None:
        self.open("if not -1 <= length <= stop - pos:")
        self.fail(f"{self.path}.records: length {{length}} is not one the message can hold")
        self.close()

    def past_records(self) -> None:
        self.open("if length > 0:")
        self.line("pos += length")
        self.close()

    def end_of_block(self) -> None:
        if self.tags is None:
            return
        if BLOCK_TAGS not in self.rows.head:
            self.past_tags(self.tags)
            return
        self.if_empty(bare(self.tags))
        self.close()
        self.open("else:")
        self.delegate("tags", value_fallback(self.tags, self.path))
        self.line(f"head.setdefault({BLOCK_TAGS!r}, {{}})[topic] = tags")
        self.close()

    def past_tags(self, tags: Construct) -> None:
        self.if_empty(bare(tags))
        self.otherwise("", skip_fallback(tags, self.path))

    def if_empty(self, codec: Construct) -> None:
        """Open a block of code for an empty value, which is a length or count and nothing else, and step over it."""
        if isinstance(codec, TaggedFields):
            self.open("if end > pos and not buffer[pos]:")
        elif codec.prefix is UVARINT:
            self.open("if end > pos and buffer[pos] == 1:")
        else:
            size = codec.minimum_bytes
            self.open(f"if end - pos >= {size} and not any(buffer[pos:pos + {size}]):")
        self.line(f"pos += {1 if isinstance(codec, TaggedFields) else codec.minimum_bytes}")

    def otherwise(self, names: str, fallback: Any) -> None:
        """Close the opened block; where its condition does not hold, `stepwise` reads."""
        self.close()
        self.open("else:")
        self.delegate(names, fallback)
        self.close()

    def delegate(self, names: str, fallback: Any, *, pos: str = "pos") -> None:
        """Emit code that lets `stepwise` read `names`."""
        names = f", {names}" if names else ""
        steps = f"{self.constant(fallback)}(buffer, {pos}, end, stop)"
        read = f"at_once({steps})" if self.at_once else f"yield from {steps}"
        self.line(f"pos, end, stop{names} = {read}", *self.marks)

    def long_count(self, array: Sized, path: str) -> None:
        """Emit code that reads the number of items again, if its first byte was not all of it."""
        self.open(f"if n >= {ONE_BYTE - 1}:")
        self.delegate("n", count_fallback(array, path), pos="pos - 1")
        self.close()

    def check_count(self, array: Sized, path: str) -> None:
        self.open(f"if n < 0 or n > (stop - pos) // {array.item_bytes}:")
        self.fail(f"{path}: length {{n}} is not one the message can hold")
        self.close()

    def emit_row(self, plain: Mapping[str, str] = _ONE_BY_ONE) -> None:
        """Emit code that makes a row; `plain`: where the values of columns are, if the entry is of the usual shape."""
        known = {name: repr(value) for name, value in self.rows.absent.items()} | _POSITIONS
        if self.entry.emits_late:
            known[RECORDS_AT] = "records_at"
        known |= {field.name: local(field) for field in self.entry.fields if field is not self.entry.records}
        if self.entry.after is not None:
            known[self.entry.after.name] = local(self.entry.after)
        known |= plain
        values = ", ".join(known[name] for name in self.rows.columns)
        self.line(f"emit(({values},))" if self.rows.row is tuple else f"emit(Row(({values},)))")
