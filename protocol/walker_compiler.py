"""Turns a Construct Struct into the source of a walker (see walker.py), and that into a function.

Must not know Fetch: it knows fixed-size fields, strings, records and arrays, and which of them make up the
rows. Fields that stand together are read by one unpack; those nobody asked for become padding. Invariant:
each read is preceded by a wait for as many bytes as it takes, and each wait by a look at what the body can
still hold.
"""

from __future__ import annotations

import struct
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from construct import Construct, FormatField, Renamed, Struct

from .errors import ProtocolError
from .primitives import UVARINT, KArray, KRecords, KString, Sized, minimum_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

ENTRY_AT = "entry_at"
ENTRY_END = "entry_end"
RECORDS_AT = "records_at"
RECORDS_SIZE = "records_size"
# What these columns are called where a row is emitted: n is the length or count that was read last.
_POSITIONS = {ENTRY_AT: ENTRY_AT, ENTRY_END: "pos", RECORDS_AT: "pos", RECORDS_SIZE: "n"}
_LARGEST_UNBATCHED = 8  # to set up an iter_unpack takes as long as about so many rows


class Rows(NamedTuple):
    """What a walker emits: a ``row`` of ``columns`` for each item of the array at ``path``.

    A column is a field's name, looked up from the innermost struct outwards, or a position; ``absent`` says
    what stands for a field that the version does not have. An array column gives a list of tuples, or None.
    With ``block``, an item of the outer array is announced by a ``block`` of its string and the number of
    its items.
    """

    row: type
    path: tuple[str, str]
    columns: tuple[str, ...]
    absent: Mapping[str, Any] = MappingProxyType({})
    block: type | None = None


def compile_walker(body: Struct, rows: Rows) -> Any:
    """The walker of ``body``; TypeError for a codec that walkers do not take, which is a table's fault."""
    compiler = _Compiler(rows)
    source = compiler.source(body)
    namespace = compiler.namespace
    # All that varies in the source is field names from our own tables, and numbers.
    exec(compile(source, "<walker>", "exec"), namespace)  # noqa: S102
    return namespace["walk"]


def walker_source(body: Struct, rows: Rows) -> str:
    """The Python that compile_walker runs, for people to read."""
    return _Compiler(rows).source(body)


class _Group:
    """Fixed-size fields that stand together: one format, and the local names of those that are wanted."""

    def __init__(self) -> None:
        self.formats: list[str] = []
        self.names: list[str] = []

    @property
    def unpack(self) -> struct.Struct:
        return struct.Struct(">" + "".join(self.formats))

    def add(self, codec: FormatField, name: str | None) -> None:
        if name is None:
            self.formats.append(f"{codec.length}x")
        else:
            self.formats.append(codec.fmtstr[1])
            self.names.append(name)


