"""Damaged and hostile bodies: a walker says what Construct says, or refuses; whole or in pieces, and nothing else."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.errors import ProtocolError
from protocol.fetch.tables import request_layout
from protocol.fetch.walker import request_walker, walk_whole

from ..frames import FETCHES, Golden, sent_in
from ..test_kafka_json import edited, edits
from .test_walker import requests_by_construct, responses_by_construct

# What a walker steps over it measures, but does not read: a tagged field's value, and the one text no row needs.
NOT_LOOKED_AT = ("tag ", "rack_id: not UTF-8")


def by_construct(case: Golden, body: bytes) -> list[tuple[object, ...]] | ProtocolError:
    try:
        return (requests_by_construct if case.kind == "request" else responses_by_construct)(case.version, body)
    except ProtocolError as error:
        return error


def by_walker(case: Golden, body: bytes) -> list[tuple[object, ...]] | ProtocolError:
    try:
        rows, _ = walk_whole(case.walk, body, 0, len(body))
    except ProtocolError as error:
        return error
    return [row[:5] for row in rows] if case.kind == "request" else [(*row[:6], *row[7:]) for row in rows]


@settings(max_examples=3000)
@given(st.sampled_from(FETCHES), edits)
def test_walkers_refuse_what_construct_refuses(case: Golden, changes: list[tuple[str, int, int]]) -> None:
    body = edited(case.body, changes)
    expected, found = by_construct(case, body), by_walker(case, body)
    if not isinstance(expected, ProtocolError):
        assert found == expected
    elif not isinstance(found, ProtocolError):
        assert any(reason in str(expected) for reason in NOT_LOOKED_AT)


@settings(max_examples=600)
@given(st.sampled_from(FETCHES), edits, st.lists(st.integers(1, 60), min_size=1, max_size=5))
def test_damaged_bodies_in_pieces(case: Golden, changes: list[tuple[str, int, int]], sizes: list[int]) -> None:
    body = edited(case.body, changes)
    whole = by_walker(case, body)
    try:
        *rows, (end,) = sent_in(itertools.cycle(sizes), case.walk, body, places=itertools.cycle([0, 70, 5]))
    except ProtocolError:
        assert isinstance(whole, ProtocolError)
        return
    if end == len(body):
        assert [row[:5] if case.kind == "request" else (*row[:6], *row[7:]) for row in rows] == whole
    else:
        assert isinstance(whole, ProtocolError)


@pytest.mark.parametrize("version", range(7, 19))
def test_a_million_forgotten_partitions_are_not_believed(version: int) -> None:
    empty = {"replica_id": 1, "max_wait_ms": 1, "min_bytes": 1, "max_bytes": 1, "isolation_level": 0, "topics": []}
    session = {"session_id": 1, "session_epoch": 1, "forgotten_topics_data": [], "rack_id": ""}
    body = request_layout(version).build({**empty, **session, "_tagged_fields": []})
    count = b"\0\0\0\0" if version < 12 else b"\1"
    at = body.rindex(count, 0, len(body) - (2 if version >= 11 else 0)) if version < 12 else len(body) - 3
    hostile = body[:at] + (b"\x7f\xff\xff\xff" if version < 12 else b"\xff\xff\xff\xff\x0f") + body[at + len(count) :]
    with pytest.raises(ProtocolError, match="forgotten_topics_data"):
        walk_whole(request_walker(version), hostile, 0, len(hostile))
