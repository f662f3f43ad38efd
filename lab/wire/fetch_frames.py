"""The layout of Fetch frames, v0-v18: whose request it is, and which entries of an answer carry records.

Sans-I/O: frames stream by and are read by generators. A generator says which bytes it needs next (`Read`), and is sent
them. Source: message specs FetchRequest and FetchResponse of Kafka 4.1. Independent of `protocol` on purpose: what
measures the sidecar must not share its mistakes.
Invariant: a generator asks for exactly the bytes of its part of the frame; it raises ValueError on one that lies.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from .identifiers import kafka_uuid

if TYPE_CHECKING:
    from collections.abc import Generator

LAST_VERSION = 18
FIRST_FLEXIBLE, FIRST_TOPIC_IDS, FIRST_REPLICA_STATE = 12, 13, 15
HIDDEN_REPLICA = -2
"""The replica id of a request whose replica could not be told."""

Read = tuple[int, bool]
"""The pair (how many bytes, whether their content is wanted)."""

_SHORT = struct.Struct(">h")
_INT = struct.Struct(">i")
_SESSION = struct.Struct(">hi")
_TOPIC_ID_BYTES = 16
_ABORTED_BYTES = 16
_MAX_VARINT_SHIFT = 28
# Of a request from v15 on: max wait, min bytes, max bytes, isolation level, session id, session epoch.
_REQUEST_HEAD_BYTES = 21
# partition, current leader epoch, fetch offset, last fetched epoch, log start offset, partition max bytes.
_REQUEST_ENTRY_BYTES = 32
_REPLICA_STATE_TAG = 1


class Session(NamedTuple):
    """The fetch session that a response names (v7+); 0, 0 if it has none."""

    error_code: int
    id: int


def answer_head(version: int) -> Generator[Read, bytes, Session]:
    """Read a response up to its topics."""
    yield from _struct_end(version >= FIRST_FLEXIBLE)  # of the header
    if version >= 1:
        yield 4, False  # throttle time
    return Session._make(_SESSION.unpack((yield _SESSION.size, True))) if version >= 7 else Session(0, 0)


def answered_partitions(version: int, found: list[tuple[str, int, int]]) -> Generator[Read, bytes, None]:
    """Read the rest of a response and add (topic, partition, record bytes) of every entry that carries records.

    From v13 on the topic is its id, as Kafka writes it.
    """
    flexible = version >= FIRST_FLEXIBLE
    # error code, high watermark, last stable offset, log start offset
    head = 10 + (8 if version >= 4 else 0) + (8 if version >= 5 else 0)
    for _ in range((yield from _count(flexible))):
        topic = yield from _topic(version)
        for _ in range((yield from _count(flexible))):
            partition = _INT.unpack((yield 4, True))[0]
            yield head, False
            if version >= 4:
                yield from _aborted(flexible)
            if version >= 11:
                yield 4, False  # preferred read replica
            records_bytes = max((yield from _size(flexible)), 0)
            if records_bytes:
                found.append((topic, partition, records_bytes))
            yield records_bytes, False
            yield from _struct_end(flexible)
        yield from _struct_end(flexible)
    yield from _struct_end(flexible)


def replica_of(version: int, body: bytes) -> int:
    """Return the broker id in a flexible request (v12+), -1 for a consumer. `body` is what follows the client id.

    Raises:
        ValueError: the body ends too early.
    """
    try:
        at = _after_tags(body, 0)
        if version < FIRST_REPLICA_STATE:
            return int(_INT.unpack_from(body, at)[0])
        at = _after_topics(body, at + _REQUEST_HEAD_BYTES)
        at = _after_forgotten(body, at)
        rack, at = _varint_at(body, at)
        return _replica_state(body, at + rack - 1)
    except (struct.error, IndexError) as error:
        raise ValueError(f"a Fetch request v{version} of {len(body)} bytes ends too early") from error


def _topic(version: int) -> Generator[Read, bytes, str]:
    if version >= FIRST_TOPIC_IDS:
        return kafka_uuid((yield _TOPIC_ID_BYTES, True))
    if version < FIRST_FLEXIBLE:
        return (yield _not_negative(_SHORT.unpack((yield 2, True))[0]), True).decode()
    return (yield _not_negative((yield from _varint()) - 1), True).decode()


def _aborted(flexible: bool) -> Generator[Read, bytes, None]:
    count = max((yield from _size(flexible)), 0)
    if not flexible:
        yield count * _ABORTED_BYTES, False
        return
    for _ in range(count):
        yield _ABORTED_BYTES, False
        yield from _struct_end(flexible)


def _count(flexible: bool) -> Generator[Read, bytes, int]:
    return _not_negative((yield from _size(flexible)))


def _size(flexible: bool) -> Generator[Read, bytes, int]:
    """Read a count or length; -1 is null."""
    if flexible:
        return (yield from _varint()) - 1
    return int(_INT.unpack((yield 4, True))[0])


def _struct_end(flexible: bool) -> Generator[Read, bytes, None]:
    """Skip tagged fields (KIP-482), none of which the lab needs."""
    for _ in range((yield from _varint()) if flexible else 0):
        yield from _varint()
        yield (yield from _varint()), False


def _varint() -> Generator[Read, bytes, int]:
    value = shift = 0
    while (byte := (yield 1, True)[0]) >= 0x80:
        value |= (byte & 0x7F) << shift
        shift += 7
        if shift > _MAX_VARINT_SHIFT:
            raise ValueError("a varint of more than five bytes in a frame")
    return value | byte << shift


def _after_topics(body: bytes, at: int) -> int:
    topics, at = _varint_at(body, at)
    for _ in range(topics - 1):
        partitions, at = _varint_at(body, at + _TOPIC_ID_BYTES)
        for _ in range(partitions - 1):
            at = _after_tags(body, at + _REQUEST_ENTRY_BYTES)
        at = _after_tags(body, at)
    return at


def _after_forgotten(body: bytes, at: int) -> int:
    topics, at = _varint_at(body, at)
    for _ in range(topics - 1):
        partitions, at = _varint_at(body, at + _TOPIC_ID_BYTES)
        at = _after_tags(body, at + 4 * (partitions - 1))
    return at


def _replica_state(body: bytes, at: int) -> int:
    count, at = _varint_at(body, at)
    for _ in range(count):
        tag, at = _varint_at(body, at)
        size, at = _varint_at(body, at)
        if tag == _REPLICA_STATE_TAG:
            return int(_INT.unpack_from(body, at)[0])
        at += size
    return -1  # the default of the field: a consumer


def _after_tags(body: bytes, at: int) -> int:
    count, at = _varint_at(body, at)
    for _ in range(count):
        _, at = _varint_at(body, at)
        size, at = _varint_at(body, at)
        at += size
    return at


def _varint_at(body: bytes, at: int) -> tuple[int, int]:
    """Return the varint at a place, and the place after it. Raises IndexError, ValueError."""
    value = shift = 0
    while (byte := body[at]) >= 0x80:
        value |= (byte & 0x7F) << shift
        shift += 7
        at += 1
        if shift > _MAX_VARINT_SHIFT:
            raise ValueError("a varint of more than five bytes in a frame")
    return value | byte << shift, at + 1


def _not_negative(count: int) -> int:
    if count < 0:
        raise ValueError(f"a length or count of {count} in a frame")
    return count
