"""The field tables of Fetch (api key 1), and one Struct per version.

Must not know how they are parsed. Invariant: names, order and versions are those of FetchRequest.json and
FetchResponse.json, in snake_case.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from construct import Int8sb, Int16sb, Int32sb, Int64sb, Struct

from .apis import API_FETCH, is_flexible
from .errors import ProtocolError
from .layout import RECORDS, STRING, ArrayOf, Field, layout

if TYPE_CHECKING:
    from collections.abc import Sequence

SUPPORTED_FETCH_VERSIONS = range(7)

REQUEST_PARTITION = (
    Field(0, "partition", Int32sb),
    Field(0, "fetch_offset", Int64sb),
    Field(5, "log_start_offset", Int64sb),  # KIP-107: the follower's own
    Field(0, "partition_max_bytes", Int32sb),
)
REQUEST_TOPIC = (
    Field(0, "topic", STRING),
    Field(0, "partitions", ArrayOf(REQUEST_PARTITION)),
)
REQUEST = (
    Field(0, "replica_id", Int32sb),  # -1: a consumer
    Field(0, "max_wait_ms", Int32sb),
    Field(0, "min_bytes", Int32sb),
    Field(3, "max_bytes", Int32sb),  # KIP-74
    Field(4, "isolation_level", Int8sb),  # KIP-98
    Field(0, "topics", ArrayOf(REQUEST_TOPIC)),
)

ABORTED_TRANSACTION = (
    Field(4, "producer_id", Int64sb),
    Field(4, "first_offset", Int64sb),
)
RESPONSE_PARTITION = (
    Field(0, "partition_index", Int32sb),
    Field(0, "error_code", Int16sb),
    Field(0, "high_watermark", Int64sb),
    Field(4, "last_stable_offset", Int64sb),
    Field(5, "log_start_offset", Int64sb),
    Field(4, "aborted_transactions", ArrayOf(ABORTED_TRANSACTION, nullable=True)),
    Field(0, "records", RECORDS),
)
RESPONSE_TOPIC = (
    Field(0, "topic", STRING),
    Field(0, "partitions", ArrayOf(RESPONSE_PARTITION)),
)
RESPONSE = (
    Field(1, "throttle_time_ms", Int32sb),  # KIP-13
    Field(0, "responses", ArrayOf(RESPONSE_TOPIC)),
)


@functools.cache
def request_layout(version: int) -> Struct:
    """The Struct of a request body; ProtocolError for a version this build does not read."""
    return _layout(REQUEST, version)


@functools.cache
def response_layout(version: int) -> Struct:
    """The Struct of a response body; ProtocolError for a version this build does not read."""
    return _layout(RESPONSE, version)


def _layout(fields: Sequence[Field], version: int) -> Struct:
    if version not in SUPPORTED_FETCH_VERSIONS:
        raise ProtocolError(f"Fetch v{version} is not supported")
    return layout(fields, version, flexible=is_flexible(API_FETCH, version))
