"""Spark's types are those of the journal's schema."""

from __future__ import annotations

from journal_schema import COMMON, KINDS, REPLICAS, SECONDS, TRAFFIC_IDENTITY, Kind, all_fields
from pipeline.tables.schema import EVENTS, LINE, SECOND_ROWS, TRAFFIC, TYPES


def test_a_line_has_every_field_with_its_type() -> None:
    assert {field.name: field.dataType for field in LINE} == {f.name: TYPES[f.type] for f in all_fields()}


def test_the_tables_lose_no_field_of_their_lines() -> None:
    common = {field.name for field in COMMON} - {"kind"}
    plural = {"topics": "topic", "partitions": "partition", "header_bytes": "wire_bytes"}
    of_replicas = {plural.get(field.name, field.name.removesuffix("_before")) for field in REPLICAS} - {"shapes"}
    of_lines = common | {"role", "peer", "throttled", "in_sync"}
    assert of_replicas | of_lines <= set(TRAFFIC.names)
    assert {field.name.removeprefix("second_") for field in SECONDS} | of_lines <= set(SECOND_ROWS.names)
    of_events = {f.name for kind, fields in KINDS.items() if kind is not Kind.TRAFFIC for f in fields}
    assert of_events | common | {"kind"} <= set(EVENTS.names)


def test_rows_know_their_line() -> None:
    of_its_line = {"line_tick" if name == "tick" else name for name in TRAFFIC_IDENTITY}
    assert of_its_line <= set(TRAFFIC.names) & set(SECOND_ROWS.names)
