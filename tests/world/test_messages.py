"""Frames of the world's peers are those that Construct builds and reads."""

from __future__ import annotations

import pytest

from lab.embedded.session_values import Ask, Read, SessionResponse
from protocol.fetch.request import parse_fetch_request
from protocol.fetch.tables import response_layout
from protocol.session.requests import SessionRequest
from protocol.wire.apis import API_FETCH
from protocol.wire.headers import response_header_version

from ..proxy.session_conversation import session_frame
from .messages import FetchOptions, fetch_request, fetch_response, keys_of, parse_answer

VERSIONS = (3, 5, 8, 11, 12, 13, 16, 17)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("replica_id", [102, -1])
def test_a_request_is_what_construct_builds(version: int, replica_id: int) -> None:
    keys = keys_of({"t": 3, "other": 200}, version)
    listed = {key: Ask(number * 7, 1000 + number, 2, 1, 0) for number, key in enumerate(keys[:-2])}
    request = SessionRequest(version, listed, 77, 3, tuple(keys[-2:]) if version >= 7 else ())
    made = fetch_request(FetchOptions(version, replica_id, "broker-102"), request, 7)
    assert made[4:] == session_frame(version, request, replica_id=replica_id)
    assert int.from_bytes(made[:4]) == len(made) - 4
    assert parse_fetch_request(made[4:]).replica_id == replica_id


@pytest.mark.parametrize("version", VERSIONS)
def test_a_response_is_what_construct_reads(version: int) -> None:
    keys = keys_of({"t": 3, "other": 200}, version)
    entries = {key: Read(9 + n, 1, payload=b"r" * n, error_code=3 if n == 5 else 0) for n, key in enumerate(keys)}
    made = fetch_response(version, 12, SessionResponse(5, entries))[4:]
    body = response_layout(version).parse(made[4 + response_header_version(API_FETCH, version) :])
    found = [entry for block in body.responses for entry in block.partitions]
    assert [entry.high_watermark for entry in found] == [read.high_watermark for read in entries.values()]
    answer = parse_answer(version, made)
    assert (answer.correlation_id, answer.throttle_time_ms, answer.error_code) == (12, 0, 0)
    assert answer.session_id == (5 if version >= 7 else 0)
    assert [(e.topic, e.partition) for e in answer.entries] == keys
    assert [e.records_size for e in answer.entries] == list(range(len(keys)))
    assert [e.error_code for e in answer.entries] == [read.error_code for read in entries.values()]
