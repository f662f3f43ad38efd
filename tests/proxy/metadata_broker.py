"""A broker that answers one Metadata request per connection, by name, after one for the versions that it knows."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import trio

from protocol.metadata import metadata_request_layout, metadata_response_layout
from protocol.wire.framing import with_length
from protocol.wire.headers import peek_request, response_header, response_header_version
from protocol.wire.layout import TAGS, parse_whole
from proxy.cluster.broker_client import Broker
from proxy.config.settings import Address

from .api_versions import ASKED, metadata_to

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

API_METADATA = 3


def topic(name: str, partitions: int, error_code: int) -> dict[str, Any]:
    each = {"error_code": 0, "leader_id": 101, "leader_epoch": 3, "isr_nodes": [101], "offline_replicas": [], TAGS: []}
    return {
        "error_code": error_code,
        "name": name,
        "topic_id": bytes(15) + b"\7",
        "is_internal": False,
        "partitions": [{"partition_index": p, "replica_nodes": [101], **each} for p in range(partitions)],
        "topic_authorized_operations": -(2**31),
        TAGS: [],
    }


def metadata(version: int, topics: list[dict[str, Any]], racks: Mapping[int, str | None]) -> bytes:
    brokers = [{"node_id": each, "host": "kafka", "port": 9092, "rack": rack, TAGS: []} for each, rack in racks.items()]
    values = {
        "throttle_time_ms": 0, "brokers": brokers, "cluster_id": "c", "controller_id": 101, "topics": topics, TAGS: [],
        "cluster_authorized_operations": -(2**31), "error_code": 0,
    }  # fmt: skip
    header = response_header(response_header_version(API_METADATA, version)).build({"correlation_id": 0, TAGS: []})
    return bytes(header + metadata_response_layout(version).build(values))


@dataclass
class MetadataBroker:
    """`has`: partitions by topic; `racks`: those of brokers, by id. It is never to be asked in a version beyond
    `last_version`: brokers log an error then."""

    has: Mapping[str, int]
    last_version: int = 12
    asked: list[list[str]] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    unauthorized: frozenset[str] = frozenset()
    racks: Mapping[int, str | None] = field(default_factory=dict)

    async def serve(self, stream: trio.abc.Stream) -> None:
        async with stream:
            assert await self._exactly(stream, len(ASKED)) == ASKED
            await stream.send_all(metadata_to(self.last_version))
            prefix = await stream.receive_some(4)
            if not prefix:  # it knows no version in which it may be asked
                return
            frame = await self._exactly(stream, int.from_bytes(prefix))
            head = peek_request(frame, 0, len(frame))
            assert head is not None
            assert head.api_key == API_METADATA
            self.versions.append(head.api_version)
            assert head.api_version <= self.last_version
            body = parse_whole(metadata_request_layout(head.api_version), frame[head.body_at :])
            assert not body.allow_auto_topic_creation
            self.asked.append([*self.has] if body.topics is None else [each.name for each in body.topics])
            await stream.send_all(with_length(self.answer(self.asked[-1], head.api_version)))

    def answer(self, names: list[str], version: int) -> bytes:
        """The frame, without its length."""
        topics = [topic(name, self.has.get(name, 0), self._error(name)) for name in names]
        return metadata(version, topics, self.racks)

    def _error(self, name: str) -> int:
        return 29 if name in self.unauthorized else 0 if name in self.has else 3

    @staticmethod
    async def _exactly(stream: trio.abc.Stream, size: int) -> bytes:
        data = b""
        while len(data) < size:
            data += await stream.receive_some(size - len(data))
        return data

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[Broker]:
        async with trio.open_nursery() as nursery:
            listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
            nursery.start_soon(partial(trio.serve_listeners, self.serve, listeners))
            yield Broker(Address(*listeners[0].socket.getsockname()[:2]))
            nursery.cancel_scope.cancel()
