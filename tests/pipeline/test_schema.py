"""Spark's types are those of the journal's schema."""

from __future__ import annotations

from journal_schema import COMMON, KINDS, Kind, all_fields
from pipeline.schema import EVENTS, LINE, TRAFFIC, TYPES


def test_a_line_has_every_field_with_its_type() -> None:
    assert {field.name: field.dataType for field in LINE} == {f.name: TYPES[f.type] for f in all_fields()}


def test_the_tables_lose_no_field_of_their_lines() -> None:
    common = {field.name for field in COMMON}
    assert {f.name for f in KINDS[Kind.TRAFFIC]} | common - {"kind"} <= set(TRAFFIC.names)
    of_events = {f.name for kind, fields in KINDS.items() if kind is not Kind.TRAFFIC for f in fields}
    assert of_events | common <= set(EVENTS.names)
