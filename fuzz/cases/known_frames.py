"""Frames of the victim's follower and leader, of which every byte is known beforehand.

A replica that is in sync: its fetch offset is never below the high watermark it was told last, so that no quota may
hold it back. Each answer brings one stamped batch, of the partitions in turn. Pure.
Invariant: an answer is a function of (version, correlation id) alone, so that both ends can work it out.
"""

from __future__ import annotations

import functools
import hashlib
import struct
from typing import Any

from protocol.fetch.tables import FIRST_VERSION_WITH_REPLICA_STATE, request_layout, response_layout
from protocol.wire.apis import API_FETCH
from protocol.wire.framing import with_length
from protocol.wire.headers import request_header, request_header_version, response_header, response_header_version
from protocol.wire.layout import TAGS, member

CLIENT_ID = "victim-fetcher"
REPLICA_ID = 102
TOPIC = "victim"
PARTITIONS = 5
FIRST_OFFSET = 10**9
STAMP_BYTES = 400
MAX_WAIT_MS = 500
CORRELATION_ID_IN_REQUEST = 8
"""The offset of the correlation id: after the length prefix, the api key and the version."""
CORRELATION_ID_IN_ANSWER = 4
_FULL = -1
_MARK = 0x7A7A_7A7A_0000
"""An offset that stands in a template where one is to be written; the partition is added."""
_STAMP_MARK = bytes([0x5A]) * STAMP_BYTES
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")


def fetch_offset(partition: int, correlation_id: int) -> int:
    """Return the offset in the fetch with this correlation id, from 1 on: one message has come per turn of the
    partition."""
    return FIRST_OFFSET + (correlation_id - 1 + PARTITIONS - 1 - partition) // PARTITIONS


def request(version: int, correlation_id: int) -> bytes:
    """Return the whole frame, its length prefix first."""
    return _filled(_request_template(version), CORRELATION_ID_IN_REQUEST, correlation_id)


def answer(version: int, correlation_id: int) -> bytes:
    """Return the whole frame, its length prefix first."""
    brings = (correlation_id - 1) % PARTITIONS
    template, stamp_at = _answer_template(version, brings)
    frame = _filled(template, CORRELATION_ID_IN_ANSWER, correlation_id)
    return frame[:stamp_at] + _stamp(correlation_id) + frame[stamp_at + STAMP_BYTES :]


def _stamp(correlation_id: int) -> bytes:
    return hashlib.shake_128(_INT32.pack(correlation_id)).digest(STAMP_BYTES)


def _filled(template: tuple[bytes, tuple[tuple[int, int], ...]], correlation_id_at: int, correlation_id: int) -> bytes:
    frame, places = bytearray(template[0]), template[1]
    _INT32.pack_into(frame, correlation_id_at, correlation_id)
    for partition, at in places:
        _INT64.pack_into(frame, at, fetch_offset(partition, correlation_id))
    return bytes(frame)


def _places(frame: bytes) -> tuple[tuple[int, int], ...]:
    """Return (partition, position) of each mark."""
    return tuple((partition, frame.index(_INT64.pack(_MARK + partition))) for partition in range(PARTITIONS))


@functools.cache
def _request_template(version: int) -> tuple[bytes, tuple[tuple[int, int], ...]]:
    head = {"api_key": API_FETCH, "api_version": version, "correlation_id": 0, "client_id": CLIENT_ID, TAGS: []}
    entries = [
        {
            "partition": partition, "current_leader_epoch": 7, "fetch_offset": _MARK + partition,
            "last_fetched_epoch": 7, "log_start_offset": 0, "partition_max_bytes": 1024 * 1024, TAGS: [],
        }
        for partition in range(PARTITIONS)
    ]  # fmt: skip
    body = {
        "replica_id": REPLICA_ID, "max_wait_ms": MAX_WAIT_MS, "min_bytes": 1, "max_bytes": 10 * 1024 * 1024,
        "isolation_level": 0, "session_id": 0, "session_epoch": _FULL, "forgotten_topics_data": [], "rack_id": "",
        "topics": [{"topic": TOPIC, "partitions": entries, TAGS: []}], TAGS: replica_state(version, REPLICA_ID),
    }  # fmt: skip
    header = request_header(request_header_version(API_FETCH, version)).build(head)
    frame = with_length(bytes(header + request_layout(version).build(body)))
    return frame, _places(frame)


@functools.cache
def _answer_template(version: int, brings: int) -> tuple[tuple[bytes, tuple[tuple[int, int], ...]], int]:
    entries: list[dict[str, Any]] = [
        {
            "partition_index": partition, "error_code": 0, "high_watermark": _MARK + partition,
            "last_stable_offset": -1, "log_start_offset": 0, "aborted_transactions": None,
            "preferred_read_replica": -1, "records": _STAMP_MARK if partition == brings else b"", TAGS: [],
        }
        for partition in range(PARTITIONS)
    ]  # fmt: skip
    topics = [{"topic": TOPIC, "partitions": entries, TAGS: []}]
    body = {"throttle_time_ms": 0, "error_code": 0, "session_id": 0, "responses": topics, TAGS: []}
    header = response_header(response_header_version(API_FETCH, version)).build({"correlation_id": 0, TAGS: []})
    frame = with_length(bytes(header + response_layout(version).build(body)))
    return (frame, _places(frame)), frame.index(_STAMP_MARK)


def replica_state(version: int, replica_id: int) -> list[tuple[int, bytes]]:
    """Return the tags of a request: from v15 on they name the replica (KIP-903)."""
    if version < FIRST_VERSION_WITH_REPLICA_STATE:
        return []
    tags = member(request_layout(version), TAGS).subcon
    return list(tags.encoded({"replica_state": {"replica_id": replica_id, "replica_epoch": 7, TAGS: []}}))
