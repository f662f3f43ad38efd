"""Walkers against Construct and Kafka's frames: whole, byte by byte, with too little and with too much."""

from __future__ import annotations

import itertools
import mmap
from typing import Any

import pytest
from construct import Struct
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import ProtocolError
from protocol.fetch.tables import SUPPORTED_FETCH_VERSIONS, request_layout, response_layout
from protocol.fetch.walker import (
    LARGEST_WAIT_BYTES,
    RequestEntry,
    ResponseEntry,
    prepare_walkers,
    request_walker,
    response_walker,
    walk_whole,
)
from protocol.walkers.rows import BLOCK_TAGS
from protocol.wire.layout import TAGS, item_struct, parse_whole
from protocol.wire.primitives import TaggedFields

from ..frames import FETCHES, RESPONSES, Golden, long_blocks, named, request_frames, response_frames, sent_in

each_fetch = pytest.mark.parametrize("case", FETCHES, ids=lambda case: case.name)


def name_of(topic: Any) -> Any:
    return topic.topic_id if "topic_id" in topic else topic.topic


def requests_by_construct(version: int, body: bytes) -> list[tuple[object, ...]]:
    return [
        (
            name_of(topic),
            each.partition,
            each.get("current_leader_epoch", -1),
            each.fetch_offset,
            each.partition_max_bytes,
        )
        for topic in parse_whole(request_layout(version), body).topics
        for each in topic.partitions
    ]


def responses_by_construct(version: int, body: bytes) -> list[tuple[object, ...]]:
    return [
        (
            name_of(topic),
            each.partition_index,
            each.error_code,
            each.high_watermark,
            each.get("last_stable_offset", -1),
            each.get("log_start_offset", -1),
            *each.records,
        )
        for topic in parse_whole(response_layout(version), body).responses
        for each in topic.partitions
    ]


@each_fetch
def test_golden_whole_equals_construct(case: Golden) -> None:
    rows, _ = walk_whole(case.walk, case.body, 0, len(case.body))
    if case.kind == "request":
        assert [row[:5] for row in rows] == requests_by_construct(case.version, case.body)
    else:
        assert [(*row[:6], *row[7:]) for row in rows] == responses_by_construct(case.version, case.body)


@each_fetch
def test_golden_byte_by_byte_equals_whole(case: Golden) -> None:
    rows, _ = walk_whole(case.walk, case.body, 0, len(case.body))
    places = itertools.cycle([0, 100, 3, 57])
    streamed = sent_in(itertools.repeat(1), case.walk, case.body, places=places)
    assert streamed == [*map(tuple, rows), (len(case.body),)]


@each_fetch
def test_at_once_equals_one_step(case: Golden) -> None:
    body = b"before" + case.body + b"behind"
    (at, end), rows, head = (6, 6 + len(case.body)), list[Any](), dict[str, Any]()
    steps = case.walk(body, len(case.body), rows.append, head)
    next(steps)
    with pytest.raises(StopIteration) as done:
        steps.send((at, end))
    rows_at_once, head_at_once = list[Any](), dict[str, Any]()
    assert case.walk.at_once(body, at, end, rows_at_once.append, head_at_once) == done.value.value == end
    assert (rows_at_once, head_at_once) == (rows, head)


@each_fetch
def test_trailing_bytes_are_an_error(case: Golden) -> None:
    with pytest.raises(ProtocolError, match="1 bytes follow"):
        walk_whole(case.walk, case.body + b"\0", 0, len(case.body) + 1)


@each_fetch
def test_every_truncation_is_an_error(case: Golden) -> None:
    for size in range(len(case.body)):
        with pytest.raises(ProtocolError):
            walk_whole(case.walk, case.body, 0, size)


