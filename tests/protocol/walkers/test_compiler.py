"""What walkers can be made of, on made-up messages; what they cannot is refused when they are made."""

from __future__ import annotations

import contextlib
from typing import NamedTuple

import pytest
from construct import Construct, Int8sb, Int16sb, Int32sb, Struct

from protocol.errors import ProtocolError
from protocol.fetch.tables import response_layout
from protocol.fetch.walker import RESPONSE_ROWS, walk_whole
from protocol.walkers.compiler import compile_walker, walker_source
from protocol.walkers.rows import Rows
from protocol.wire.framing import write_uvarint
from protocol.wire.primitives import UVARINT, KArray, KRecords, KString, TaggedFields

from ..frames import named


class Row(NamedTuple):
    topic: str
    number: int
    name: str
    missing: int
    entry_at: int
    entry_end: int


PATH = ("outers", "inners")
ROWS = Rows(Row, PATH, ("topic", "number", "name", "missing", "entry_at", "entry_end"), {"missing": -7})


def message(*inner: Construct) -> Struct:
    outers = Struct("outer" / KString(), "inners" / KArray(Struct(*inner)))
    return Struct("head" / Int8sb, "outers" / KArray(outers), "unit" / KArray(Int16sb), "tail" / Int16sb)


def fixed(*names: str) -> Struct:
    return Struct(*(name / Int16sb for name in names))


VARIABLE = message("number" / Int16sb, "name" / KString(), "spare" / KString(nullable=True), "end" / Int8sb)


def test_rows_of_variable_size_without_records() -> None:
    inners = [
        {"number": 1, "name": "one", "spare": "..", "end": 0},
        {"number": 2, "name": "", "spare": None, "end": 0},
    ]
    outers = [{"outer": "o", "inners": inners}, {"outer": "p", "inners": []}]
    data = VARIABLE.build({"head": 9, "outers": outers, "unit": [1, 2], "tail": 5})
    walk = compile_walker(VARIABLE, ROWS._replace(head=("unit", "tail")))
    rows, head = walk_whole(walk, data, 0, len(data))
    assert rows == [Row("o", 1, "one", -7, 12, 12 + 12), Row("o", 2, "", -7, 24, 24 + 7)]
    ends = {"outers_end": 38, "unit_end": 46, "tail_end": 48}
    assert head == {"head": 9, "unit": [1, 2], "tail": 5} | ends
    assert walk_whole(compile_walker(VARIABLE, ROWS), data, 0, len(data)) == (rows, {"head": 9} | ends)


def test_an_entry_of_variable_size_that_moves() -> None:
    inners = [{"number": 1, "name": "longer than what there is", "spare": "..", "end": 0}]
    data = VARIABLE.build({"head": 9, "outers": [{"outer": "o", "inners": inners}], "unit": [], "tail": 5})
    rows: list[Row] = []
    buffer = bytearray(data)
    steps = compile_walker(VARIABLE, ROWS)(buffer, len(data), rows.append, {})
    next(steps)
    at = steps.send((0, 25))
    assert at == 12 + 4, "number and the length of the name are done with"
    buffer[:] = data[at:]
    with pytest.raises(StopIteration):
        steps.send((0, len(buffer)))
    (row,) = rows
    assert row.entry_at == -4
    assert row.entry_end - row.entry_at == 2 + 2 + 25 + 2 + 2 + 1


COMPACT = Struct("name" / KString(UVARINT), "inners" / KArray(fixed("a"), UVARINT), "rest" / TaggedFields())
RECORDS = "data" / KRecords(Int32sb)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (Struct("s" / KString(), "outers" / KArray(COMPACT)), "s: .*before outers"),
        (Struct("outers" / KArray(Struct(*COMPACT.subcons, "end" / Int8sb))), "outers: .*alone"),
        (message(RECORDS, "end" / Int8sb), "end: only tagged fields may follow records"),
    ],
)
def test_what_walkers_do_not_take(body: Struct, why: str) -> None:
    with pytest.raises(TypeError, match=why):
        compile_walker(body, ROWS)


class Number(NamedTuple):
    topic: str
    a: int


