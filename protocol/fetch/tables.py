"""The field tables of Fetch (api key 1), and one Struct per version.

Must not know how they are parsed. Invariant: names, order, versions, tags and defaults are those of
FetchRequest.json and FetchResponse.json (Kafka 3.9 and 4.1), in snake_case.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from construct import Int8sb, Int16sb, Int32sb, Int64sb, Struct

from ..errors import ProtocolError
from ..wire.apis import API_FETCH, is_flexible
from ..wire.layout import NULLABLE_STRING, RECORDS, STRING, ArrayOf, Field, StructOf, layout
from ..wire.primitives import UUID

if TYPE_CHECKING:
    from collections.abc import Sequence

SUPPORTED_FETCH_VERSIONS = range(19)
"""The versions that can be read and written here."""

FIRST_VERSION_WITH_WHOLE_BATCHES = 3
"""The first version in which a partition_max_bytes smaller than a message does not yield half a message (KIP-74)."""
FIRST_VERSION_WITH_SESSIONS = 7  # KIP-227
FIRST_VERSION_WITH_TOPIC_IDS = 13  # KIP-516
FIRST_VERSION_WITH_REPLICA_STATE = 15  # KIP-903

UNKNOWN_OFFSET = -1
NO_SESSION_ID = 0
INITIAL_EPOCH = 0
"""The session epoch of a full request that wants a session; with a session id it closes that one first (KIP-227)."""
FINAL_EPOCH = -1
"""The session epoch of a full request without a session, and of every request before v7; with a session id it closes
that one."""

REPLICA_STATE = (
    Field(15, "replica_id", Int32sb, default=-1),
    Field(15, "replica_epoch", Int64sb, default=-1),  # the broker epoch
)
REQUEST_PARTITION = (
    Field(0, "partition", Int32sb),
    Field(9, "current_leader_epoch", Int32sb, default=-1),  # KIP-320
    Field(0, "fetch_offset", Int64sb),
    Field(12, "last_fetched_epoch", Int32sb, default=-1),  # KIP-595
    Field(5, "log_start_offset", Int64sb, default=-1),  # KIP-107: the follower's own
    Field(0, "partition_max_bytes", Int32sb),
    Field(17, "replica_directory_id", UUID, tag=0),  # KIP-853
    Field(18, "high_watermark", Int64sb, default=2**63 - 1, tag=1),  # KIP-1166: the follower's own
)
REQUEST_TOPIC = (
    Field(0, "topic", STRING, last=12),
    Field(13, "topic_id", UUID),
    Field(0, "partitions", ArrayOf(REQUEST_PARTITION)),
)
FORGOTTEN_TOPIC = (
    Field(7, "topic", STRING, last=12),
    Field(13, "topic_id", UUID),
    Field(7, "partitions", ArrayOf(Int32sb)),
)
REQUEST = (
    Field(12, "cluster_id", NULLABLE_STRING, default=None, tag=0),
    Field(0, "replica_id", Int32sb, last=14, default=-1),  # -1: a consumer
    Field(15, "replica_state", StructOf(REPLICA_STATE), tag=1),
    Field(0, "max_wait_ms", Int32sb),
    Field(0, "min_bytes", Int32sb),
    Field(3, "max_bytes", Int32sb, default=2**31 - 1),  # KIP-74
    Field(4, "isolation_level", Int8sb, default=0),  # KIP-98
    Field(7, "session_id", Int32sb, default=0),  # KIP-227
    Field(7, "session_epoch", Int32sb, default=-1),
    Field(0, "topics", ArrayOf(REQUEST_TOPIC)),
    Field(7, "forgotten_topics_data", ArrayOf(FORGOTTEN_TOPIC)),
    Field(11, "rack_id", STRING, default=""),  # KIP-392
)

ABORTED_TRANSACTION = (
    Field(4, "producer_id", Int64sb),
    Field(4, "first_offset", Int64sb),
)
EPOCH_END_OFFSET = (
    Field(12, "epoch", Int32sb, default=-1),
    Field(12, "end_offset", Int64sb, default=-1),
)
LEADER_ID_AND_EPOCH = (
    Field(12, "leader_id", Int32sb, default=-1),
    Field(12, "leader_epoch", Int32sb, default=-1),
)
SNAPSHOT_ID = (
    Field(0, "end_offset", Int64sb, default=-1),
    Field(0, "epoch", Int32sb, default=-1),
)
RESPONSE_PARTITION = (
    Field(0, "partition_index", Int32sb),
    Field(0, "error_code", Int16sb),
    Field(0, "high_watermark", Int64sb),
    Field(4, "last_stable_offset", Int64sb, default=-1),
    Field(5, "log_start_offset", Int64sb, default=-1),
    Field(12, "diverging_epoch", StructOf(EPOCH_END_OFFSET), tag=0),  # KIP-595
    Field(12, "current_leader", StructOf(LEADER_ID_AND_EPOCH), tag=1),
    Field(12, "snapshot_id", StructOf(SNAPSHOT_ID), tag=2),  # KIP-630
    Field(4, "aborted_transactions", ArrayOf(ABORTED_TRANSACTION, nullable=True)),
    Field(11, "preferred_read_replica", Int32sb, default=-1),  # KIP-392
    Field(0, "records", RECORDS),
)
RESPONSE_TOPIC = (
    Field(0, "topic", STRING, last=12),
    Field(13, "topic_id", UUID),
    Field(0, "partitions", ArrayOf(RESPONSE_PARTITION)),
)
NODE_ENDPOINT = (
    Field(16, "node_id", Int32sb),
    Field(16, "host", STRING),
    Field(16, "port", Int32sb),
    Field(16, "rack", NULLABLE_STRING, default=None),
)
RESPONSE = (
    Field(1, "throttle_time_ms", Int32sb),  # KIP-13
    Field(7, "error_code", Int16sb),  # KIP-227
    Field(7, "session_id", Int32sb, default=0),
    Field(0, "responses", ArrayOf(RESPONSE_TOPIC)),
    Field(16, "node_endpoints", ArrayOf(NODE_ENDPOINT), tag=0),  # KIP-951
)


@functools.cache
def request_layout(version: int) -> Struct:
    """Return the Struct of a request body; ProtocolError for a version this build does not read."""
    return _layout(REQUEST, version)


@functools.cache
def response_layout(version: int) -> Struct:
    """Return the Struct of a response body; ProtocolError for a version this build does not read."""
    return _layout(RESPONSE, version)


def _layout(fields: Sequence[Field], version: int) -> Struct:
    if version not in SUPPORTED_FETCH_VERSIONS:
        raise ProtocolError(f"Fetch v{version} is not supported")
    return layout(fields, version, flexible=is_flexible(API_FETCH, version))


_ERROR_NAMES = {
    -1: "UNKNOWN_SERVER_ERROR", 1: "OFFSET_OUT_OF_RANGE", 2: "CORRUPT_MESSAGE", 3: "UNKNOWN_TOPIC_OR_PARTITION",
    6: "NOT_LEADER_OR_FOLLOWER", 9: "REPLICA_NOT_AVAILABLE", 29: "TOPIC_AUTHORIZATION_FAILED",
    31: "CLUSTER_AUTHORIZATION_FAILED", 56: "KAFKA_STORAGE_ERROR", 74: "FENCED_LEADER_EPOCH",
    75: "UNKNOWN_LEADER_EPOCH", 76: "UNSUPPORTED_COMPRESSION_TYPE", 100: "UNKNOWN_TOPIC_ID",
    103: "INCONSISTENT_TOPIC_ID", 106: "FETCH_SESSION_TOPIC_ID_ERROR",
}  # fmt: skip
"""The errors that a broker answers a partition of a Fetch with."""
NOT_AUTHORIZED = frozenset({29, 31})
"""TOPIC_AUTHORIZATION_FAILED and CLUSTER_AUTHORIZATION_FAILED."""


def error_name(code: int) -> str:
    """Return Kafka's name of a partition's error."""
    return _ERROR_NAMES.get(code, f"error {code}")
