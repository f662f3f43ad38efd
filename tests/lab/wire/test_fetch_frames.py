"""The tap's reader against frames that Kafka's own classes wrote, and what Kafka itself says they hold."""

from __future__ import annotations

import struct

import pytest

from lab.wire.fetch_frames import LAST_VERSION
from lab.wire.fetch_stream import FetchAnswered, FetchLink, FetchRequested
from tests.protocol.frames import REQUESTS, RESPONSES, Golden, named

from ..fetch_bytes import frame, request

CONSUMER = -1


def said_replica(golden: Golden) -> int:
    body = golden.said["body"]
    if golden.version < 15:
        return int(body["replicaId"])
    return int(body.get("replicaState", {"replicaId": CONSUMER})["replicaId"])


def said_partitions(golden: Golden) -> list[tuple[str, int, int]]:
    key = "topic" if golden.version < 13 else "topicId"
    return [
        (topic[key], entry["partitionIndex"], entry["recordsSizeInBytes"])
        for topic in golden.said["body"]["responses"]
        for entry in topic["partitions"]
        if entry.get("recordsSizeInBytes")
    ]


@pytest.mark.parametrize("golden", REQUESTS, ids=[each.name for each in REQUESTS])
def test_whose_request_it_is(golden: Golden) -> None:
    link = FetchLink()
    # A second frame behind it proves that the first ended where it should.
    one, other = frame(golden.frame), request(3, 9)
    first = FetchRequested(golden.version, golden.said["correlationId"], said_replica(golden), len(one))
    assert link.request_bytes(memoryview(one + other)) == [first, FetchRequested(3, 9, 102, len(other))]


@pytest.mark.parametrize("golden", RESPONSES, ids=[each.name for each in RESPONSES])
@pytest.mark.parametrize("chunk_bytes", [7, 1 << 20])
def test_what_an_answer_carries(golden: Golden, chunk_bytes: int) -> None:
    link = FetchLink()
    correlation = golden.said["correlationId"]
    link.request_bytes(memoryview(request(golden.version, correlation)))
    link.request_bytes(memoryview(request(0, 9)))
    sent = frame(golden.frame) + frame(struct.pack(">ii", 9, 0))
    answered = [
        answer
        for at in range(0, len(sent), chunk_bytes)
        for answer in link.response_bytes(memoryview(sent[at : at + chunk_bytes]))
    ]
    body = golden.said["body"]
    session = (body.get("errorCode", 0), body.get("sessionId", 0))
    size = len(golden.frame) + 4
    assert answered == [
        FetchAnswered(golden.version, 102, said_partitions(golden), size, session),
        FetchAnswered(0, 102, [], 12),
    ]


def test_every_version_is_among_them() -> None:
    versions = set(range(LAST_VERSION + 1))
    assert {each.version for each in REQUESTS} == {each.version for each in RESPONSES} == versions
    assert said_replica(named("fetch-request-v18-replica-two")) == 102
