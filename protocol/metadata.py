"""Metadata (api key 3): what topic ids stand for, which Fetch v13 and later has instead of names (KIP-516), and which
partitions topics have, with how many replicas; and in which rack each broker is.

The request that we send ourselves, and the ids, names and partitions in its response. Must not know connections, nor
when to ask. Invariant: names, order, versions and defaults of the tables are those of MetadataRequest.json and
MetadataResponse.json (Kafka 3.9 and 4.1), in snake_case.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

from construct import FormatField, Int16sb, Int32sb, Struct

from .errors import ProtocolError
from .wire.apis import API_METADATA, is_flexible
from .wire.headers import request_bytes, response_body
from .wire.layout import NULLABLE_STRING, STRING, TAGS, ArrayOf, Field, layout, parse_whole
from .wire.primitives import UUID, built

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from construct import Container

    from .wire.framing import Bytes
    from .wire.topics import Topic

SUPPORTED_METADATA_VERSIONS = range(10, 14)
"""The versions whose topics have ids."""
NAMED_METADATA_VERSIONS = range(4, 14)
"""The versions that can ask for a topic by name without creating it (KIP-204); brokers know one since Kafka 0.11."""
METADATA_VERSION = 12
"""The first version that can ask for a topic by id (KIP-516). Every broker that is sent Fetch v13 knows it."""
METADATA_VERSIONS_BY_ID = range(METADATA_VERSION, SUPPORTED_METADATA_VERSIONS.stop)

NO_ID = bytes(16)
_NO_SUCH_TOPIC = frozenset({3, 17})
"""The errors of a missing topic: UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION."""

BOOL = FormatField(">", "?")
REQUEST_TOPIC = (
    Field(10, "topic_id", UUID),
    Field(0, "name", STRING, last=9),
    Field(10, "name", NULLABLE_STRING),
)
REQUEST = (
    Field(0, "topics", ArrayOf(REQUEST_TOPIC), last=0),
    Field(1, "topics", ArrayOf(REQUEST_TOPIC, nullable=True)),  # null: all
    Field(4, "allow_auto_topic_creation", BOOL, default=True),
    Field(8, "include_cluster_authorized_operations", BOOL, last=10),
    Field(8, "include_topic_authorized_operations", BOOL),
)

RESPONSE_BROKER = (
    Field(0, "node_id", Int32sb),
    Field(0, "host", STRING),
    Field(0, "port", Int32sb),
    Field(1, "rack", NULLABLE_STRING, default=None),
)
RESPONSE_PARTITION = (
    Field(0, "error_code", Int16sb),
    Field(0, "partition_index", Int32sb),
    Field(0, "leader_id", Int32sb),
    Field(7, "leader_epoch", Int32sb, default=-1),
    Field(0, "replica_nodes", ArrayOf(Int32sb)),
    Field(0, "isr_nodes", ArrayOf(Int32sb)),
    Field(5, "offline_replicas", ArrayOf(Int32sb)),
)
RESPONSE_TOPIC = (
    Field(0, "error_code", Int16sb),
    Field(0, "name", STRING, last=11),
    Field(12, "name", NULLABLE_STRING),
    Field(10, "topic_id", UUID),
    Field(1, "is_internal", BOOL, default=False),
    Field(0, "partitions", ArrayOf(RESPONSE_PARTITION)),
    Field(8, "topic_authorized_operations", Int32sb, default=-(2**31)),
)
RESPONSE = (
    Field(3, "throttle_time_ms", Int32sb),
    Field(0, "brokers", ArrayOf(RESPONSE_BROKER)),
    Field(2, "cluster_id", NULLABLE_STRING, default=None),
    Field(1, "controller_id", Int32sb, default=-1),
    Field(0, "topics", ArrayOf(RESPONSE_TOPIC)),
    Field(8, "cluster_authorized_operations", Int32sb, last=10, default=-(2**31)),
    Field(13, "error_code", Int16sb),
)


@functools.cache
def metadata_request_layout(version: int) -> Struct:
    """Return the Struct of a request body; ProtocolError for a version this build does not read."""
    return _layout(REQUEST, version)


@functools.cache
def metadata_response_layout(version: int) -> Struct:
    """Return the Struct of a response body; ProtocolError for a version this build does not read."""
    return _layout(RESPONSE, version)


def metadata_request(
    correlation_id: int, topics: Iterable[Topic] | None, *, client_id: str, version: int = METADATA_VERSION
) -> bytes:
    """Return the frame, its length prefix not included, that asks for these topics, by name or id; None: for all.

    It creates none. Raises ProtocolError for a version not in NAMED_METADATA_VERSIONS; ids need one of
    SUPPORTED_METADATA_VERSIONS.
    """
    asked = None if topics is None else [_asked(topic) for topic in topics]
    body = {
        "topics": asked,
        "allow_auto_topic_creation": False,
        "include_cluster_authorized_operations": False,
        "include_topic_authorized_operations": False,
        TAGS: [],
    }
    encoded = built(metadata_request_layout(version), body)
    return request_bytes(API_METADATA, version, correlation_id, client_id, encoded)


def topic_names_by_id(frame: Bytes, *, version: int = METADATA_VERSION) -> dict[bytes, str]:
    """Return ids (16 bytes) and names of the topics in the response ``frame``; those with an error are left out.

    As many as the frame can hold, whose size is the caller's to bound. Raises ProtocolError for whatever is not
    such a response, to the last byte.
    """
    if version not in SUPPORTED_METADATA_VERSIONS:
        raise ProtocolError(f"Metadata v{version} is not supported: it has no topic ids")
    return {
        topic.topic_id: topic.name
        for topic in _body(frame, version).topics
        if topic.error_code == 0 and topic.name is not None and topic.topic_id != NO_ID
    }


def partitions_by_topic(frame: Bytes, *, version: int) -> dict[str, frozenset[int]]:
    """Return the partitions of each topic in the response ``frame``, by name; none of a topic that the cluster does not
    have.

    A topic with any other error (not authorised, say) is left out: nothing is known of it. Raises ProtocolError for
    whatever is not such a response, to the last byte.
    """
    found = {}
    for topic in _body(frame, version).topics:
        if topic.name is not None and (topic.error_code == 0 or topic.error_code in _NO_SUCH_TOPIC):
            found[topic.name] = frozenset(each.partition_index for each in topic.partitions)
    return found


class ReplicaCount(NamedTuple):
    """The number of a partition's replicas, which in Metadata includes those that a reassignment adds, and of those in
    sync."""

    replicas: int
    in_sync: int


def replica_counts(frame: Bytes, *, version: int) -> dict[Topic, dict[int, ReplicaCount]]:
    """Return how many replicas of each partition there are and are in sync, by topic name, and by topic id as well
    where the response ``frame`` has ids; those with an error are left out.

    As many as the frame can hold, whose size is the caller's to bound. Raises ProtocolError for whatever is not
    such a response, to the last byte.
    """
    found: dict[Topic, dict[int, ReplicaCount]] = {}
    for topic in _body(frame, version).topics:
        if topic.error_code:
            continue
        counts = {
            each.partition_index: ReplicaCount(len(each.replica_nodes), len(each.isr_nodes))
            for each in topic.partitions
        }
        topic_id = topic.get("topic_id", NO_ID)
        if topic_id != NO_ID:
            found[topic_id] = counts
        if topic.name is not None:
            found[topic.name] = counts
    return found


def cluster_and_racks(frame: Bytes, *, version: int) -> tuple[str, dict[int, str]]:
    """Return the cluster's id, empty if the broker does not know it, and the rack (broker.rack) of each broker that is
    alive, by its id; empty of one that is in none.

    As many as the frame can hold, whose size is the caller's to bound. Raises ProtocolError for whatever is not
    such a response, to the last byte.
    """
    body = _body(frame, version)
    return body.cluster_id or "", {broker.node_id: broker.rack or "" for broker in body.brokers}


def broker_hosts(frame: Bytes, *, version: int) -> frozenset[str]:
    """Return the hosts at which the brokers that are alive are reached, as the response ``frame`` names them.

    As many as the frame can hold, whose size is the caller's to bound. Raises ProtocolError for whatever is not
    such a response, to the last byte.
    """
    return frozenset(broker.host for broker in _body(frame, version).brokers)


class Links(NamedTuple):
    """The brokers between which and one broker replication runs, those alone that are alive."""

    leaders: frozenset[int] = frozenset()
    """The brokers it fetches from."""
    followers: frozenset[int] = frozenset()
    """The brokers that fetch from it."""
    hosts: Mapping[int, tuple[str, int]] = {}
    """The advertised host and port of each broker that is alive."""
    addresses: Mapping[str, int] = {}
    """The brokers by the addresses that their hosts have, as far as they were looked up."""


def replication_links(frame: Bytes, *, version: int, broker_id: int) -> Links:
    """Return the links of a broker, as far as the topics in the response ``frame`` go.

    Raises ProtocolError for whatever is not such a response, to the last byte.
    """
    body = _body(frame, version)
    alive = {broker.node_id for broker in body.brokers} - {broker_id}
    leaders: set[int] = set()
    followers: set[int] = set()
    for topic in body.topics:
        for each in topic.partitions:
            if each.leader_id == broker_id:
                followers.update(each.replica_nodes)
            elif broker_id in each.replica_nodes:
                leaders.add(each.leader_id)
    hosts = {broker.node_id: (broker.host, broker.port) for broker in body.brokers}
    return Links(frozenset(leaders & alive), frozenset(followers & alive), hosts)


def _body(frame: Bytes, version: int) -> Container[Any]:
    return parse_whole(metadata_response_layout(version), response_body(frame, API_METADATA, version))


def _asked(topic: Topic) -> dict[str, object]:
    by_id = isinstance(topic, bytes)
    return {"topic_id": topic if by_id else NO_ID, "name": None if by_id else topic, TAGS: []}


def _layout(fields: Sequence[Field], version: int) -> Struct:
    if version not in NAMED_METADATA_VERSIONS:
        raise ProtocolError(f"Metadata v{version} is not supported")
    return layout(fields, version, flexible=is_flexible(API_METADATA, version))
