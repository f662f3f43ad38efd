"""The schema is consistent with itself, and with docs/journal.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from journal_schema import COMMON, KINDS, TRAFFIC_IDENTITY, Field, FieldType, Kind, all_fields

DOCUMENT = (Path(__file__).parents[2] / "docs" / "journal.md").read_text("utf-8")
ROW = re.compile(r"^\| `(\w+)` \| (\w+) \| (optional)? ?\| (.*) \|$", re.MULTILINE)


def documented(heading: str) -> list[Field]:
    """The rows of the table below `heading`."""
    section = DOCUMENT.partition(f"### {heading}\n")[2].partition("\n### ")[0]
    return [
        Field(name, FieldType(kind), meaning, required=not optional)
        for name, kind, optional, meaning in ROW.findall(section)
    ]


@pytest.mark.parametrize(
    ("heading", "fields"), [("Every line", COMMON), *((f"`{kind}`", fields) for kind, fields in KINDS.items())]
)
def test_the_document_says_what_is_declared(heading: str, fields: tuple[Field, ...]) -> None:
    assert f"### {heading}\n" in DOCUMENT
    assert documented(heading) == [field._replace(since=1) for field in fields]


def test_the_document_names_no_kind_that_is_not_there() -> None:
    assert re.findall(r"^### `(\w+)`$", DOCUMENT, re.MULTILINE) == list(KINDS)


def test_a_name_has_one_type_in_all_kinds() -> None:
    types: dict[str, set[FieldType]] = {}
    for field in [*COMMON, *(field for fields in KINDS.values() for field in fields)]:
        types.setdefault(field.name, set()).add(field.type)
    assert {name: found for name, found in types.items() if len(found) > 1} == {}


def test_no_kind_redeclares_a_common_field() -> None:
    assert {f.name for fields in KINDS.values() for f in fields} & {f.name for f in COMMON} == set()


def test_all_fields_are_there_once_and_common_ones_first() -> None:
    names = [field.name for field in all_fields()]
    assert len(names) == len(set(names))
    assert tuple(names[: len(COMMON)]) == tuple(field.name for field in COMMON)
    assert [field.name for field in all_fields() if field.required] == [field.name for field in COMMON]


def test_what_identifies_a_traffic_line_is_required_of_it() -> None:
    required = {field.name for field in (*COMMON, *KINDS[Kind.TRAFFIC]) if field.required}
    assert set(TRAFFIC_IDENTITY) <= required
