"""A glance tells what a walk would, for every version that Kafka writes, and never more than the bytes at hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given

from protocol.fetch.request import (
    LAST_VERSION_WITH_REPLICA_ID,
    MIN_BODY_BYTES,
    SessionAt,
    find_replica_id,
    parse_fetch_request,
    peek_session,
    session_at,
)
from protocol.fetch.tables import FIRST_VERSION_WITH_SESSIONS, SUPPORTED_FETCH_VERSIONS
from protocol.wire.headers import peek_request

from ..frames import POISON, REQUESTS, Golden, header_bytes, request_frame, request_frames

if TYPE_CHECKING:
    from protocol.wire.headers import RequestHead

SESSION_BYTES = 8
each_request = pytest.mark.parametrize("case", REQUESTS, ids=lambda case: case.name)


def head_of(frame: bytes, at: int = 0) -> RequestHead:
    head = peek_request(frame, at, len(frame))
    assert head is not None
    return head


def test_the_golden_frames_are_of_every_version_and_hold_sessions_followers_and_consumers() -> None:
    parsed = [parse_fetch_request(case.frame) for case in REQUESTS]
    assert {case.version for case in REQUESTS} == set(SUPPORTED_FETCH_VERSIONS)
    assert {case.head.api_version for case in parsed if case.session_id} == set(range(7, 19))
    assert {case.head.api_version for case in parsed if case.replica_id >= 0} == set(SUPPORTED_FETCH_VERSIONS)
    assert {case.head.api_version for case in parsed if case.replica_id < 0} == set(SUPPORTED_FETCH_VERSIONS)


@each_request
def test_it_agrees_with_the_walk(case: Golden) -> None:
    head, request = head_of(case.frame), parse_fetch_request(case.frame)
    session = SessionAt(request.session_id, request.session_epoch)
    has_sessions = case.version >= FIRST_VERSION_WITH_SESSIONS
    assert peek_session(head, case.frame, len(case.frame)) == (session if has_sessions else None)
    peeked = find_replica_id(head, case.frame, len(case.frame))
    if case.version <= LAST_VERSION_WITH_REPLICA_ID:
        assert peeked == request.replica_id
    elif case.name.endswith("-tags"):  # behind the replica's: no broker writes such, and it only counts
        assert peeked is None
    else:
        assert peeked == (request.replica_id if request.replica_id >= 0 else None)


@each_request
def test_a_torn_frame_tells_its_session_once_that_is_all_there(case: Golden) -> None:
    head, whole = head_of(case.frame), peek_session(head_of(case.frame), case.frame, len(case.frame))
    offset = session_at(case.version)
    for end in range(head.body_at, len(case.frame)):
        torn = case.frame[:end] + bytes([POISON]) * SESSION_BYTES
        there = offset is not None and end >= head.body_at + offset + SESSION_BYTES
        assert peek_session(head, torn, end) == (whole if there else None)


@each_request
def test_a_torn_frame_tells_no_replica_id_before_that_is_all_there(case: Golden) -> None:
    """From v15 on it may take the end of what there is for the tag, so nobody asks before the frame is whole."""
    head = head_of(case.frame)
    ends = 4 if case.version <= LAST_VERSION_WITH_REPLICA_ID else 15
    for end in range(head.body_at, min(head.body_at + ends, len(case.frame))):
        torn = case.frame[:end] + bytes([POISON]) * MIN_BODY_BYTES
        assert find_replica_id(head, torn, end) is None


@each_request
def test_it_looks_where_the_head_is(case: Golden) -> None:
    """Frames stand anywhere in a window, other bytes before and behind."""
    moved = bytes([POISON]) * 5 + case.frame + bytes([POISON]) * 20
    head, there = head_of(case.frame), head_of(case.frame)._replace(body_at=case.body_at + 5)
    end = len(case.frame)
    assert peek_session(there, moved, end + 5) == peek_session(head, case.frame, end)
    assert find_replica_id(there, moved, end + 5) == find_replica_id(head, case.frame, end)


@pytest.mark.parametrize("version", SUPPORTED_FETCH_VERSIONS)
def test_where_the_session_is(version: int) -> None:
    """FetchRequest.json: replica id, max wait, min and max bytes, isolation level stand before it; the first not since
    v15 (KIP-903)."""
    expected = None if version < 7 else 4 + 4 + 4 + 4 + 1 if version < 15 else 4 + 4 + 4 + 1
    assert session_at(version) == expected


@given(request_frames)
def test_whatever_the_request_its_session_is_told(made_up: tuple[int, dict[str, Any]]) -> None:
    version, values = made_up
    frame = request_frame(version, values)
    head = head_of(frame)
    assert head.body_at == len(header_bytes(version))
    session = peek_session(head, frame, len(frame))
    if version < FIRST_VERSION_WITH_SESSIONS:
        assert session is None
    else:
        assert session == (values["session_id"], values["session_epoch"])
    if version <= LAST_VERSION_WITH_REPLICA_ID:
        assert find_replica_id(head, frame, len(frame)) == values["replica_id"]
