"""ApiVersions: what we ask is what Kafka reads, and of its answer we take the newest version that both know."""

from __future__ import annotations

import json
import struct

import pytest

from protocol.errors import ProtocolError
from protocol.own_requests import API_VERSIONS_VERSION, api_versions_request, newest_version
from protocol.wire.apis import API_METADATA, API_VERSIONS

from .kafka_codec import KafkaCodec

HEAD = struct.pack(">i", 7)


def answer(*apis: tuple[int, int, int], error: int = 0) -> bytes:
    return HEAD + struct.pack(">hi", error, len(apis)) + b"".join(struct.pack(">hhh", *api) for api in apis)


def test_the_request_is_a_header_alone() -> None:
    assert api_versions_request(7, client_id="me") == struct.pack(">hhih", 18, 0, 7, 2) + b"me"


@pytest.mark.parametrize(
    ("knows", "newest"), [((0, 13), 13), ((0, 99), 13), ((0, 11), 11), ((4, 4), 4), ((13, 20), 13)]
)
def test_the_newest_that_both_know(knows: tuple[int, int], newest: int) -> None:
    assert newest_version(answer((1, 0, 5), (API_METADATA, *knows)), API_METADATA, range(4, 14)) == newest


@pytest.mark.parametrize(
    ("knows", "told"), [([(3, 0, 3)], "v0 to v3"), ([(3, 14, 15)], "v14 to v15"), ([(1, 0, 9)], "none")]
)
def test_none_in_common(knows: list[tuple[int, int, int]], told: str) -> None:
    with pytest.raises(ProtocolError, match=f"^expected a broker that knows Metadata v4 to v13, and it knows {told}$"):
        newest_version(answer(*knows), API_METADATA, range(4, 14))


@pytest.mark.parametrize(
    "frame", [b"", HEAD, HEAD + b"\0", answer((3, 0, 9))[:-1], answer((3, 0, 9)) + b"!", answer((3, 0, 9), error=35)]
)
def test_whatever_is_no_such_answer(frame: bytes) -> None:
    with pytest.raises(ProtocolError):
        newest_version(frame, API_METADATA, range(4, 14))


@pytest.mark.brokers
@pytest.mark.timeout(300)
def test_kafka_reads_what_we_ask_and_we_what_it_answers() -> None:
    with KafkaCodec("4.1.0") as codec:
        frame = api_versions_request(7, client_id="sidecar")
        said = codec.check(API_VERSIONS, "request", API_VERSIONS_VERSION, frame)
        assert said.frame == frame
        for seed in range(300):
            said = codec.make(API_VERSIONS, "response", API_VERSIONS_VERSION, seed)
            assert said.frame is not None, said.text
            body = json.loads(said.text)
            for api in body["apiKeys"][:1]:
                first, last = api["minVersion"], api["maxVersion"]
                if body["errorCode"] or first > last:
                    continue
                assert newest_version(said.frame, api["apiKey"], range(first, last + 1)) == last
