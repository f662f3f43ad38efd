"""Entries without records: byte for byte as specified, and readable by both parsers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import ProtocolError
from protocol.fetch.response import (
    ReplayedEntry,
    ReplayedTopics,
    TopicCount,
    empty_fetch_response,
    error_fetch_response,
    read_topic_count,
    records_length,
    replayed_topics,
    topic_count_at,
)
from protocol.fetch.tables import SUPPORTED_FETCH_VERSIONS
from protocol.fetch.topic_blocks import count_bytes
from protocol.fetch.walker import response_walker, walk_whole
from protocol.kafka_json import response_json
from protocol.session.requests import FETCH_SESSION_ID_NOT_FOUND
from protocol.wire.headers import peek_response

from ..frames import int32, int64, named, response_frame, response_frames, topics_of, versions

each_version = pytest.mark.parametrize("version", SUPPORTED_FETCH_VERSIONS)


def replayed(version: int) -> st.SearchStrategy[list[ReplayedEntry]]:
    return st.lists(st.builds(ReplayedEntry, topics_of(version), int32, int64, int64, int64), max_size=8)


replays = versions.flatmap(lambda version: st.tuples(st.just(version), replayed(version)))

PARTITION, ERROR, HIGH_WATERMARK, LOG_START = "00000007", "0000", "0000000000000102", "0000000000000003"
ABORTED, PREFERRED, RECORDS = "ffffffff", "ffffffff", "00000000"
UNKNOWN_STABLE, STABLE = "ffffffffffffffff", "0000000000000101"


@each_version
@pytest.mark.parametrize(("stable", "written"), [((), UNKNOWN_STABLE), ((0x101,), STABLE)])
def test_an_entry_is_as_specified(version: int, stable: tuple[int, ...], written: str) -> None:
    """Appendix A.4 of KIP-73's reference: what followers of every age take."""
    expected = PARTITION + ERROR + HIGH_WATERMARK
    expected += written if version >= 4 else ""
    expected += LOG_START if version >= 5 else ""
    expected += ABORTED if 4 <= version < 12 else "00" if version >= 12 else ""
    expected += PREFERRED if version >= 11 else ""
    expected += RECORDS if version < 12 else "0100"
    topic: str | bytes = "t" if version < 13 else bytes(range(16))
    head = "00017400000001" if version < 12 else "027402" if version == 12 else bytes(range(16)).hex() + "02"
    end = "00" if version >= 12 else ""
    blocks, data = replayed_topics(version, [ReplayedEntry(topic, 7, 0x102, 3, *stable)])
    assert (blocks, data) == (1, bytes.fromhex(head + expected + end))


@pytest.mark.parametrize("version", range(4))
def test_a_whole_response_is_kafkas(version: int) -> None:
    case = named(f"fetch-response-v{version}-empty-records")
    entries = [ReplayedEntry("a", 0, 5, -1), ReplayedEntry("b", 1, 6, -1)]
    assert empty_fetch_response(version, case.said["correlationId"], entries) == case.frame


@pytest.mark.parametrize("version", range(7, 19))
def test_an_error_response_is_kafkas(version: int) -> None:
    case = named(f"fetch-response-v{version}-session-error")
    assert error_fetch_response(version, case.said["correlationId"], FETCH_SESSION_ID_NOT_FOUND) == case.frame


@pytest.mark.parametrize("version", range(7, 19))
def test_an_empty_incremental_response_is_as_specified(version: int) -> None:
    """Appendix A.4."""
    body = "00000000" + "0000" + "12345678" + ("00000000" if version < 12 else "0100")
    header = "00000005" + ("" if version < 12 else "00")
    assert empty_fetch_response(version, 5, [], session_id=0x12345678).hex() == header + body


def test_before_sessions_there_is_no_top_level_error() -> None:
    with pytest.raises(ValueError, match="v6 has no"):
        error_fetch_response(6, 5, 70)


