from __future__ import annotations

import json

import pytest

from journal_schema import COMMON, KINDS, REPLICAS, SECONDS, FieldType, Kind
from proxy.journal.encoding import Origin, encode_event, encode_traffic, event, shape
from proxy.ledger.blocks import LinkKey, Position, ReplicaTraffic, Seconds, Traffic

ORIGIN = Origin(101, "20261121T082503Z-ab12")
LINK = LinkKey("leader", "102", throttled=True, in_sync=False)
VALUES = {FieldType.INTEGER: 1, FieldType.NUMBER: 1.5, FieldType.BOOLEAN: True, FieldType.STRING: "x"}


def test_traffic_has_the_fields_of_the_schema_in_its_order() -> None:
    replicas = [
        ReplicaTraffic("order\ns", 0, [True, True, False], [10, 0, 0], 18, 2, 1, Position(5, 8, 0), Position(7, 9, 0)),
        ReplicaTraffic("order\ns", 3, [False, True, True], [0, 4, 8], 36, 2, 0, Position(1, 2, 0), Position(3, 4, 0)),
    ]
    seconds = Seconds([10, 4, 8], [28, 22, 26], [1, 2, 1], [0, 1, 0])
    encoded = b"".join(encode_traffic(ORIGIN, Traffic(tick, LINK, seconds, replicas), 1_700_000_000) for tick in (0, 3))
    assert encoded.count(b"\n") == 2
    first, second = map(json.loads, encoded.splitlines())
    assert list(first) == [field.name for field in (*COMMON, *KINDS[Kind.TRAFFIC])]
    assert (first["time"], second["time"]) == (1_700_000_000, 1_700_000_003)
    assert (first["v"], first["kind"], first["broker"], first["run"]) == (2, "traffic", *ORIGIN)
    assert (first["role"], first["peer"], first["throttled"], first["in_sync"]) == LINK
    assert [first[field.name] for field in SECONDS] == list(seconds)
    assert [first[field.name] for field in REPLICAS] == [
        ["order\ns", "order\ns"], [0, 3], ["[$#", "#@["], [10, 12], [18, 36], [2, 2], [1, 0],
        [5, 1], [7, 3], [8, 2], [9, 4], [0, 0],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("said", "sizes", "expected"),
    [
        ([False, True], [0, 0], "#$"),
        ([True, True, True], [1, 10**9, 500_000_000], "%[@"),  # 55/2 parts, rounded to even
        ([True], [7], "["),
    ],
)
def test_a_shape_is_a_character_per_second(said: list[bool], sizes: list[int], expected: str) -> None:
    assert shape(said, sizes) == expected


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind is not Kind.TRAFFIC])
def test_every_event_can_be_said_with_the_types_of_the_schema(kind: Kind) -> None:
    values = {field.name: VALUES[field.type] for field in KINDS[kind]}
    line = json.loads(encode_event(ORIGIN, event(kind, 7, **values), 1_700_000_000))
    assert line == {
        "v": 2, "kind": kind, "time": 1_700_000_000, "broker": 101, "run": ORIGIN.run, "tick": 7, **values
    }  # fmt: skip


def test_what_is_optional_may_be_left_out() -> None:
    assert b'"error":null' in encode_event(ORIGIN, event(Kind.RELOAD, 0, outcome="changed"), 0)


@pytest.mark.parametrize(
    ("values", "message"), [({}, r"missing \['lines'\]"), ({"lines": 1, "x": 1}, r"unknown \['x'\]")]
)
def test_a_wrong_event_is_an_error_here(values: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        event(Kind.DROPPED, 0, **values)
