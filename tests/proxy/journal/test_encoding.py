from __future__ import annotations

import json

import pytest

from journal_schema import COMMON, KINDS, FieldType, Kind
from proxy.journal.encoding import Origin, encode_event, encode_traffic, event
from proxy.journal.ledger import Position, Traffic, TrafficKey

ORIGIN = Origin(101, "20261121T082503Z-ab12")
KEY = TrafficKey("leader", "102", "order\ns", 0, throttled=True, in_sync=False)
VALUES = {FieldType.INTEGER: 1, FieldType.NUMBER: 1.5, FieldType.BOOLEAN: True, FieldType.STRING: "x"}


def test_traffic_has_the_fields_of_the_schema_in_its_order() -> None:
    lines = [Traffic(tick, KEY, 10, 28, 1, 2, Position(5, 9, 0)) for tick in (0, 3)]
    encoded = encode_traffic(ORIGIN, lines, 1_700_000_000)
    assert encoded.count(b"\n") == 2
    first, second = map(json.loads, encoded.splitlines())
    assert list(first) == [field.name for field in (*COMMON, *KINDS[Kind.TRAFFIC])]
    assert (first["time"], second["time"]) == (1_700_000_000, 1_700_000_003)
    assert (first["v"], first["kind"], first["broker"], first["run"]) == (1, "traffic", *ORIGIN)
    assert (first["topic"], first["throttled"], first["in_sync"]) == ("order\ns", True, False)
    assert (first["record_bytes"], first["wire_bytes"], first["fetches"], first["omitted"]) == (10, 28, 1, 2)
    assert (first["fetch_offset"], first["high_watermark"], first["log_start_offset"]) == (5, 9, 0)


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind is not Kind.TRAFFIC])
def test_every_event_can_be_said_with_the_types_of_the_schema(kind: Kind) -> None:
    values = {field.name: VALUES[field.type] for field in KINDS[kind]}
    line = json.loads(encode_event(ORIGIN, event(kind, 7, **values), 1_700_000_000))
    assert line == {
        "v": 1, "kind": kind, "time": 1_700_000_000, "broker": 101, "run": ORIGIN.run, "tick": 7, **values
    }  # fmt: skip


def test_what_is_optional_may_be_left_out() -> None:
    assert b'"error":null' in encode_event(ORIGIN, event(Kind.RELOAD, 0, outcome="changed"), 0)


@pytest.mark.parametrize(
    ("values", "message"), [({}, r"missing \['lines'\]"), ({"lines": 1, "x": 1}, r"unknown \['x'\]")]
)
def test_a_wrong_event_is_an_error_here(values: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        event(Kind.DROPPED, 0, **values)
