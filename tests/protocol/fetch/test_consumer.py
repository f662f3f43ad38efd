"""What is read of a consumer's Fetch at fixed places, beside the parser that walks all of it."""

from __future__ import annotations

import pytest
from hypothesis import given

from protocol.errors import ProtocolError
from protocol.fetch.consumer import bytes_to_peek, lower_limits, peek_consumer_fetch
from protocol.fetch.request import parse_fetch_request
from protocol.fetch.tables import SUPPORTED_FETCH_VERSIONS, request_layout
from protocol.wire.headers import peek_request

from ..frames import REQUESTS, Golden, request_frame, request_frames


@pytest.mark.parametrize("golden", REQUESTS, ids=lambda golden: golden.name)
def test_kafkas_own_requests(golden: Golden) -> None:
    check(golden.frame)


@given(request_frames)
def test_any_request(drawn: tuple[int, dict[str, object]]) -> None:
    version, values = drawn
    check(request_frame(version, values))


def check(frame: bytes) -> None:
    request = parse_fetch_request(frame)
    head = peek_request(frame, 0, len(frame))
    assert head is not None
    end = bytes_to_peek(head, 0, len(frame))
    found = peek_consumer_fetch(head, frame, 0, end)
    if request.replica_id >= 0:
        assert found is None
        return
    if found is None:  # no replica's, but its last tagged field looks like a replica's
        assert head.api_version >= 15
        return
    assert found.session == (request.session_id, request.session_epoch)
    body = request_layout(head.api_version).parse(frame[head.body_at :])
    assert found.lists_nothing == (not body.topics and not body.get("forgotten_topics_data"))
    patched = bytearray(frame)
    lower_limits(found.limits, patched, 1000)
    after = parse_fetch_request(bytes(patched))
    if head.api_version < 3:
        assert bytes(patched) == frame
        return
    assert after.max_bytes == min(request.max_bytes, 1000)
    assert after.min_bytes == min(request.min_bytes, after.max_bytes)
    assert (after.entries, after.session_epoch) == (request.entries, request.session_epoch)


@pytest.mark.parametrize("version", [15, 17, 18])
def test_from_v15_on_a_malformed_request_is_refused(version: int) -> None:
    assert version in SUPPORTED_FETCH_VERSIONS
    frame = next(each.frame for each in REQUESTS if each.name == f"fetch-request-v{version}-consumer-one")
    head = peek_request(frame, 0, len(frame))
    assert head is not None
    with pytest.raises(ProtocolError):
        peek_consumer_fetch(head, frame[:-1], 0, len(frame) - 1)
