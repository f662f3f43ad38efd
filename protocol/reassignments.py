"""ListPartitionReassignments (api key 46, KIP-455): which replicas are being added to partitions.

The request that we send ourselves, and what its response says. Must not know connections, nor when to ask.
Invariant: names, order and versions of the tables are those of ListPartitionReassignmentsRequest.json and
ListPartitionReassignmentsResponse.json (Kafka 3.9 and 4.3), in snake_case.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from construct import Int16sb, Int32sb

from .errors import ProtocolError
from .wire.apis import API_LIST_PARTITION_REASSIGNMENTS, is_flexible
from .wire.contexts import built
from .wire.headers import peek_response, request_header, request_header_version, response_header_version
from .wire.layout import NULLABLE_STRING, STRING, TAGS, ArrayOf, Field, layout, parse_whole

if TYPE_CHECKING:
    from .wire.buffers import Bytes

REASSIGNMENT_VERSIONS = range(1)
_TIMEOUT_MS = 5_000
_REQUEST_TOPIC = (Field(0, "name", STRING), Field(0, "partition_indexes", ArrayOf(Int32sb)))
REQUEST = (
    Field(0, "timeout_ms", Int32sb, default=60_000),
    Field(0, "topics", ArrayOf(_REQUEST_TOPIC, nullable=True), default=None),  # null: all
)
_PARTITION = (
    Field(0, "partition_index", Int32sb),
    Field(0, "replicas", ArrayOf(Int32sb)),
    Field(0, "adding_replicas", ArrayOf(Int32sb)),
    Field(0, "removing_replicas", ArrayOf(Int32sb)),
)
RESPONSE = (
    Field(0, "throttle_time_ms", Int32sb),
    Field(0, "error_code", Int16sb),
    Field(0, "error_message", NULLABLE_STRING),
    Field(0, "topics", ArrayOf((Field(0, "name", STRING), Field(0, "partitions", ArrayOf(_PARTITION))))),
)


def reassignments_request(correlation_id: int, *, client_id: str, version: int) -> bytes:
    """Return the frame, its length prefix not included, that asks for every reassignment under way."""
    head = {
        "api_key": API_LIST_PARTITION_REASSIGNMENTS,
        "api_version": version,
        "correlation_id": correlation_id,
        "client_id": client_id,
        TAGS: [],
    }
    header = request_header(request_header_version(API_LIST_PARTITION_REASSIGNMENTS, version))
    fields = layout(REQUEST, version, flexible=is_flexible(API_LIST_PARTITION_REASSIGNMENTS, version))
    return built(header, head) + built(fields, {"timeout_ms": _TIMEOUT_MS, "topics": None, TAGS: []})


def added_replicas(frame: Bytes, *, version: int) -> dict[str, dict[int, int]]:
    """Return how many replicas are being added, by topic and partition of the reassignments in the response `frame`.

    Raises ProtocolError for an error code, and for whatever is no such response, to the last byte.
    """
    data = bytes(frame)
    head = peek_response(data, 0, len(data), response_header_version(API_LIST_PARTITION_REASSIGNMENTS, version))
    if head is None:
        raise ProtocolError("the frame ends inside the response header")
    fields = layout(RESPONSE, version, flexible=is_flexible(API_LIST_PARTITION_REASSIGNMENTS, version))
    answer = parse_whole(fields, data[head.body_at :])
    if answer.error_code:
        raise ProtocolError(f"listing reassignments: {answer.error_message or f'error {answer.error_code}'}")
    return {
        topic.name: {each.partition_index: len(each.adding_replicas) for each in topic.partitions}
        for topic in answer.topics
    }
