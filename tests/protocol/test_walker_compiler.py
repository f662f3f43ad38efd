"""What walkers can be made of, on made-up messages; what they cannot is refused when they are made."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from construct import Construct, Int8sb, Int16sb, Int32sb, Struct

from protocol.fetch import response_layout
from protocol.primitives import TAGGED_FIELDS, UVARINT, KArray, KRecords, KString
from protocol.walker import RESPONSE_ROWS, walk_whole
from protocol.walker_compiler import Rows, compile_walker, walker_source

from .frames import named


class Row(NamedTuple):
    outer: str
    number: int
    name: str
    missing: int
    entry_at: int
    entry_end: int


PATH = ("outers", "inners")
ROWS = Rows(Row, PATH, ("outer", "number", "name", "missing", "entry_at", "entry_end"), {"missing": -7})


def message(*inner: Construct) -> Struct:
    outers = Struct("outer" / KString(), "inners" / KArray(Struct(*inner)), "note" / Int8sb)
    return Struct("head" / Int8sb, "outers" / KArray(outers), "unit" / KArray(Int16sb), "tail" / Int16sb)


def fixed(*names: str) -> Struct:
    return Struct(*(name / Int16sb for name in names))


VARIABLE = message("number" / Int16sb, "name" / KString(), "spare" / KString(), "end" / Int8sb)


def test_rows_of_variable_size_without_records() -> None:
    body = Struct(*VARIABLE.subcons[:2], "tail" / Int16sb)
    inners = [
        {"number": 1, "name": "one", "spare": "..", "end": 0},
        {"number": 2, "name": "", "spare": "", "end": 0},
    ]
    outers = [{"outer": "o", "inners": inners, "note": 3}, {"outer": "p", "inners": [], "note": 3}]
    data = body.build({"head": 9, "outers": outers, "tail": 5})
    rows, head = walk_whole(compile_walker(body, ROWS), data, 0, len(data))
    assert rows == [Row("o", 1, "one", -7, 12, 12 + 12), Row("o", 2, "", -7, 24, 24 + 7)]
    assert head == {"head": 9, "tail": 5}


def test_an_entry_of_variable_size_that_moves() -> None:
    body = Struct(*VARIABLE.subcons[:2], "tail" / Int16sb)
    inners = [{"number": 1, "name": "longer than what there is", "spare": "..", "end": 0}]
    data = body.build({"head": 9, "outers": [{"outer": "o", "inners": inners, "note": 3}], "tail": 5})
    rows: list[Row] = []
    buffer = bytearray(data)
    steps = compile_walker(body, ROWS)(buffer, len(data), rows.append, {})
    next(steps)
    at = steps.send((0, 25))
    assert at == 12 + 4, "number and the length of the name are done with"
    buffer[:] = data[at:]
    with pytest.raises(StopIteration):
        steps.send((0, len(buffer)))
    (row,) = rows
    assert row.entry_at == -4
    assert row.entry_end - row.entry_at == 2 + 2 + 25 + 2 + 2 + 1


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (message("number" / Int16sb, "name" / KString(UVARINT)), "name: .*encoding"),
        (message("number" / Int16sb, "rest" / TAGGED_FIELDS), "rest: .*TaggedFields"),
        (message("number" / Int16sb, "name" / KString(nullable=True)), "nullable strings"),
        (message("number" / Int16sb, "names" / KArray(Struct("n" / KString()))), "names: .*fixed size"),
    ],
)
def test_what_walkers_do_not_take(body: Struct, why: str) -> None:
    with pytest.raises(TypeError, match=why):
        compile_walker(body, ROWS)


class Wide(NamedTuple):
    pairs: list[tuple[int, int]] | None
    records_at: int
    records_size: int


def test_arrays_that_are_wanted_and_blocks() -> None:
    inner = Struct("pairs" / KArray(fixed("a", "b"), nullable=True), "data" / KRecords(Int32sb))
    body = Struct("outers" / KArray(Struct("outer" / KString(), "inners" / KArray(inner))))
    rows = Rows(Wide, PATH, ("pairs", "records_at", "records_size"), block=tuple)
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