@each_version
def test_no_entries_is_an_empty_response(version: int) -> None:
    said = response_json(empty_fetch_response(version, 5, []), version)
    throttle_time: dict[str, int] = {"throttleTimeMs": 0} if version >= 1 else {}
    session: dict[str, int] = {"errorCode": 0, "sessionId": 0} if version >= 7 else {}
    assert said["body"] == throttle_time | session | {"responses": []}
    assert said["correlationId"] == 5


@given(replays)
def test_what_is_replayed_is_what_is_read(made_up: tuple[int, list[ReplayedEntry]]) -> None:
    version, entries = made_up
    frame = empty_fetch_response(version, 5, entries)
    rows, head = walk_whole(response_walker(version), frame, body_at(version, frame), len(frame))
    assert [(row.topic, row.partition, row.high_watermark) for row in rows] == [entry[:3] for entry in entries]
    assert [row.last_stable_offset for row in rows] == [
        entry.last_stable_offset if version >= 4 else -1 for entry in entries
    ]
    assert all((row.error_code, row.records_size) == (0, 0) for row in rows)
    assert [row.log_start_offset for row in rows] == [
        entry.log_start_offset if version >= 5 else -1 for entry in entries
    ]
    assert all(value == 0 for name, value in head.items() if not name.endswith("_end"))


@given(replays, st.integers(0, 8))
def test_part_by_part_it_is_encoded_as_all_at_once(made_up: tuple[int, list[ReplayedEntry]], cut: int) -> None:
    version, entries = made_up
    topics = ReplayedTopics(version)
    for part in (entries[:cut], entries[cut:]):
        topics.add(part)
    assert topics.end() == replayed_topics(version, entries)


def body_at(version: int, frame: bytes) -> int:
    head = peek_response(frame, 0, len(frame), int(version >= 12))
    assert head is not None
    return head.body_at


@given(response_frames, st.data())
def test_added_to_a_response_both_are_read(made_up: tuple[int, dict[str, Any]], data: st.DataObject) -> None:
    version, _ = made_up
    entries = data.draw(replayed(version))
    frame = response_frame(*made_up)
    before = response_json(frame, version)["body"]["responses"]
    blocks, topics = replayed_topics(version, entries)
    _, head = walk_whole(response_walker(version), frame, body_at(version, frame), len(frame))
    said = read_topic_count(version, frame, topic_count_at(version), len(frame))
    assert said is not None
    assert said.topics == len(before)
    more = frame[: said.at] + count_bytes(version, said.topics + blocks) + frame[said.after : head["responses_end"]]
    after = response_json(more + topics + frame[head["responses_end"] :], version)["body"]["responses"]
    alone = response_json(empty_fetch_response(version, 0, entries), version)["body"]["responses"]
    assert after == before + alone


@each_version
def test_a_topic_count_that_is_not_there(version: int) -> None:
    frame = empty_fetch_response(version, 5, [])
    at = topic_count_at(version)
    size = 1 if version >= 12 else 4
    for end in range(at, at + size):
        assert read_topic_count(version, frame, at, end) is None
    assert read_topic_count(version, frame, at, at + size) == TopicCount(at, at + size, 0)


@given(response_frames)
def test_records_are_preceded_by_their_length(made_up: tuple[int, dict[str, Any]]) -> None:
    version, _ = made_up
    frame = response_frame(*made_up)
    rows, _ = walk_whole(response_walker(version), frame, body_at(version, frame), len(frame))
    for row in rows:
        length = records_length(version, row.records_size)
        assert frame[row.records_at - len(length) : row.records_at] == length


def test_consecutive_entries_share_a_topic() -> None:
    names = ["a", "a", "b", "a"]
    blocks, _ = replayed_topics(3, [ReplayedEntry(name, 0, 0, -1) for name in names])
    assert blocks == 3


@pytest.mark.parametrize("version", [-1, 19])
def test_other_versions_are_refused(version: int) -> None:
    for call in (
        lambda: replayed_topics(version, []),
        lambda: empty_fetch_response(version, 1, []),
        lambda: topic_count_at(version),
    ):
        with pytest.raises(ProtocolError):
            call()
