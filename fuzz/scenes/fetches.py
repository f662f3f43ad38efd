"""Fetch requests of the sizes that cost most, for the scenes that send them. Pure."""

from __future__ import annotations

import functools
import struct

from protocol.fetch.tables import request_layout
from protocol.wire.apis import API_FETCH, is_flexible
from protocol.wire.layout import TAGS

from ..cases.known_frames import replica_state

_HEAD = struct.Struct(">ihhih")
_CLIENT = b"greedy"


def fetch(version: int, topics: list[tuple[object, int]], *, fetch_offset: int = 0) -> bytes:
    """Return a whole frame that asks for so many partitions of each topic."""
    entry = {
        "current_leader_epoch": -1, "fetch_offset": fetch_offset, "last_fetched_epoch": -1, "log_start_offset": 0,
        "partition_max_bytes": 2**20, TAGS: [],
    }  # fmt: skip
    blocks = [
        {"topic": name, "topic_id": name, "partitions": [{"partition": n, **entry} for n in range(count)], TAGS: []}
        for name, count in topics
    ]
    body = {
        "replica_id": 102, "max_wait_ms": 0, "min_bytes": 1, "max_bytes": 10 * 2**20, "isolation_level": 0,
        "session_id": 0, "session_epoch": -1, "topics": blocks, "forgotten_topics_data": [], "rack_id": "",
        TAGS: replica_state(version, 102),
    }  # fmt: skip
    data = (b"\0" if is_flexible(API_FETCH, version) else b"") + bytes(request_layout(version).build(body))
    size = _HEAD.size - 4 + len(_CLIENT) + len(data)
    return _HEAD.pack(size, API_FETCH, version, 1, len(_CLIENT)) + _CLIENT + data


@functools.cache
def many_partitions(version: int = 3, count: int = 25_000) -> bytes:
    """Return one topic with as many partitions as a decoded request may have, and more."""
    return fetch(version, [("t", count)])


def made_up_topics(number: int, *, count: int = 8_000, name_bytes: int = 20) -> bytes:
    """Return a Fetch v3 of topics that no frame of another number has: put together by hand, since there are many."""
    whole = fetch(3, [("x" * name_bytes, 1)])
    at = whole.index(b"x" * name_bytes)
    head, rest = whole[4 : at - 6], whole[at + name_bytes :]
    topics = b"".join(
        name_bytes.to_bytes(2) + f"{number:08d}-{n:06d}".encode().ljust(name_bytes, b"x") + rest for n in range(count)
    )
    body = head + count.to_bytes(4) + topics
    return len(body).to_bytes(4) + body
