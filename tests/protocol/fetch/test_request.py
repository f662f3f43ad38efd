"""Fetch requests: what Kafka wrote is what is read, and what is rebuilt differs only where it was told to."""

from __future__ import annotations

import base64
import struct
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import ProtocolError
from protocol.fetch.request import (
    MAX_INT32,
    Asked,
    FetchRequest,
    FetchRequestBuilder,
    FetchRequestParser,
    entry_bytes,
    parse_fetch_request,
    peek_replica_id,
)
from protocol.fetch.tables import request_layout
from protocol.fetch.topic_blocks import NO_TAGS
from protocol.kafka_json import request_json
from protocol.wire.headers import RequestHead, peek_request
from protocol.wire.layout import item_struct, parse_whole

from ..frames import HEADS, REQUESTS, Golden, int32, named, request_frame, request_frames

if TYPE_CHECKING:
    from protocol.fetch.walker import RequestEntry

each_request = pytest.mark.parametrize("case", REQUESTS, ids=lambda case: case.name)
REBUILT_AS_IT_WAS = [each for each in REQUESTS if "empty-topic" not in each.name]


def unchanged(request: FetchRequest) -> list[Any]:
    return [(entry, entry.partition_max_bytes) for entry in request.entries]


def in_two(items: list[Any]) -> tuple[list[Any], list[Any]]:
    return items[: len(items) // 2], items[len(items) // 2 :]


def rebuilt_with(frame: bytes, granted: list[tuple[RequestEntry, int]], *, max_wait_ms: int) -> bytes:
    """Added in two parts, which makes no difference."""
    request = parse_fetch_request(frame)
    builder = FetchRequestBuilder(frame, request)
    for part in in_two(granted):
        builder.add_entries(part)
    return builder.build(max_wait_ms=max_wait_ms, min_bytes=request.min_bytes)


def session_request(
    frame: bytes, asked: list[Asked], *, forgotten: list[Any], session_id: int, session_epoch: int, max_wait_ms: int
) -> bytes:
    request = parse_fetch_request(frame)
    builder = FetchRequestBuilder(frame, request)
    for part in in_two(asked):
        builder.add_asked(part)
    for keys in in_two(forgotten):
        builder.add_forgotten(keys)
    session = (session_id, session_epoch)
    return builder.build(max_wait_ms=max_wait_ms, min_bytes=request.min_bytes, session=session)


def said_replica_id(case: Golden) -> int:
    body = case.said["body"]
    return int(body["replicaId"] if case.version < 15 else body.get("replicaState", {}).get("replicaId", -1))


def said_topic(topic: dict[str, Any]) -> str | bytes:
    return base64.urlsafe_b64decode(topic["topicId"] + "==") if "topicId" in topic else str(topic["topic"])


@each_request
def test_fields_are_what_kafka_wrote(case: Golden) -> None:
    request, body = parse_fetch_request(case.frame), case.said["body"]
    assert request.replica_id == said_replica_id(case)
    assert request.max_wait_ms == body["maxWaitMs"]
    assert request.min_bytes == body["minBytes"]
    assert request.max_bytes == body.get("maxBytes", MAX_INT32)
    assert [entry[:5] for entry in request.entries] == [
        (
            said_topic(topic),
            each["partition"],
            each.get("currentLeaderEpoch", -1),
            each["fetchOffset"],
            each["partitionMaxBytes"],
        )
        for topic in body["topics"]
        for each in topic["partitions"]
    ]
    assert (request.session_id, request.session_epoch) == (body.get("sessionId", 0), body.get("sessionEpoch", -1))
    assert request.forgotten == [
        (said_topic(topic), partition)
        for topic in body.get("forgottenTopicsData", [])
        for partition in topic["partitions"]
    ]


@each_request
def test_any_buffer_will_do(case: Golden) -> None:
    assert parse_fetch_request(memoryview(case.frame)) == parse_fetch_request(case.frame)


@pytest.mark.parametrize("case", REBUILT_AS_IT_WAS, ids=lambda case: case.name)
def test_rebuilt_with_everything_it_is_the_same(case: Golden) -> None:
    request = parse_fetch_request(case.frame)
    rebuilt = rebuilt_with(case.frame, unchanged(request), max_wait_ms=request.max_wait_ms)
    assert rebuilt == case.frame


def test_empty_and_repeated_topics_are_gathered() -> None:
    case = named("fetch-request-v3-replica-empty-topic")
    request = parse_fetch_request(case.frame)
    rebuilt = rebuilt_with(case.frame, unchanged(request), max_wait_ms=500)
    (topic,) = request_json(rebuilt)["body"]["topics"]
    assert [each["partition"] for each in topic["partitions"]] == [1, 0]


@given(request_frames, st.data())
def test_rebuilt_it_asks_for_what_it_was_told(made_up: tuple[int, dict[str, Any]], data: st.DataObject) -> None:
    frame = request_frame(*made_up)
    request = parse_fetch_request(frame)
    some = data.draw(st.permutations(request.entries))[: data.draw(st.integers(0, 6))]
    limits = data.draw(st.lists(st.integers(1, 2**31 - 1), min_size=len(some), max_size=len(some)))
    granted = list(zip(some, limits, strict=True))
    again = parse_fetch_request(rebuilt_with(frame, granted, max_wait_ms=3))
    assert [entry[:5] for entry in again.entries] == [(*entry[:4], limit) for entry, limit in granted]
    assert again.max_wait_ms == 3
    for name in ("head", "replica_id", "min_bytes", "max_bytes", "session_id", "session_epoch", "forgotten"):
        assert getattr(again, name) == getattr(request, name)


@given(request_frames)
def test_only_the_limit_of_an_entry_changes(made_up: tuple[int, dict[str, Any]]) -> None:
    frame = request_frame(*made_up)
    request = parse_fetch_request(frame)
    before = request_json(frame)
    granted = [(entry, 1) for entry in request.entries]
    after = request_json(rebuilt_with(frame, granted, max_wait_ms=request.max_wait_ms))
    entries_before, entries_after = (
        [(said_topic(topic), each) for topic in said["body"].pop("topics") for each in topic["partitions"]]
        for said in (before, after)
    )
    assert [(topic, each | {"partitionMaxBytes": 1}) for topic, each in entries_before] == entries_after
    assert before == after


keys = st.lists(st.tuples(st.sampled_from(["a", "ü", "t" * 200]), int32), max_size=6)
sessions = request_frames.filter(lambda made_up: made_up[0] >= 7)


def id_of(version: int, name: str) -> str | bytes:
    return name if version < 13 else name.encode().ljust(16)[:16]


@given(sessions, sessions, st.data())
def test_a_session_request_says_what_it_was_told(
    made_up: tuple[int, dict[str, Any]], earlier: tuple[int, dict[str, Any]], data: st.DataObject
) -> None:
    """Entries of an earlier request of the same version go into it too, as they were but for their limit."""
    version = made_up[0]
    frames = [request_frame(*made_up)] + ([request_frame(*earlier)] if earlier[0] == version else [])
    asked = [
        Asked(entry.topic, entry_bytes(frame, entry), data.draw(st.integers(0, 2**31 - 1)))
        for frame in frames
        for entry in data.draw(st.permutations(parse_fetch_request(frame).entries))
    ]
    forgotten = [(id_of(version, name), partition) for name, partition in data.draw(keys)]
    session = {"session_id": data.draw(int32), "session_epoch": data.draw(int32), "max_wait_ms": data.draw(int32)}
    rebuilt = session_request(frames[0], asked, forgotten=forgotten, **session)
    again = parse_fetch_request(rebuilt)
    assert again.forgotten == forgotten
    assert {name: getattr(again, name) for name in session} == session
    for ask, entry in zip(asked, again.entries, strict=True):
        assert (entry.topic, entry.partition_max_bytes) == (ask.topic, ask.partition_max_bytes)
        entry_struct = item_struct(item_struct(request_layout(version), "topics"), "partitions")
        had, has = (parse_whole(entry_struct, data) for data in (ask.entry, entry_bytes(rebuilt, entry)))
        assert had | {"partition_max_bytes": ask.partition_max_bytes} == has
    before, after = (request_json(each)["body"] for each in (frames[0], rebuilt))
    told = ("topics", "forgottenTopicsData", "sessionId", "sessionEpoch", "maxWaitMs")
    assert before | {name: after[name] for name in told} == after


@pytest.mark.parametrize("version", range(12, 19))
def test_unknown_tagged_fields_stay(version: int) -> None:
    case = named(f"fetch-request-v{version}-tags")
    request = parse_fetch_request(case.frame)
    asked = [Asked(entry.topic, entry_bytes(case.frame, entry), entry.partition_max_bytes) for entry in request.entries]
    session = {"session_id": request.session_id, "session_epoch": request.session_epoch}
    rebuilt = session_request(case.frame, asked, forgotten=[], max_wait_ms=500, **session)
    assert rebuilt == case.frame


def test_a_session_request_in_its_own_words() -> None:
    case = named("fetch-request-v11-session")
    request = parse_fetch_request(case.frame)
    asked = [Asked("orders", entry_bytes(case.frame, request.entries[0]), 5)]
    forgotten = [("a", 1), ("a", 2), ("b", 3)]
    session = {"session_id": 9, "session_epoch": 8, "max_wait_ms": 7}
    rebuilt = session_request(case.frame, asked, forgotten=forgotten, **session)
    body = request_json(rebuilt)["body"]
    assert body["forgottenTopicsData"] == [{"topic": "a", "partitions": [1, 2]}, {"topic": "b", "partitions": [3]}]
    assert (body["sessionId"], body["sessionEpoch"], body["maxWaitMs"]) == (9, 8, 7)
    assert body["topics"][0]["partitions"][0]["partitionMaxBytes"] == 5


def test_nothing_granted_asks_for_nothing() -> None:
    case = named("fetch-request-v3-replica-many")
    rebuilt = parse_fetch_request(rebuilt_with(case.frame, [], max_wait_ms=0))
    assert (rebuilt.entries, rebuilt.max_wait_ms) == ([], 0)


@each_request
def test_trailing_and_missing_bytes_are_errors(case: Golden) -> None:
    with pytest.raises(ProtocolError):
        parse_fetch_request(case.frame + b"\0")
    for size in range(len(case.frame)):
        with pytest.raises(ProtocolError):
            parse_fetch_request(case.frame[:size])


@pytest.mark.parametrize("case", [each for each in HEADS if each.said["apiKey"] != 1], ids=lambda case: case.name)
def test_other_requests_are_errors(case: Golden) -> None:
    with pytest.raises(ProtocolError, match="not Fetch"):
        parse_fetch_request(case.frame)


@each_request
def test_replica_id_at_a_glance(case: Golden) -> None:
    head = peek_request(case.frame, 0, len(case.frame))
    assert head is not None
    if case.version >= 15:
        assert peek_replica_id(head, case.frame) is None
        return
    assert peek_replica_id(head, case.frame) == said_replica_id(case)
    assert peek_replica_id(head, case.frame, head.body_at + 4) == said_replica_id(case)
    assert peek_replica_id(head, case.frame, head.body_at + 3) is None
    assert peek_replica_id(head, case.frame[: head.body_at + 3]) is None


@pytest.mark.parametrize(("api_key", "version", "replica_id"), [(1, 14, 5), (1, 15, None), (2, 0, None)])
def test_replica_id_is_a_field_of_fetch_up_to_v14(api_key: int, version: int, replica_id: int | None) -> None:
    head = RequestHead(api_key, version, 1, None, 0)
    assert peek_replica_id(head, struct.pack(">i", 5)) == replica_id


def parsed_in_steps(frame: bytes) -> FetchRequest:
    parser = FetchRequestParser(frame)
    while (found := parser.step()) is None:
        pass
    return found


@each_request
@pytest.mark.parametrize("step_bytes", [1, 50, 4096])
def test_in_steps_it_is_what_it_is_at_once(case: Golden, step_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("protocol.fetch.request.STEP_BYTES", step_bytes)
    found, expected = parsed_in_steps(case.frame), parse_fetch_request(case.frame)
    written = {topic: tags for topic, tags in found.topic_tags.items() if tags != NO_TAGS}
    assert replace(found, topic_tags=written) == expected
    for damaged in (case.frame + b"\0", case.frame[:-1], case.frame[:20]):
        with pytest.raises(ProtocolError):
            parsed_in_steps(damaged)