@given(request_frames | long_blocks("request"))
def test_requests_equal_construct(made_up: tuple[int, dict[str, Any]]) -> None:
    version, values = made_up
    body = request_layout(version).build(values)
    rows, head = walk_whole(request_walker(version), body, 0, len(body))
    assert [row[:5] for row in rows] == requests_by_construct(version, body)
    entry = item_struct(item_struct(request_layout(version), "topics"), "partitions")
    for row in rows:
        assert parse_whole(entry, body[row.entry_at : row.entry_end]).partition == row.partition
    parsed = parse_whole(request_layout(version), body)
    fixed = [name for name in head if isinstance(head[name], int) and not name.endswith("_end")]
    assert {name: head[name] for name in fixed} == {name: values[name] for name in fixed}
    if version >= 7:
        forgotten = [(name_of(each), each.partitions) for each in parsed.forgotten_topics_data]
        assert [each[:2] for each in head["forgotten_topics_data"]] == forgotten
    if version >= 12:
        assert parse_whole(TaggedFields(), head[TAGS]) == parsed[TAGS]
        assert set(head.get(BLOCK_TAGS, ())) == {name_of(topic) for topic in parsed.topics if topic[TAGS]}


@given(response_frames | long_blocks("response"))
def test_responses_equal_construct(made_up: tuple[int, dict[str, Any]]) -> None:
    version, values = made_up
    body = response_layout(version).build(values)
    rows, head = walk_whole(response_walker(version), body, 0, len(body))
    assert [(*row[:6], *row[7:]) for row in rows] == responses_by_construct(version, body)
    fixed = [name for name in head if not name.endswith("_end")]
    assert {name: head[name] for name in fixed} == {name: values[name] for name in fixed}
    fields = item_struct(item_struct(response_layout(version), "responses"), "partitions").subcons
    entry = Struct(*[field for field in fields if field.name != TAGS])
    for row in rows:
        end = row.records_at + max(row.records_size, 0)
        assert parse_whole(entry, body[row.entry_at : end]).partition_index == row.partition


walks = st.one_of(
    (request_frames | long_blocks("request")).map(lambda made_up: (request_walker, request_layout, *made_up)),
    (response_frames | long_blocks("response")).map(lambda made_up: (response_walker, response_layout, *made_up)),
)


@given(walks, st.lists(st.tuples(st.integers(1, 50) | st.integers(150, 900), st.integers(0, 90)), min_size=1))
def test_any_chunking_and_moving_equals_whole(
    made_up: tuple[Any, Any, int, dict[str, Any]], pattern: list[tuple[int, int]]
) -> None:
    walker, layout, version, values = made_up
    body = layout(version).build(values)
    rows, _ = walk_whole(walker(version), body, 0, len(body))
    chunks = (chunk for chunk, _ in itertools.cycle(pattern))
    places = (place for _, place in itertools.cycle(pattern))
    assert sent_in(chunks, walker(version), body, places=places) == [*map(tuple, rows), (len(body),)]


@given(walks)
def test_rows_may_be_plain_tuples(made_up: tuple[Any, Any, int, dict[str, Any]]) -> None:
    walker, layout, version, values = made_up
    body = layout(version).build(values)
    plain, head = walk_whole(walker(version, tuple), body, 0, len(body))
    assert {type(row) for row in plain} <= {tuple}
    assert (plain, head) == walk_whole(walker(version), body, 0, len(body))


def test_records_need_not_be_there() -> None:
    case = named("fetch-response-v3-one")
    walk = response_walker(3)
    rows: list[ResponseEntry] = []
    (whole,), _ = walk_whole(walk, case.body, 0, len(case.body))
    steps = walk(case.body[: whole.records_at], len(case.body), rows.append, {})
    next(steps)
    with pytest.raises(StopIteration) as stop:
        steps.send((0, whole.records_at))
    assert rows == [whole]
    assert stop.value.value == len(case.body)


