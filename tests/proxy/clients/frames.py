"""Frames of producers and consumers, as Construct builds them; length prefixes are not included."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from protocol import produce
from protocol.fetch import tables as fetch
from protocol.wire.apis import API_FETCH, API_PRODUCE, API_SHARE_FETCH, is_flexible
from protocol.wire.framing import write_uvarint
from protocol.wire.headers import (
    peek_response,
    request_header,
    request_header_version,
    response_header,
    response_header_version,
)
from protocol.wire.layout import TAGS

if TYPE_CHECKING:
    from construct import Container

CORRELATION_ID = 5
TOPIC, TOPIC_ID = "t", bytes(15) + b"\x07"


def _request(api_key: int, version: int, client_id: str | None, correlation_id: int) -> bytes:
    head = {"api_key": api_key, "api_version": version, "correlation_id": correlation_id, "client_id": client_id}
    return bytes(request_header(request_header_version(api_key, version)).build({**head, TAGS: []}))


def _response(api_key: int, version: int, correlation_id: int) -> bytes:
    header = response_header(response_header_version(api_key, version))
    return bytes(header.build({"correlation_id": correlation_id, TAGS: []}))


def produce_request(
    size: int, *, version: int = 8, client_id: str | None = "app", acks: int = 1, correlation_id: int = CORRELATION_ID
) -> bytes:
    """A frame of exactly `size` bytes, of which nobody reads what comes after the timeout."""
    frame = _request(API_PRODUCE, version, client_id, correlation_id)
    if version >= 3:
        frame += write_uvarint(0) if is_flexible(API_PRODUCE, version) else b"\xff\xff"  # no transactional id
    frame += acks.to_bytes(2, signed=True) + (30_000).to_bytes(4)
    return frame + bytes(size - len(frame))


def produce_response(
    *,
    version: int = 8,
    throttle_time_ms: int = 0,
    correlation_id: int = CORRELATION_ID,
    error_codes: tuple[int, ...] = (0,),
) -> bytes:
    partition = {
        "index": 0, "base_offset": 12, "log_append_time_ms": -1, "log_start_offset": 0,
        "record_errors": [], "error_message": None, TAGS: [],
    }  # fmt: skip
    partitions = [{**partition, "error_code": code} for code in error_codes]
    topic = {"name": TOPIC, "topic_id": TOPIC_ID, "partition_responses": partitions, TAGS: []}
    body = {"responses": [topic], "throttle_time_ms": throttle_time_ms, TAGS: []}
    return _response(API_PRODUCE, version, correlation_id) + bytes(produce.response_layout(version).build(body))


def told_ms(frame: bytes, *, version: int = 8) -> int:
    """The throttle time of a Produce response."""
    head = peek_response(frame, 0, len(frame), response_header_version(API_PRODUCE, version))
    assert head is not None
    return int(produce.response_layout(version).parse(frame[head.body_at :]).throttle_time_ms)


def fetch_request(
    *,
    version: int = 11,
    client_id: str | None = "app",
    session: tuple[int, int] = (0, -1),
    lists: bool = True,
    max_bytes: int = 50 * 2**20,
    min_bytes: int = 1,
    replica_id: int = -1,
    partitions: int = 1,
    correlation_id: int = CORRELATION_ID,
) -> bytes:
    partition = {
        "partition": 0, "current_leader_epoch": -1, "fetch_offset": 0, "last_fetched_epoch": -1,
        "log_start_offset": -1, "partition_max_bytes": 2**20, TAGS: [],
    }  # fmt: skip
    topic = {"topic": TOPIC, "topic_id": TOPIC_ID, "partitions": [partition] * partitions, TAGS: []}
    replica_state = replica_id.to_bytes(4, signed=True) + (7).to_bytes(8) + b"\0"
    body = {
        "replica_id": replica_id, "max_wait_ms": 500, "min_bytes": min_bytes, "max_bytes": max_bytes,
        "isolation_level": 0, "session_id": session[0], "session_epoch": session[1],
        "topics": [topic] if lists else [], "forgotten_topics_data": [], "rack_id": "",
        TAGS: [(1, replica_state)] if replica_id >= 0 else [],
    }  # fmt: skip
    return _request(API_FETCH, version, client_id, correlation_id) + bytes(fetch.request_layout(version).build(body))


def share_fetch_request(
    *, version: int = 1, max_bytes: int = 50 * 2**20, min_bytes: int = 1, correlation_id: int = CORRELATION_ID
) -> bytes:
    """A ShareFetch (KIP-932) up to its limits, and some bytes of which nobody reads what they are."""
    frame = _request(API_SHARE_FETCH, version, "app", correlation_id)
    frame += b"\x06group" + b"\x17" + bytes(22)  # two compact strings
    return frame + struct.pack(">iiii", 1, 500, min_bytes, max_bytes) + bytes(40)


def share_fetch_response(
    size: int, *, version: int = 1, throttle_time_ms: int = 0, correlation_id: int = CORRELATION_ID
) -> bytes:
    return _response(API_SHARE_FETCH, version, correlation_id) + struct.pack(">i", throttle_time_ms) + bytes(size)


def fetch_response(
    record_bytes: int,
    *,
    version: int = 11,
    session_id: int = 0,
    throttle_time_ms: int = 0,
    correlation_id: int = CORRELATION_ID,
) -> bytes:
    partition = {
        "partition_index": 0, "error_code": 0, "high_watermark": 10**6, "last_stable_offset": 10**6,
        "log_start_offset": 0, "aborted_transactions": None, "preferred_read_replica": -1,
        "records": bytes(record_bytes), TAGS: [],
    }  # fmt: skip
    topic = {"topic": TOPIC, "topic_id": TOPIC_ID, "partitions": [partition], TAGS: []}
    body: dict[str, Any] = {
        "throttle_time_ms": throttle_time_ms, "error_code": 0, "session_id": session_id, "responses": [topic],
        TAGS: [],
    }  # fmt: skip
    return _response(API_FETCH, version, correlation_id) + bytes(fetch.response_layout(version).build(body))


def parsed_fetch(frame: bytes, *, version: int = 11) -> Container[Any]:
    """The body of a Fetch response."""
    head = peek_response(frame, 0, len(frame), response_header_version(API_FETCH, version))
    assert head is not None
    return fetch.response_layout(version).parse(frame[head.body_at :])