@pytest.mark.parametrize("name", ["", "n" * 126, "n" * 127, "ü" * 200])
@pytest.mark.parametrize("count", [0, 1, 2, 126, 127, 300])
def test_compact_lengths_and_counts_of_any_width(name: str, count: int) -> None:
    body = Struct("outers" / KArray(COMPACT, UVARINT))
    block = {"name": name, "inners": [{"a": n} for n in range(count)], "rest": []}
    data = body.build({"outers": [block] * 150})
    rows = [Number(name, n) for n in range(count)] * 150
    assert walk_whole(compile_walker(body, Rows(Number, PATH, ("topic", "a"))), data, 0, len(data))[0] == rows


@pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 16382, 16383, 2**21 - 2, 2**21 - 1, 2**21, 2**28 - 1, 2**28])
def test_compact_records_of_any_width(size: int) -> None:
    """Two at once, whose bytes are not there: lengths of one byte to five."""
    inner = Struct("data" / KRecords(UVARINT), "rest" / TaggedFields())
    body = Struct("outers" / KArray(Struct("name" / KString(UVARINT), "inners" / KArray(inner, UVARINT)), UVARINT))
    start = bytes([2, 1, 2]) + write_uvarint(size + 1)
    buffer = start + bytes(300)
    emitted: list[tuple[int, int]] = []
    rows = Rows(tuple, PATH, ("records_at", "records_size"))
    steps = compile_walker(body, rows)(buffer, len(start) + size + 1, emitted.append, {})
    next(steps)
    with contextlib.suppress(StopIteration):
        steps.send((0, min(len(start) + size + 1, len(buffer))))
    assert emitted == [(len(start), size)]


def test_a_varint_above_32_bits_is_refused() -> None:
    inner = Struct("data" / KRecords(UVARINT), "rest" / TaggedFields())
    body = Struct("outers" / KArray(Struct("name" / KString(UVARINT), "inners" / KArray(inner, UVARINT)), UVARINT))
    walk = compile_walker(body, Rows(tuple, PATH, ("records_at", "records_size")))
    for last in (0x10, 0x7F, 0xFF):
        data = bytes([2, 1, 2, 0xFF, 0xFF, 0xFF, 0xFF, last]) + bytes(300)
        with pytest.raises(ProtocolError, match=r"32 bits|five bytes"):
            walk_whole(walk, data, 0, len(data))


class Wide(NamedTuple):
    pairs: list[tuple[int, int]] | None
    records_at: int
    records_size: int


def test_arrays_that_are_wanted_and_blocks() -> None:
    inner = Struct("pairs" / KArray(fixed("a", "b"), nullable=True), "data" / KRecords(Int32sb))
    body = Struct("outers" / KArray(Struct("outer" / KString(), "inners" / KArray(inner))))
    rows = Rows(Wide, PATH, ("pairs", "records_at", "records_size"), block=True)
    inners = [
        {"pairs": [{"a": 1, "b": 2}, {"a": 3, "b": 4}], "data": b"xyz"},
        {"pairs": None, "data": None},
        {"pairs": [], "data": b""},
    ]
    data = body.build({"outers": [{"outer": "o", "inners": inners}, {"outer": "p", "inners": []}]})
    emitted, _ = walk_whole(compile_walker(body, rows), data, 0, len(data))
    assert emitted == [
        ("o", 3),
        Wide([(1, 2), (3, 4)], 27, 3),
        Wide(None, 38, -1),
        Wide([], 46, 0),
        ("p", 0),
    ]


class Narrow(NamedTuple):
    topic: str
    partition: int
    entry_end: int


def test_records_that_nobody_asked_for_are_stepped_over() -> None:
    rows = Rows(Narrow, ("responses", "partitions"), ("topic", "partition_index", "entry_end"))
    case = named("fetch-response-v3-two")
    body = response_layout(3)
    emitted, _ = walk_whole(compile_walker(body, rows), case.body, 0, len(case.body))
    assert [row[:2] for row in emitted] == [("orders", 0), ("orders", 7)]
    assert emitted[-1].entry_end == len(case.body)


def test_the_source_is_there_to_be_read() -> None:
    source = walker_source(response_layout(3), RESPONSE_ROWS)
    assert source.startswith("def walk(buffer, limit, emit, head):\n")
    compile(source, "<source>", "exec")


def test_a_body_that_is_all_there_is_walked_without_a_generator() -> None:
    source = walker_source(response_layout(3), RESPONSE_ROWS, at_once=True)
    assert source.startswith("def walk(buffer, pos, end, emit, head):\n")
    assert "yield" not in source
