"""Fetch requests: what Kafka wrote is what is read, and what is rebuilt differs only where it was told to."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import ProtocolError
from protocol.fetch_request import (
    MAX_INT32,
    FetchRequest,
    parse_fetch_request,
    peek_replica_id,
    rebuild_fetch_request,
)
from protocol.headers import RequestHead, peek_request
from protocol.kafka_json import request_json

from .frames import HEADS, REQUESTS, Golden, named, request_frame, request_values, versions

each_request = pytest.mark.parametrize("case", REQUESTS, ids=lambda case: case.name)
REBUILT_AS_IT_WAS = [each for each in REQUESTS if "empty-topic" not in each.name]


def unchanged(request: FetchRequest) -> list[Any]:
    return [(entry, entry.partition_max_bytes) for entry in request.entries]


@each_request
def test_fields_are_what_kafka_wrote(case: Golden) -> None:
    request, body = parse_fetch_request(case.frame), case.said["body"]
    assert request.replica_id == body["replicaId"]
    assert request.max_wait_ms == body["maxWaitMs"]
    assert request.min_bytes == body["minBytes"]
    assert request.max_bytes == body.get("maxBytes", MAX_INT32)
    assert [entry[:5] for entry in request.entries] == [
        (topic["topic"], each["partition"], -1, each["fetchOffset"], each["partitionMaxBytes"])
        for topic in body["topics"]
        for each in topic["partitions"]
    ]


@each_request
def test_a_head_that_was_peeked_already_is_taken(case: Golden) -> None:
    head = peek_request(case.frame, 0, len(case.frame))
    assert parse_fetch_request(memoryview(case.frame), head) == parse_fetch_request(case.frame)


@pytest.mark.parametrize("case", REBUILT_AS_IT_WAS, ids=lambda case: case.name)
def test_rebuilt_with_everything_it_is_the_same(case: Golden) -> None:
    request = parse_fetch_request(case.frame)
    rebuilt = rebuild_fetch_request(case.frame, request, unchanged(request), max_wait_ms=request.max_wait_ms)
    assert rebuilt == case.frame


def test_empty_and_repeated_topics_are_gathered() -> None:
    case = named("fetch-request-v3-replica-empty-topic")
    request = parse_fetch_request(case.frame)
    rebuilt = rebuild_fetch_request(case.frame, request, unchanged(request), max_wait_ms=500)
    (topic,) = request_json(rebuilt)["body"]["topics"]
    assert [each["partition"] for each in topic["partitions"]] == [1, 0]


@given(versions, request_values, st.data())
def test_rebuilt_it_asks_for_what_it_was_told(version: int, values: dict[str, Any], data: st.DataObject) -> None:
    frame = request_frame(version, values)
    request = parse_fetch_request(frame)
    some = data.draw(st.permutations(request.entries))[: data.draw(st.integers(0, 6))]
    limits = data.draw(st.lists(st.integers(1, 2**31 - 1), min_size=len(some), max_size=len(some)))
    granted = list(zip(some, limits, strict=True))
    again = parse_fetch_request(rebuild_fetch_request(frame, request, granted, max_wait_ms=3))
    assert [entry[:5] for entry in again.entries] == [(*entry[:4], limit) for entry, limit in granted]
    assert again.max_wait_ms == 3
    for name in ("head", "replica_id", "min_bytes", "max_bytes"):
        assert getattr(again, name) == getattr(request, name)


@given(versions, request_values)
def test_only_the_limit_of_an_entry_changes(version: int, values: dict[str, Any]) -> None:
    frame = request_frame(version, values)
    request = parse_fetch_request(frame)
    before = request_json(frame)
    granted = [(entry, 1) for entry in request.entries]
    after = request_json(rebuild_fetch_request(frame, request, granted, max_wait_ms=request.max_wait_ms))
    entries_before, entries_after = (
        [(topic["topic"], each) for topic in said["body"].pop("topics") for each in topic["partitions"]]
        for said in (before, after)
    )
    assert [(topic, each | {"partitionMaxBytes": 1}) for topic, each in entries_before] == entries_after
    assert before == after


def test_nothing_granted_asks_for_nothing() -> None:
    case = named("fetch-request-v3-replica-many")
    request = parse_fetch_request(case.frame)
    rebuilt = parse_fetch_request(rebuild_fetch_request(case.frame, request, [], max_wait_ms=0))
    assert (rebuilt.entries, rebuilt.max_wait_ms) == ([], 0)


@each_request
def test_trailing_and_missing_bytes_are_errors(case: Golden) -> None:
    with pytest.raises(ProtocolError):
        parse_fetch_request(case.frame + b"\0")
    for size in range(len(case.frame)):
        with pytest.raises(ProtocolError):
            parse_fetch_request(case.frame[:size])


@pytest.mark.parametrize("case", HEADS, ids=lambda case: case.name)
def test_other_requests_are_errors(case: Golden) -> None:
    with pytest.raises(ProtocolError, match=r"not Fetch|not supported"):
        parse_fetch_request(case.frame)


@each_request
def test_replica_id_at_a_glance(case: Golden) -> None:
    head = peek_request(case.frame, 0, len(case.frame))
    assert head is not None
    assert peek_replica_id(head, case.frame) == case.said["body"]["replicaId"]
    assert peek_replica_id(head, case.frame, head.body_at + 4) == case.said["body"]["replicaId"]
    assert peek_replica_id(head, case.frame, head.body_at + 3) is None
    assert peek_replica_id(head, case.frame[: head.body_at + 3]) is None


@pytest.mark.parametrize(("api_key", "version", "replica_id"), [(1, 14, 5), (1, 15, None), (2, 0, None)])
def test_replica_id_is_a_field_of_fetch_up_to_v14(api_key: int, version: int, replica_id: int | None) -> None:
    head = RequestHead(api_key, version, 1, None, 0)
    assert peek_replica_id(head, struct.pack(">i", 5)) == replica_id
