"""Sidecar and pipeline of different releases: each reads what the other's time has written, as long as the schema's
version is the same. A line of another version is set aside with a sentence (tests/pipeline/journals/test_ingest.py).

fields_0_1_0.jsonl has the fields of release 0.1.0: a line with its schema's version, then one for each kind; name ->
type, and whether it is required. The first kind, without a name, is what every line has.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from journal_schema import COMMON, KINDS, VERSION, Kind

FIRST, *ROWS = [json.loads(line) for line in Path(__file__).with_name("fields_0_1_0.jsonl").read_text().splitlines()]
Fields = dict[str, tuple[str, bool]]
THEN: dict[str, Fields] = {
    row["kind"]: {name: (kind, needed) for name, (kind, needed) in row["fields"].items()} for row in ROWS
}
NOW: dict[str, Fields] = {
    kind: {field.name: (field.type.value, field.required) for field in fields}
    for kind, fields in {"": COMMON, **{str(kind): fields for kind, fields in KINDS.items()}}.items()
}


def unread(writer: Fields, reader: Fields) -> list[str]:
    """What a reader misses in a writer's lines: fields that it wants and that may be missing, and those of another
    type. Fields that it does not know it passes over."""
    missing = [name for name, (_, needed) in reader.items() if needed and not writer.get(name, ("", False))[1]]
    differ = [name for name in writer.keys() & reader.keys() if writer[name][0] != reader[name][0]]
    return missing + differ


@pytest.mark.parametrize("kind", THEN)
def test_lines_of_0_1_0_are_read_and_0_1_0_reads_ours(kind: str) -> None:
    assert FIRST["version"] == VERSION, "lines of another version are refused"
    assert unread(THEN[kind], NOW[kind]) == []
    assert unread(NOW[kind], THEN[kind]) == []


def test_a_difference_would_be_noticed() -> None:
    assert unread({"a": ("integer", False)}, {"a": ("integer", True)}) == ["a"]
    assert unread({"a": ("integer", True)}, {"a": ("number", True)}) == ["a"]
    assert unread({"a": ("integer", True), "more": ("string", True)}, {"a": ("integer", True)}) == []


def test_a_kind_that_0_1_0_does_not_know_is_set_aside_there() -> None:
    """By the sentence "unknown kind": so a new one says nothing that an older pipeline's answers rest on."""
    assert {str(kind) for kind in Kind} - THEN.keys() == set()
