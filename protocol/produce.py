"""The field table of Produce's response (api key 0), where `throttle_time_ms` stands in it, and whether it refuses.

Must not know when a client is throttled. Invariant: names, order, versions, tags and defaults are those of
ProduceResponse.json (Kafka 3.9 and 4.1), in snake_case.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

from construct import Int16sb, Int32sb, Int64sb, Struct

from .errors import ProtocolError
from .walkers.compiler import compile_walker
from .walkers.rows import Rows
from .wire.apis import API_PRODUCE, is_flexible
from .wire.layout import NULLABLE_STRING, STRING, ArrayOf, Field, StructOf, layout
from .wire.primitives import UUID

if TYPE_CHECKING:
    from .wire.framing import Bytes

FIRST_VERSION_WITH_THROTTLE_TIME = 1  # KIP-13
SUPPORTED_PRODUCE_VERSIONS = range(14)

RECORD_ERROR = (
    Field(8, "batch_index", Int32sb),
    Field(8, "batch_index_error_message", NULLABLE_STRING, default=None),
)
LEADER_ID_AND_EPOCH = (
    Field(10, "leader_id", Int32sb, default=-1),
    Field(10, "leader_epoch", Int32sb, default=-1),
)
RESPONSE_PARTITION = (
    Field(0, "index", Int32sb),
    Field(0, "error_code", Int16sb),
    Field(0, "base_offset", Int64sb),
    Field(2, "log_append_time_ms", Int64sb, default=-1),
    Field(5, "log_start_offset", Int64sb, default=-1),
    Field(8, "record_errors", ArrayOf(RECORD_ERROR)),  # KIP-467
    Field(8, "error_message", NULLABLE_STRING, default=None),
    Field(10, "current_leader", StructOf(LEADER_ID_AND_EPOCH), tag=0),  # KIP-951
)
RESPONSE_TOPIC = (
    Field(0, "name", STRING, last=12),
    Field(13, "topic_id", UUID),  # KIP-516
    Field(0, "partition_responses", ArrayOf(RESPONSE_PARTITION)),
)
NODE_ENDPOINT = (
    Field(10, "node_id", Int32sb),
    Field(10, "host", STRING),
    Field(10, "port", Int32sb),
    Field(10, "rack", NULLABLE_STRING, default=None),
)
RESPONSE = (
    Field(0, "responses", ArrayOf(RESPONSE_TOPIC)),
    Field(1, "throttle_time_ms", Int32sb, default=0),  # KIP-13
    Field(10, "node_endpoints", ArrayOf(NODE_ENDPOINT), tag=0),  # KIP-951
)
_ROWS = Rows(tuple, path=("responses", "partition_responses"), columns=("error_code",))
_TAKEN_ALL_THE_SAME = frozenset({0, 7, 20})
"""The error codes of partitions whose records the broker has appended: none; REQUEST_TIMED_OUT, as other replicas have
not; NOT_ENOUGH_REPLICAS_AFTER_APPEND."""


@functools.cache
def response_layout(version: int) -> Struct:
    """Return the Struct of a response body; ProtocolError for a version this build does not read."""
    if version not in SUPPORTED_PRODUCE_VERSIONS:
        raise ProtocolError(f"Produce v{version} is not supported")
    return layout(RESPONSE, version, flexible=is_flexible(API_PRODUCE, version))


@functools.cache
def _walker(version: int) -> Any:
    return compile_walker(response_layout(version), _ROWS)


class ProduceAnswer(NamedTuple):
    throttle_time_at: int | None
    """The position of the throttle time in the buffer; None in v0, which has none."""
    is_refused: bool
    """True if the broker has appended nothing of what was sent."""


def peek_produce_answer(version: int, buffer: Bytes, body_at: int, end: int) -> ProduceAnswer:
    """Return what the whole response body ``buffer[body_at:end]`` says. Raises ProtocolError for a body or a version
    that is not understood."""
    head: dict[str, Any] = {}
    codes: list[tuple[int]] = []
    after = _walker(version).at_once(buffer, body_at, end, codes.append, head)
    if after != end:
        raise ProtocolError(f"{end - after} bytes follow the end of the message")
    is_refused = bool(codes) and all(code not in _TAKEN_ALL_THE_SAME for (code,) in codes)
    at = None if version < FIRST_VERSION_WITH_THROTTLE_TIME else int(head["responses_end"])
    return ProduceAnswer(at, is_refused)