def test_records_in_the_middle_are_asked_to_be_skipped() -> None:
    case = named("fetch-response-v3-two")
    first, second = walk_whole(response_walker(3), case.body, 0, len(case.body))[0]
    rows: list[ResponseEntry] = []
    steps = response_walker(3)(case.body, len(case.body), rows.append, {})
    next(steps)
    at = steps.send((0, first.records_at + 5))
    assert at == second.entry_at == first.records_at + first.records_size
    assert rows == [first]
    # A caller may also come back before the surplus has passed.
    assert steps.send((at, at - 1)) == at
    with pytest.raises(StopIteration):
        steps.send((at, len(case.body)))
    assert rows == [first, second]


def test_an_entry_is_torn_by_aborted_transactions_only() -> None:
    torn = named("fetch-response-v5-aborted")
    (first, _), _ = walk_whole(response_walker(5), torn.body, 0, len(torn.body))
    rows: list[ResponseEntry] = []
    buffer = bytearray(torn.body)
    steps = response_walker(5)(buffer, len(buffer), rows.append, {})
    next(steps)
    at = steps.send((0, first.records_at - 1))
    assert at == first.records_at - 4, "all but the length of the records is done with"
    buffer[:4] = torn.body[at : at + 4]
    steps.send((0, 4))
    (row,) = rows
    assert (row.records_at, row.entry_at) == (4, 4 - (first.records_at - first.entry_at))


@pytest.mark.parametrize(
    "case", [each for each in RESPONSES if each.name.endswith("-many")], ids=lambda case: case.name
)
def test_other_entries_are_not_torn(case: Golden) -> None:
    rows, _ = walk_whole(case.walk, case.body, 0, len(case.body))
    for row in rows:
        steps = case.walk(case.body, len(case.body), [].append, {})
        next(steps)
        assert steps.send((0, row.records_at - 1)) == row.entry_at


def walk_in_two_steps(case: Golden, limit: int, first_end: int) -> None:
    steps = case.walk(case.body, limit, [].append, {})
    next(steps)
    at = steps.send((0, first_end))
    steps.send((at, len(case.body)))


@each_fetch
def test_the_next_frame_is_not_looked_at(case: Golden) -> None:
    """What is missing from a body is not taken from what follows it in the buffer, though it would fit."""
    for limit in range(len(case.body)):
        for first_end in (0, len(case.body)):
            with pytest.raises(ProtocolError):
                walk_in_two_steps(case, limit, first_end)


def test_head_has_the_scalars_of_the_version() -> None:
    case = named("fetch-request-v4-replica-two")
    _, head = walk_whole(request_walker(4), case.body, 0, len(case.body))
    assert head == {
        "replica_id": 102,
        "max_wait_ms": 500,
        "min_bytes": 1,
        "max_bytes": 10485760,
        "isolation_level": 0,
        "topics_end": len(case.body),
    }


def test_head_of_a_session() -> None:
    case = named("fetch-request-v11-session")
    _, head = walk_whole(request_walker(11), case.body, 0, len(case.body))
    assert (head["session_id"], head["session_epoch"]) == (1234567890, 42)
    assert head["forgotten_topics_data"] == [("clicks", [4, 1, 70000]), ("none", [])]
    answer = named("fetch-response-v11-session-error")
    _, head = walk_whole(response_walker(11), answer.body, 0, len(answer.body))
    assert (head["error_code"], head["session_id"]) == (70, 0)


def test_rows_name_what_they_hold() -> None:
    request = named("fetch-request-v5-replica-two")
    (first, second), _ = walk_whole(request_walker(5), request.frame, request.body_at, len(request.frame))
    entry_at = request.frame.index(b"orders") + 10
    assert first == RequestEntry("orders", 0, -1, 0, 1048576, entry_at, entry_at + 24)
    assert second.entry_at == first.entry_end
    response = named("fetch-response-v5-two")
    (one, _), _ = walk_whole(response_walker(5), response.body, 0, len(response.body))
    assert one[:6] == ("orders", 0, 0, 100, 99, 10)
    assert one.records_at - one.entry_at == 38


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
@pytest.mark.parametrize("case", [FETCHES[1], RESPONSES[1]], ids=lambda case: case.name)
def test_any_buffer_will_do(kind: type, case: Golden) -> None:
    expected = walk_whole(case.walk, case.body, 0, len(case.body))
    assert walk_whole(case.walk, kind(case.body), 0, len(case.body)) == expected


