"""Entries without records: byte for byte as specified, and readable by both parsers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import ProtocolError
from protocol.fetch import SUPPORTED_FETCH_VERSIONS
from protocol.fetch_response import (
    ReplayedEntry,
    empty_fetch_response,
    first_batch_size,
    replayed_topics,
    topic_count_at,
)
from protocol.kafka_json import response_json
from protocol.walker import response_walker, walk_whole

from .frames import RESPONSES, Golden, int32, int64, named, response_frame, response_values, topics, versions

each_version = pytest.mark.parametrize("version", SUPPORTED_FETCH_VERSIONS)
replayed = st.lists(st.builds(ReplayedEntry, topics, int32, int64, int64), max_size=8)

PARTITION, ERROR, HIGH_WATERMARK, LOG_START = "00000007", "0000", "0000000000000102", "0000000000000003"
STABLE, ABORTED, RECORDS = "ffffffffffffffff", "ffffffff", "00000000"


@each_version
def test_an_entry_is_as_specified(version: int) -> None:
    expected = PARTITION + ERROR + HIGH_WATERMARK
    expected += STABLE if version >= 4 else ""
    expected += LOG_START if version >= 5 else ""
    expected += ABORTED if version >= 4 else ""
    expected += RECORDS
    blocks, data = replayed_topics(version, [ReplayedEntry("t", 7, 0x102, 3)])
    assert (blocks, data) == (1, bytes.fromhex("00017400000001" + expected))


@pytest.mark.parametrize("version", range(4))
def test_a_whole_response_is_kafkas(version: int) -> None:
    case = named(f"fetch-response-v{version}-empty-records")
    entries = [ReplayedEntry("a", 0, 5, -1), ReplayedEntry("b", 1, 6, -1)]
    assert empty_fetch_response(version, case.said["correlationId"], entries) == case.frame


@each_version
def test_no_entries_is_an_empty_response(version: int) -> None:
    said = response_json(empty_fetch_response(version, 5, []), version)
    throttle_time: dict[str, int] = {"throttleTimeMs": 0} if version >= 1 else {}
    assert said["body"] == throttle_time | {"responses": []}
    assert said["correlationId"] == 5


@given(versions, replayed)
def test_what_is_replayed_is_what_is_read(version: int, entries: list[ReplayedEntry]) -> None:
    frame = empty_fetch_response(version, 5, entries)
    rows, head = walk_whole(response_walker(version), frame, 4, len(frame))
    assert [(row.topic, row.partition, row.high_watermark) for row in rows] == [entry[:3] for entry in entries]
    assert all((row.error_code, row.records_size) == (0, 0) for row in rows)
    assert [row.log_start_offset for row in rows] == [
        entry.log_start_offset if version >= 5 else -1 for entry in entries
    ]
    assert all(value == 0 for value in head.values())


@given(versions, response_values, replayed)
def test_appended_to_a_response_both_are_read(
    version: int, values: dict[str, Any], entries: list[ReplayedEntry]
) -> None:
    frame = bytearray(response_frame(version, values))
    before = response_json(frame, version)["body"]["responses"]
    blocks, data = replayed_topics(version, entries)
    at = topic_count_at(version)
    count = int.from_bytes(frame[at : at + 4], "big")
    assert count == len(before)
    frame[at : at + 4] = (count + blocks).to_bytes(4, "big")
    after = response_json(frame + data, version)["body"]["responses"]
    alone = response_json(empty_fetch_response(version, 0, entries), version)["body"]["responses"]
    assert after == before + alone


def test_consecutive_entries_share_a_topic() -> None:
    names = ["a", "a", "b", "a"]
    blocks, _ = replayed_topics(3, [ReplayedEntry(name, 0, 0, -1) for name in names])
    assert blocks == 3


@pytest.mark.parametrize("version", [-1, 7])
def test_other_versions_are_refused(version: int) -> None:
    for call in (
        lambda: replayed_topics(version, []),
        lambda: empty_fetch_response(version, 1, []),
        lambda: topic_count_at(version),
    ):
        with pytest.raises(ProtocolError):
            call()


ONE_BATCH = [each for each in RESPONSES if each.name.endswith("-one")]


@pytest.mark.parametrize("case", ONE_BATCH, ids=lambda case: case.name)
def test_first_batch_in_every_message_format(case: Golden) -> None:
    (row,), _ = walk_whole(response_walker(case.version), case.frame, 4, len(case.frame))
    assert first_batch_size(case.frame, row.records_at, len(case.frame)) == row.records_size
    assert first_batch_size(case.frame, row.records_at, row.records_at + 12) == row.records_size
    assert first_batch_size(case.frame, row.records_at, row.records_at + 11) is None


@pytest.mark.parametrize(("length", "size"), [(-1, None), (0, None), (13, None), (14, 26), (2**31 - 1, 2**31 + 11)])
def test_batch_lengths(length: int, size: int | None) -> None:
    batch = bytes(8) + length.to_bytes(4, "big", signed=True)
    assert first_batch_size(b"??" + batch, 2, 14) == size
