"""Raw Produce requests and their answers, v2 (message format v1) and v3 (record batches). Pure.

Source: message specs ProduceRequest and ProduceResponse. Knows nothing of sockets.
Invariant: a built request is one whole frame, length prefix included.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .records import MessageFormat

_TIMEOUT_MS = 30_000
CLIENT_ID = "lab-load"
API_VERSIONS: Mapping[MessageFormat, int] = {"v1": 2, "v2": 3}


class Produced(NamedTuple):
    """One partition's answer; `base_offset` is -1 where `error_code` is not 0."""

    topic: str
    partition: int
    error_code: int
    base_offset: int


def produce_request(
    topic: str,
    batches: Mapping[int, bytes],
    *,
    correlation_id: int,
    acks: int,
    message_format: MessageFormat,
    client_id: str = CLIENT_ID,
) -> bytes:
    """Return a frame that produces one batch to each partition of one topic.

    Args:
        topic: its name.
        batches: partition -> encoded records.
        correlation_id: int32, comes back with the answer.
        acks: 1, or -1 for all in-sync replicas; 0: there is no answer.
        message_format: of the batches.
        client_id: of the header.
    """
    version = API_VERSIONS[message_format]
    name, who = topic.encode(), client_id.encode()
    parts = [struct.pack(f">hhih{len(who)}s", 0, version, correlation_id, len(who), who)]
    if version >= 3:
        parts.append(struct.pack(">h", -1))  # no transactional id
    parts.append(struct.pack(f">hiih{len(name)}si", acks, _TIMEOUT_MS, 1, len(name), name, len(batches)))
    for partition, batch in batches.items():
        parts += (struct.pack(">ii", partition, len(batch)), batch)
    return struct.pack(">i", sum(map(len, parts))) + b"".join(parts)


def parse_produce_response(frame: bytes) -> tuple[int, list[Produced]]:
    """Return (correlation id, answers) of a v2 or v3 frame without its length prefix. Raises struct.error."""
    correlation_id, topics = struct.unpack_from(">ii", frame)
    at = 8
    found = []
    for _ in range(topics):
        (length,) = struct.unpack_from(">h", frame, at)
        topic = frame[at + 2 : at + 2 + length].decode()
        (partitions,) = struct.unpack_from(">i", frame, at + 2 + length)
        at += 6 + length
        for _ in range(partitions):
            partition, error_code, base_offset, _timestamp = struct.unpack_from(">ihqq", frame, at)
            found.append(Produced(topic, partition, error_code, base_offset))
            at += 22
    return correlation_id, found
