"""Fetch and Produce as peers write them: struct where Construct would take most of the world's time.

tests/world/test_messages.py holds them equal to Construct.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, NamedTuple

from protocol.fetch.walker import response_walker, walk_whole
from protocol.wire.apis import API_FETCH, API_PRODUCE
from protocol.wire.headers import response_header_version

from ..proxy.conversation import MIB

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lab.embedded.session_values import Ask, Read, SessionResponse
    from protocol.fetch.walker import ResponseEntry
    from protocol.session.requests import PartitionKey, SessionRequest

FIRST_FLEXIBLE, FIRST_WITH_TOPIC_IDS, FIRST_WITH_SESSIONS, FIRST_WITH_REPLICA_STATE = 12, 13, 7, 15
PRODUCE_VERSION = 7
MAX_FETCH_BYTES = 10 * MIB
_HEAD = struct.Struct(">hhi")
_I8, _I16, _I32, _I64 = (struct.Struct(">" + code) for code in "bhiq")


class FetchOptions(NamedTuple):
    """What is the same in all requests of a fetcher. `replica_id` -1: a consumer."""

    version: int
    replica_id: int
    client_id: str
    max_wait_ms: int = 500
    min_bytes: int = 1


def fetch_request(options: FetchOptions, request: SessionRequest[Ask], correlation_id: int) -> bytes:
    """Return the frame, with its length."""
    version, flexible = options.version, options.version >= FIRST_FLEXIBLE
    client = options.client_id.encode()
    out = bytearray(_HEAD.pack(API_FETCH, version, correlation_id) + _I16.pack(len(client)) + client)
    if flexible:
        out += b"\0"
    if version < FIRST_WITH_REPLICA_STATE:
        out += _I32.pack(options.replica_id)
    out += struct.pack(">iii", options.max_wait_ms, options.min_bytes, MAX_FETCH_BYTES)
    if version >= 4:
        out += b"\0"
    if version >= FIRST_WITH_SESSIONS:
        out += struct.pack(">ii", request.session_id, request.session_epoch)
    _topics(out, version, request.listed, lambda key: _asked(version, key[1], request.listed[key]), tags=flexible)
    if version >= FIRST_WITH_SESSIONS:
        _topics(out, version, request.forgotten, lambda key: _I32.pack(key[1]), tags=False)
    if version >= 11:
        out += b"\1" if flexible else b"\0\0"
    if version >= FIRST_WITH_REPLICA_STATE and options.replica_id >= 0:
        state = struct.pack(">iq", options.replica_id, 9) + b"\0"
        out += b"\1\1" + _uvarint(len(state)) + state
    elif flexible:
        out += b"\0"
    return _I32.pack(len(out)) + bytes(out)


def _asked(version: int, partition: int, ask: Ask) -> bytes:
    out = _I32.pack(partition)
    if version >= 9:
        out += _I32.pack(ask.current_leader_epoch)
    out += _I64.pack(ask.fetch_offset)
    if version >= FIRST_FLEXIBLE:
        out += _I32.pack(ask.last_fetched_epoch)
    if version >= 5:
        out += _I64.pack(ask.log_start_offset)
    return out + _I32.pack(ask.partition_max_bytes)


def fetch_response(version: int, correlation_id: int, response: SessionResponse) -> bytes:
    """Return the frame, with its length."""
    flexible = version >= FIRST_FLEXIBLE
    out = bytearray(_I32.pack(correlation_id))
    if response_header_version(API_FETCH, version):
        out += b"\0"
    out += _I32.pack(0)
    if version >= FIRST_WITH_SESSIONS:
        out += struct.pack(">hi", response.error_code, response.session_id)
    _topics(
        out, version, response.entries, lambda key: _answered(version, key[1], response.entries[key]), tags=flexible
    )
    if flexible:
        out += b"\0"
    return _I32.pack(len(out)) + bytes(out)


def _answered(version: int, partition: int, read: Read) -> bytes:
    out = struct.pack(">ihq", partition, read.error_code, read.high_watermark)
    if version >= 4:
        out += _I64.pack(-1)
    if version >= 5:
        out += _I64.pack(read.log_start_offset)
    flexible, records = version >= FIRST_FLEXIBLE, read.payload if isinstance(read.payload, bytes) else b""
    if version >= 4:
        out += b"\0" if flexible else _I32.pack(-1)
    if version >= 11:
        out += _I32.pack(-1)
    return out + (_uvarint(len(records) + 1) if flexible else _I32.pack(len(records))) + records


def _topics(out: bytearray, version: int, keys: Iterable[PartitionKey], of: Any, *, tags: bool) -> None:
    flexible = version >= FIRST_FLEXIBLE
    topics: list[tuple[str | bytes, list[bytes]]] = []
    for key in keys:
        if not topics or topics[-1][0] != key[0]:
            topics.append((key[0], []))
        topics[-1][1].append(of(key))
    out += _count(len(topics), flexible=flexible)
    end = b"\0" if tags else b""
    for topic, entries in topics:
        if isinstance(topic, bytes):
            out += topic
        else:
            name = topic.encode()
            out += _uvarint(len(name) + 1) + name if flexible else _I16.pack(len(name)) + name
        out += _count(len(entries), flexible=flexible)
        for entry in entries:
            out += entry + end
        if flexible:
            out += b"\0"


def _count(number: int, *, flexible: bool) -> bytes:
    return _uvarint(number + 1) if flexible else _I32.pack(number)


def _uvarint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


class Answer(NamedTuple):
    """A Fetch response as its reader takes it. `entries`: places of records are in `frame`."""

    frame: bytes
    correlation_id: int
    throttle_time_ms: int
    error_code: int
    session_id: int
    entries: list[ResponseEntry]


def parse_answer(version: int, frame: bytes) -> Answer:
    """Read a response without its length. Raises ProtocolError."""
    at = 4 + response_header_version(API_FETCH, version)
    rows, head = walk_whole(response_walker(version), frame, at, len(frame))
    throttled = head.get("throttle_time_ms", int.from_bytes(frame[at : at + 4]))
    return Answer(
        frame, int.from_bytes(frame[:4]), throttled, head.get("error_code", 0), head.get("session_id", 0), rows
    )


def produce_request(
    client_id: str, topic: str, partition: int, records: bytes, correlation_id: int, acks: int = 1
) -> bytes:
    client, name = client_id.encode(), topic.encode()
    out = _HEAD.pack(API_PRODUCE, PRODUCE_VERSION, correlation_id) + _I16.pack(len(client)) + client
    out += struct.pack(">hhii", -1, acks, 30_000, 1) + _I16.pack(len(name)) + name
    out += struct.pack(">iii", 1, partition, len(records)) + records
    return _I32.pack(len(out)) + out


class Produced(NamedTuple):
    correlation_id: int
    acks: int
    topic: str
    partition: int
    records: bytes


def parse_produce(frame: bytes, client_id: str) -> Produced:
    at = _HEAD.size + 2 + len(client_id)
    _, acks, _, _, name = struct.unpack_from(">hhiih", frame, at)
    at += 14
    topic, at = frame[at : at + name].decode(), at + name
    _, partition, size = struct.unpack_from(">iii", frame, at)
    return Produced(int.from_bytes(frame[4:8]), acks, topic, partition, frame[at + 12 : at + 12 + size])


def produce_response(produced: Produced, offset: int) -> bytes:
    name = produced.topic.encode()
    out = struct.pack(">iih", produced.correlation_id, 1, len(name)) + name
    out += struct.pack(">iihqqq", 1, produced.partition, 0, offset, -1, 0) + _I32.pack(0)
    return _I32.pack(len(out)) + out


def keys_of(topics: Mapping[str, int], version: int, first: int = 0) -> list[PartitionKey]:
    """Return so many partitions of each topic, which is called by its id since v13."""
    return [(topic_in(version, topic), first + each) for topic, count in topics.items() for each in range(count)]


def topic_in(version: int, topic: str) -> str | bytes:
    return topic.encode().ljust(16, b"-") if version >= FIRST_WITH_TOPIC_IDS else topic