class _Source:
    """Lines of Python, and the values that the names in them stand for."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self.lines: list[str] = []
        self.indent = 0
        self.namespace = namespace

    def constant(self, value: Any) -> str:
        name = f"constant_{len(self.namespace)}"
        self.namespace[name] = value
        return name

    def fail(self, message: str) -> None:
        self.line(f"raise ProtocolError(f{message!r})")

    def open(self, text: str) -> None:
        self.line(text)
        self.indent += 1

    def close(self) -> None:
        self.indent -= 1

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)


class _Compiler(_Source):
    """Writes one walker.

    ``scopes`` maps field names to local names, one dict for each struct around the current place.
    """

    def __init__(self, rows: Rows) -> None:
        names = {"ProtocolError": ProtocolError, "Row": rows.row, "Block": rows.block, "new": tuple.__new__}
        super().__init__(names)
        self.rows = rows
        self.scopes: list[dict[str, str]] = []
        self.in_entry = False

    def source(self, body: Struct) -> str:
        self.open("def walk(buffer, limit, emit, head):")
        self.line("pos, end = yield 0")
        self.line("stop = pos + limit")
        self.clamp()
        self.fields(body, ())
        self.line("return pos")
        return "\n".join(self.lines) + "\n"

    def fields(self, body: Struct, path: tuple[str, ...]) -> None:
        self.scopes.append({})
        group = _Group()
        for index, member in enumerate(body.subcons):
            codec = _bare(member)
            if isinstance(codec, FormatField):
                group.add(codec, self.local(member.name) if self.wanted(member.name) else None)
                continue
            if not isinstance(codec, Sized) or codec.prefix is UVARINT:
                raise TypeError(f"{member.name}: walkers do not take {type(codec).__name__} in this encoding")
            group.add(codec.prefix, "n")
            self.group(group, after_bytes=sum(map(minimum_bytes, body.subcons[index + 1 :])))
            group = _Group()
            self.sized(codec, (*path, member.name))
        self.group(group, after_bytes=0)
        if path == self.rows.path and RECORDS_SIZE not in self.rows.columns:
            self.emit_row()
        self.scopes.pop()

    def wanted(self, name: str) -> bool:
        depth = len(self.scopes)
        return depth == 1 or name in self.rows.columns or (depth == 2 and self.rows.block is not None)

    def local(self, name: str) -> str:
        depth = len(self.scopes)
        return self.scopes[-1].setdefault(name, f"{name}_{depth}")

    def group(self, group: _Group, *, after_bytes: int) -> None:
        """Waits also for the least that must follow in the same struct: an entry is then hardly ever torn."""
        if not group.formats:
            return
        unpack = group.unpack
        self.wait(str(unpack.size + after_bytes))
        if len(self.scopes) == 3 and not self.in_entry:
            self.line("entry_at = pos")
            self.in_entry = True
        if group.names:
            name = self.constant(unpack.unpack_from)
            self.line(f"{', '.join(group.names)}, = {name}(buffer, pos)")
        self.line(f"pos += {unpack.size}")
        if len(self.scopes) == 1:
            for field, local in self.scopes[0].items():
                self.line(f"head[{field!r}] = {local}")

    def sized(self, codec: Sized, path: tuple[str, ...]) -> None:
        limit = "stop - pos" if codec.item_bytes == 1 else f"(stop - pos) // {codec.item_bytes}"
        unless_null = "n != -1 and " if codec.nullable else ""
        self.open(f"if {unless_null}(n < 0 or n > {limit}):")
        self.fail(f"{'.'.join(path)}: length {{n}} is not one the message can hold")
        self.close()
        if isinstance(codec, KString):
            self.string(codec, path[-1])
        elif isinstance(codec, KRecords):
            self.records()
        elif isinstance(codec, KArray) and path == self.rows.path[: len(path)]:
            self.loop(codec, path)
        else:
            self.fixed_array(codec, path[-1])

    def string(self, codec: KString, name: str) -> None:
        if codec.nullable:
            raise TypeError(f"{name}: walkers do not take nullable strings")
        self.wait("n")
        if self.wanted(name):
            self.open("try:")
            self.line(f"{self.local(name)} = str(buffer[pos:pos + n], 'utf-8')")
            self.close()
            self.open("except UnicodeDecodeError as error:")
            self.line(f"raise ProtocolError('{name}: not UTF-8') from error")
            self.close()
        self.line("pos += n")

    def records(self) -> None:
        if RECORDS_SIZE in self.rows.columns:
            self.emit_row()
        self.skip("n")

    def loop(self, codec: KArray, path: tuple[str, ...]) -> None:
        if path == self.rows.path and self.rows.block:
            self.line(f"emit(new(Block, ({', '.join(self.scopes[-1].values())}, n)))")
        batched = path == self.rows.path and _is_fixed(codec.subcon)
        if batched:
            self.open(f"if n > {_LARGEST_UNBATCHED}:")
            self.batches(codec.subcon)
            self.line("n = 0")
            self.close()
        self.open("for _ in range(n):")
        self.fields(codec.subcon, path)
        self.close()
        if path == self.rows.path:
            self.in_entry = False

    def batches(self, item: Struct) -> None:
        """Rows of fixed size: as many as are there by one iter_unpack, a fifth faster than one by one."""
        self.scopes.append({})
        group = _Group()
        for member in item.subcons:
            group.add(_bare(member), self.local(member.name) if self.wanted(member.name) else None)
        size = group.unpack.size
        self.line("left = n")
        self.open("while left:")
        self.wait(str(size))
        self.line(f"n = min(left, (end - pos) // {size})")
        self.line("left -= n")
        iterate = self.constant(group.unpack.iter_unpack)
        self.open(f"for {', '.join(group.names)}, in {iterate}(buffer[pos:pos + n * {size}]):")
        self.line(f"{ENTRY_AT} = pos")
        self.line(f"pos += {size}")
        self.emit_row()
        self.close()
        self.close()
        self.scopes.pop()

    def fixed_array(self, codec: Sized, name: str) -> None:
        if not _is_fixed(codec.subcon):
            raise TypeError(f"{name}: an array outside the rows must have items of fixed size")
        item = struct.Struct(">" + "".join(_bare(member).fmtstr[1] for member in codec.subcon.subcons))
        if not self.wanted(name):
            self.skip(f"n * {item.size}")
            return
        local = self.local(name)
        self.line(f"{local} = None")
        self.open("if n >= 0:")
        self.wait(f"n * {item.size}")
        iterate = self.constant(item.iter_unpack)
        self.line(f"{local} = list({iterate}(buffer[pos:pos + n * {item.size}]))")
        self.line(f"pos += n * {item.size}")
        self.close()

    def emit_row(self) -> None:
        known = {name: repr(value) for name, value in self.rows.absent.items()} | _POSITIONS
        for scope in self.scopes:
            known |= scope
        values = (known[name] for name in self.rows.columns)
        self.line(f"emit(new(Row, ({', '.join(values)},)))")

    def skip(self, size: str) -> None:
        self.open("if n > 0:")
        self.line(f"pos += {size}")
        self.close()

    def wait(self, size: str) -> None:
        self.open(f"while end - pos < {size}:")
        self.open(f"if stop - pos < {size}:")
        self.fail("the message ends too early")
        self.close()
        self.line("was = pos")
        self.line("pos, end = yield pos")
        self.line("stop += pos - was")
        if self.in_entry:
            self.line("entry_at += pos - was")
        self.clamp()
        self.close()

    def clamp(self) -> None:
        self.open("if end > stop:")
        self.line("end = stop")
        self.close()


def _is_fixed(item: Struct) -> bool:
    return all(isinstance(_bare(member), FormatField) for member in item.subcons)


def _bare(codec: Construct) -> Construct:
    return codec.subcon if isinstance(codec, Renamed) else codec