def test_a_mapped_buffer_will_do() -> None:
    case = named("fetch-response-v6-aborted")
    with mmap.mmap(-1, len(case.body)) as buffer:
        buffer[:] = case.body
        assert walk_whole(case.walk, buffer, 0, len(buffer)) == walk_whole(case.walk, case.body, 0, len(case.body))


LONGEST = (2**31 - 1).to_bytes(4, "big")


def _streams(version: int, start: bytes) -> tuple[int, list[ResponseEntry]]:
    """Where the walker stops in a response of 2 GiB that starts like this."""
    rows: list[ResponseEntry] = []
    steps = response_walker(version)(start, 2**31 - 5, rows.append, {})
    next(steps)
    return steps.send((0, len(start))), rows


@pytest.mark.parametrize(
    "start",
    [
        pytest.param(LONGEST, id="topics"),
        pytest.param(b"\xff\xff\xff\xff", id="negative topics"),
        pytest.param(b"\0\0\0\1\xff\xff\0\0\0\0", id="null topic name"),
        pytest.param(b"\0\0\0\1\0\1\xff\0\0\0\0", id="topic name is not UTF-8"),
        pytest.param(b"\0\0\0\1\0\1t" + LONGEST, id="partitions"),
        pytest.param(b"\0\0\0\1\0\1t\xff\xff\xff\xff", id="negative partitions"),
        pytest.param(b"\0\0\0\1\0\1t\0\0\0\1" + bytes(14) + LONGEST, id="records"),
        pytest.param(b"\0\0\0\1\0\1t\0\0\0\1" + bytes(14) + b"\xff\xff\xff\xfe", id="records below null"),
    ],
)
def test_lengths_that_cannot_be_fail_at_once(start: bytes) -> None:
    with pytest.raises(ProtocolError):
        _streams(0, start)


@pytest.mark.parametrize("count", [LONGEST, b"\xff\xff\xff\xfe"])
def test_aborted_transactions_that_cannot_be_fail_at_once(count: bytes) -> None:
    with pytest.raises(ProtocolError, match="aborted_transactions"):
        _streams(4, bytes(4) + b"\0\0\0\1\0\1t\0\0\0\1" + bytes(22) + count + bytes(4))


def test_a_large_count_in_a_large_frame_waits_for_its_first_item() -> None:
    start = (300_000_000).to_bytes(4, "big")
    assert _streams(0, start) == (4, [])


def test_the_largest_wait_is_a_string() -> None:
    start = b"\0\0\0\1\x7f\xff" + b"t" * (LARGEST_WAIT_BYTES - 2)
    assert _streams(0, start) == (6, [])
    assert _streams(0, start + b"t") == (6 + LARGEST_WAIT_BYTES - 1, [])


def test_unsupported_versions_are_refused() -> None:
    for version in (-1, SUPPORTED_FETCH_VERSIONS[-1] + 1):
        with pytest.raises(ProtocolError, match="not supported"):
            request_walker(version)
        with pytest.raises(ProtocolError, match="not supported"):
            response_walker(version)


def test_walkers_that_were_prepared_are_not_made_again() -> None:
    prepare_walkers(12)
    before = request_walker.cache_info().misses, response_walker.cache_info().misses
    request_walker(12)
    response_walker(12, tuple)
    assert (request_walker.cache_info().misses, response_walker.cache_info().misses) == before
    prepare_walkers(SUPPORTED_FETCH_VERSIONS.stop)  # of a newer process: nothing to prepare
