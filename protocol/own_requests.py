"""The requests that the sidecar sends a broker itself, besides Metadata, and what their responses say:

    ApiVersions (api key 18, KIP-35)                  which versions of a request a broker knows
    SaslHandshake (17), SaslAuthenticate (36)         how the sidecar logs in (KIP-152)
    DescribeConfigs (32, KIP-133, KIP-226)            which throttle a broker has of its own
    ListPartitionReassignments (46, KIP-455)          which replicas are being added to partitions

A broker that is sent a version it does not know closes the connection and logs an error with a stack trace. Every
broker since Kafka 0.10 answers ApiVersions v0. Must not know connections, when to ask, nor what a login mechanism
exchanges, which is bytes here. Invariant: names, order and versions are those of Kafka's message specs (3.9, 4.1 and
4.3), in snake_case.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from construct import Int8sb, Int16sb, Int32sb, Struct

from .errors import ProtocolError
from .metadata import BOOL
from .sasl import AUTHENTICATE, AUTHENTICATE_RESPONSE, HANDSHAKE
from .wire.apis import (
    API_DESCRIBE_CONFIGS,
    API_LIST_PARTITION_REASSIGNMENTS,
    API_SASL_AUTHENTICATE,
    API_SASL_HANDSHAKE,
    API_VERSIONS,
    api_name,
    is_flexible,
)
from .wire.headers import request_bytes, response_body
from .wire.layout import NULLABLE_STRING, STRING, TAGS, ArrayOf, Field, layout, parse_whole
from .wire.primitives import KArray, built

if TYPE_CHECKING:
    from collections.abc import Collection

    from .wire.framing import Bytes


HANDSHAKE_VERSION = 1
AUTHENTICATE_VERSION = 0
_HANDSHAKE, _AUTHENTICATE = layout(HANDSHAKE, HANDSHAKE_VERSION), layout(AUTHENTICATE, AUTHENTICATE_VERSION)
_HANDSHAKE_RESPONSE = Struct("error_code" / Int16sb, "mechanisms" / KArray(STRING.plain))
_AUTHENTICATE_RESPONSE = layout(AUTHENTICATE_RESPONSE, AUTHENTICATE_VERSION)
API_VERSIONS_VERSION = 0
_API = Struct("api_key" / Int16sb, "min_version" / Int16sb, "max_version" / Int16sb)
API_VERSIONS_RESPONSE = Struct("correlation_id" / Int32sb, "error_code" / Int16sb, "api_keys" / KArray(_API))
REASSIGNMENT_VERSIONS = range(1)
_TIMEOUT_MS = 5_000
_REQUEST_TOPIC = (Field(0, "name", STRING), Field(0, "partition_indexes", ArrayOf(Int32sb)))
REASSIGNMENTS_REQUEST = (
    Field(0, "timeout_ms", Int32sb, default=60_000),
    Field(0, "topics", ArrayOf(_REQUEST_TOPIC, nullable=True), default=None),  # null: all
)
_PARTITION = (
    Field(0, "partition_index", Int32sb),
    Field(0, "replicas", ArrayOf(Int32sb)),
    Field(0, "adding_replicas", ArrayOf(Int32sb)),
    Field(0, "removing_replicas", ArrayOf(Int32sb)),
)
REASSIGNMENTS_RESPONSE = (
    Field(0, "throttle_time_ms", Int32sb),
    Field(0, "error_code", Int16sb),
    Field(0, "error_message", NULLABLE_STRING),
    Field(0, "topics", ArrayOf((Field(0, "name", STRING), Field(0, "partitions", ArrayOf(_PARTITION))))),
)

DESCRIBE_CONFIGS_VERSIONS = range(1, 2)
"""The one that every broker since Kafka 1.1 knows; 4.0 has left out v0."""
_BROKER_RESOURCE, _STATIC = 4, 4
_RESOURCE = (Field(0, "resource_type", Int8sb), Field(0, "resource_name", STRING))
DESCRIBE_CONFIGS_REQUEST = (
    Field(
        0,
        "resources",
        ArrayOf((*_RESOURCE, Field(0, "configuration_keys", ArrayOf(STRING.plain, nullable=True)))),  # null: all
    ),
    Field(1, "include_synonyms", BOOL, default=False),
    Field(3, "include_documentation", BOOL, default=False),
)
_SYNONYM = (Field(1, "name", STRING), Field(1, "value", NULLABLE_STRING), Field(1, "source", Int8sb))
_CONFIG = (
    Field(0, "name", STRING),
    Field(0, "value", NULLABLE_STRING),
    Field(0, "read_only", BOOL),
    Field(0, "is_default", BOOL, last=0),
    Field(1, "config_source", Int8sb, default=-1),
    Field(0, "is_sensitive", BOOL),
    Field(1, "synonyms", ArrayOf(_SYNONYM)),
    Field(3, "config_type", Int8sb, default=0),
    Field(3, "documentation", NULLABLE_STRING),
)
DESCRIBE_CONFIGS_RESPONSE = (
    Field(0, "throttle_time_ms", Int32sb),
    Field(
        0,
        "results",
        ArrayOf(
            (
                Field(0, "error_code", Int16sb),
                Field(0, "error_message", NULLABLE_STRING),
                *_RESOURCE,
                Field(0, "configs", ArrayOf(_CONFIG)),
            )
        ),
    ),
)


class SaslRefusedError(ProtocolError):
    """The broker does not have the mechanism, or does not accept who logs in."""


def handshake_request(correlation_id: int, mechanism: str, *, client_id: str) -> bytes:
    """Return the frame, its length prefix not included, that names the mechanism."""
    body = built(_HANDSHAKE, {"mechanism": mechanism})
    return request_bytes(API_SASL_HANDSHAKE, HANDSHAKE_VERSION, correlation_id, client_id, body)


def read_handshake(frame: bytes, mechanism: str) -> None:
    """Check the broker's answer to SaslHandshake. Raises SaslRefusedError if the broker does not have it, ProtocolError
    for whatever is no such response."""
    answer = parse_whole(_HANDSHAKE_RESPONSE, response_body(frame, API_SASL_HANDSHAKE, HANDSHAKE_VERSION))
    if answer.error_code:
        raise SaslRefusedError(f"it has no {mechanism}, but {', '.join(answer.mechanisms) or 'no mechanism at all'}")


def authenticate_request(correlation_id: int, auth_bytes: bytes, *, client_id: str) -> bytes:
    """Return the frame, its length prefix not included, that carries what the mechanism says."""
    body = built(_AUTHENTICATE, {"auth_bytes": auth_bytes})
    return request_bytes(API_SASL_AUTHENTICATE, AUTHENTICATE_VERSION, correlation_id, client_id, body)


def read_authenticate(frame: bytes) -> bytes:
    """Return what the broker's mechanism answers.

    Raises SaslRefusedError if it does not accept who logs in, ProtocolError for whatever is no such response.
    """
    answer = parse_whole(_AUTHENTICATE_RESPONSE, response_body(frame, API_SASL_AUTHENTICATE, AUTHENTICATE_VERSION))
    if answer.error_code:
        raise SaslRefusedError(f"login refused: {answer.error_message or f'error {answer.error_code}'}")
    return answer.auth_bytes or b""


def api_versions_request(correlation_id: int, *, client_id: str) -> bytes:
    """Return the frame, its length prefix not included. It has no body."""
    return request_bytes(API_VERSIONS, API_VERSIONS_VERSION, correlation_id, client_id, b"")


def newest_version(frame: bytes, api_key: int, ours: range) -> int:
    """Return the newest version of a request that the broker which answered ``frame`` knows, of those that are ours.

    Raises ProtocolError if there is none, and for whatever is no such response, to the last byte.
    """
    answer = parse_whole(API_VERSIONS_RESPONSE, frame)
    if answer.error_code:
        raise ProtocolError(f"ApiVersions: error {answer.error_code}")
    found = [(api.min_version, api.max_version) for api in answer.api_keys if api.api_key == api_key]
    first, last = found[0] if found else (0, -1)
    common = range(max(first, ours.start), min(last + 1, ours.stop))
    if not common:
        has = f"v{first} to v{last}" if found else "none"
        raise ProtocolError(
            f"expected a broker that knows {api_name(api_key)} v{ours.start} to v{ours.stop - 1}, and it knows {has}"
        )
    return common[-1]


def reassignments_request(correlation_id: int, *, client_id: str, version: int) -> bytes:
    """Return the frame, its length prefix not included, that asks for every reassignment under way."""
    fields = layout(REASSIGNMENTS_REQUEST, version, flexible=is_flexible(API_LIST_PARTITION_REASSIGNMENTS, version))
    body = built(fields, {"timeout_ms": _TIMEOUT_MS, "topics": None, TAGS: []})
    return request_bytes(API_LIST_PARTITION_REASSIGNMENTS, version, correlation_id, client_id, body)


def added_replicas(frame: Bytes, *, version: int) -> dict[str, dict[int, int]]:
    """Return how many replicas are being added, by topic and partition of the reassignments in the response `frame`.

    Raises ProtocolError for an error code, and for whatever is no such response, to the last byte.
    """
    fields = layout(REASSIGNMENTS_RESPONSE, version, flexible=is_flexible(API_LIST_PARTITION_REASSIGNMENTS, version))
    answer = parse_whole(fields, response_body(frame, API_LIST_PARTITION_REASSIGNMENTS, version))
    if answer.error_code:
        raise ProtocolError(f"listing reassignments: {answer.error_message or f'error {answer.error_code}'}")
    return {
        topic.name: {each.partition_index: len(each.adding_replicas) for each in topic.partitions}
        for topic in answer.topics
    }


def broker_configs_request(
    correlation_id: int, broker: int, keys: Collection[str], *, client_id: str, version: int
) -> bytes:
    """Return the frame, its length prefix not included, that asks for these configs of a broker. It must go to that
    broker: others refuse."""
    resource = {"resource_type": _BROKER_RESOURCE, "resource_name": str(broker), "configuration_keys": list(keys)}
    fields = layout(DESCRIBE_CONFIGS_REQUEST, version)
    body = built(fields, {"resources": [resource], "include_synonyms": False})
    return request_bytes(API_DESCRIBE_CONFIGS, version, correlation_id, client_id, body)


def dynamic_configs(frame: Bytes, *, version: int) -> dict[str, str]:
    """Return the values in the response `frame` that were set while brokers ran, by key: Kafka takes a throttle from
    nowhere else.

    Raises ProtocolError for an error code, and for whatever is no such response, to the last byte.
    """
    fields = layout(DESCRIBE_CONFIGS_RESPONSE, version)
    answer = parse_whole(fields, response_body(frame, API_DESCRIBE_CONFIGS, version))
    for result in answer.results:
        if result.error_code:
            raise ProtocolError(f"describing configs: {result.error_message or f'error {result.error_code}'}")
    configs = (config for result in answer.results for config in result.configs)
    return {each.name: each.value for each in configs if each.value is not None and each.config_source != _STATIC}
