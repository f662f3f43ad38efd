"""Metadata: what we ask is what Kafka reads, and of what Kafka answers we know which id is which name."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest

from protocol.errors import ProtocolError
from protocol.metadata import (
    METADATA_VERSION,
    NAMED_METADATA_VERSIONS,
    NO_ID,
    SUPPORTED_METADATA_VERSIONS,
    Links,
    metadata_request,
    metadata_response_layout,
    partitions_by_topic,
    replication_links,
    topic_names_by_id,
)
from protocol.wire.apis import API_METADATA
from protocol.wire.headers import response_header, response_header_version
from protocol.wire.layout import TAGS

from .kafka_codec import KafkaCodec

if TYPE_CHECKING:
    from collections.abc import Sequence

ORDERS, CLICKS = bytes(range(16)), b"\7" * 16
each_version = pytest.mark.parametrize("version", SUPPORTED_METADATA_VERSIONS)


def topic(name: str | None, topic_id: bytes, error_code: int = 0, partitions: int = 2) -> dict[str, Any]:
    each = {"error_code": 0, "leader_id": 101, "leader_epoch": 3, "isr_nodes": [101], "offline_replicas": [], TAGS: []}
    return {
        "error_code": error_code,
        "name": name,
        "topic_id": topic_id,
        "is_internal": False,
        "partitions": [{"partition_index": p, "replica_nodes": [101, 102], **each} for p in range(partitions)],
        "topic_authorized_operations": -(2**31),
        TAGS: [],
    }


def response(version: int, *topics: dict[str, Any], alive: Sequence[int] = (101,)) -> bytes:
    values = {
        "throttle_time_ms": 0,
        "brokers": [{"node_id": each, "host": "h", "port": 9092, "rack": None, TAGS: []} for each in alive],
        "cluster_id": "c",
        "controller_id": 101,
        "topics": list(topics),
        "cluster_authorized_operations": -(2**31),
        "error_code": 0,
        TAGS: [(200, b"?")],
    }
    header = response_header(response_header_version(API_METADATA, version)).build({"correlation_id": 5, TAGS: []})
    return bytes(header + metadata_response_layout(version).build(values))


@each_version
def test_ids_and_names(version: int) -> None:
    frame = response(version, topic("orders", ORDERS), topic("clicks", CLICKS, partitions=0))
    assert topic_names_by_id(frame, version=version) == {ORDERS: "orders", CLICKS: "clicks"}


def test_what_does_not_exist_is_left_out() -> None:
    unknown_name, unknown_id = topic("gone", NO_ID, error_code=3), topic(None, CLICKS, error_code=100)
    odd = [topic(None, CLICKS), topic("old", NO_ID)]  # a broker without topic ids
    frame = response(METADATA_VERSION, unknown_name, unknown_id, *odd, topic("orders", ORDERS))
    assert topic_names_by_id(frame) == {ORDERS: "orders"}


def test_anything_else_is_an_error() -> None:
    frame = response(METADATA_VERSION, topic("orders", ORDERS))
    for size in range(len(frame)):
        with pytest.raises(ProtocolError):
            topic_names_by_id(frame[:size])
    with pytest.raises(ProtocolError, match="follow"):
        topic_names_by_id(frame + b"\0")


@pytest.mark.parametrize("version", NAMED_METADATA_VERSIONS)
def test_partitions_of_what_there_is_and_none_of_what_there_is_not(version: int) -> None:
    there, gone, invalid = topic("orders", ORDERS, partitions=3), topic("gone", NO_ID, 3, 0), topic("a b", NO_ID, 17, 0)
    starting, secret = topic("new", CLICKS, 5, 0), topic("secret", NO_ID, 29, 0)
    frame = response(version, there, gone, invalid, starting, secret)
    assert partitions_by_topic(frame, version=version) == {
        "orders": frozenset({0, 1, 2}), "gone": frozenset(), "a b": frozenset(),
    }  # fmt: skip
    for size in range(len(frame)):
        with pytest.raises(ProtocolError):
            partitions_by_topic(frame[:size], version=version)


@pytest.mark.parametrize("version", [3, 14])
def test_versions_that_would_create_topics_are_not_asked(version: int) -> None:
    with pytest.raises(ProtocolError, match="not supported"):
        metadata_request(1, ["a"], client_id="c", version=version)
    with pytest.raises(ProtocolError, match="not supported"):
        partitions_by_topic(bytes(9), version=version)


@pytest.mark.parametrize("version", [4, 12, 13])
def test_links_are_those_of_brokers_that_are_alive(version: int) -> None:
    """101 leads partitions 0 and 1, follows in 2 and has nothing to do with 3; 104 is dead."""
    layout = [(101, [101, 102]), (101, [101, 104, 103]), (103, [103, 101]), (104, [104, 101]), (105, [105, 102])]
    orders = topic("orders", ORDERS, partitions=len(layout))
    for each, (leader, replicas) in zip(orders["partitions"], layout, strict=True):
        each |= {"leader_id": leader, "replica_nodes": replicas}
    frame = response(version, orders, alive=[101, 102, 103, 105])
    hosts = dict.fromkeys((101, 102, 103, 105), ("h", 9092))
    found = {broker: replication_links(frame, version=version, broker_id=broker) for broker in (101, 102, 106)}
    assert found == {
        101: Links(frozenset({103}), frozenset({102, 103}), hosts),
        102: Links(frozenset({101, 105}), hosts=hosts),
        106: Links(hosts=hosts),
    }


@pytest.mark.parametrize("version", [9, 14])
def test_other_versions_are_refused(version: int) -> None:
    with pytest.raises(ProtocolError, match="not supported"):
        topic_names_by_id(bytes(9), version=version)


def text(topic_id: bytes) -> str:
    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")


@pytest.mark.brokers
@pytest.mark.timeout(300)
def test_kafka_reads_what_we_ask_and_we_what_it_answers() -> None:
    with KafkaCodec("4.1.0") as codec:
        for topics in (None, [], ["orders", ORDERS]):
            frame = metadata_request(7, topics, client_id="sidecar")
            said = codec.check(API_METADATA, "request", METADATA_VERSION, frame)
            assert said.frame == frame
            body = json.loads(said.text)
            assert body["allowAutoTopicCreation"] is False
            asked = body["topics"] and [(each["topicId"], each["name"]) for each in body["topics"]]
            assert asked == (topics and [(text(NO_ID), "orders"), (text(ORDERS), None)])
        for version in range(NAMED_METADATA_VERSIONS.start, SUPPORTED_METADATA_VERSIONS.start):
            frame = metadata_request(7, ["orders", "clicks"], client_id="sidecar", version=version)
            said = codec.check(API_METADATA, "request", version, frame)
            assert said.frame == frame
            body = json.loads(said.text)
            assert body["allowAutoTopicCreation"] is False
            assert [each["name"] for each in body["topics"]] == ["orders", "clicks"]
        for seed in range(1000):
            version = NAMED_METADATA_VERSIONS[seed % len(NAMED_METADATA_VERSIONS)]
            said = codec.make(API_METADATA, "response", version, seed)
            assert said.frame is not None, said.text
            wanted = {
                each["name"]: {partition["partitionIndex"] for partition in each["partitions"]}
                for each in json.loads(said.text)["topics"]
                if each["errorCode"] in (0, 3, 17) and each["name"] is not None
            }
            assert partitions_by_topic(said.frame, version=version) == wanted
        for seed in range(2000):
            version = SUPPORTED_METADATA_VERSIONS[seed % 4]
            said = codec.make(API_METADATA, "response", version, seed)
            assert said.frame is not None, said.text
            named = {text(topic_id): name for topic_id, name in topic_names_by_id(said.frame, version=version).items()}
            topics_said = json.loads(said.text)["topics"]
            known = [each for each in topics_said if each["errorCode"] == 0 and each["name"] is not None]
            assert named == {each["topicId"]: each["name"] for each in known}
