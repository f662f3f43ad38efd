"""A leader that answers Fetch v0-v6 over TCP from logs in memory.

Kafka's read path: entries in the order of the request, each limited by its partition_max_bytes and by what is left
of max_bytes, the first message whole even if it is larger (KIP-74, v3 on); no data waits up to max_wait_ms.
A connection that asks for ApiVersions is closed: a sidecar asks for brokers' racks by itself once it is some seconds
old, and asks first in which version it may.
The high watermark is the log end offset: its followers are not in the ISR. No disk, no sessions.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

import trio

from protocol.errors import ProtocolError
from protocol.fetch.request import FetchRequest, parse_fetch_request
from protocol.fetch.tables import response_layout
from protocol.wire.apis import API_VERSIONS
from protocol.wire.framing import LENGTH_PREFIX_BYTES, frame_size, with_length

from .log import PartitionLog

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

MAX_REQUEST_BYTES = 16 * 1024 * 1024
FIRST_VERSION_WITH_KIP74 = 3
UNKNOWN_TOPIC_OR_PARTITION = 3


Secures: TypeAlias = "Callable[[trio.SocketStream], trio.abc.Stream]"
"""A function that puts TLS around a connection."""


def unsecured(stream: trio.SocketStream) -> trio.abc.Stream:
    return stream


class EmbeddedLeader:
    """`requests` keeps every Fetch that arrived, with its arrival time, for tests to look at."""

    def __init__(self, *, value_bytes: int = 1000) -> None:
        self.value_bytes = value_bytes
        self.logs: dict[tuple[str, int], PartitionLog] = {}
        self.requests: list[tuple[float, FetchRequest]] = []
        self.refused: list[str] = []
        """The reasons why connections were ended: what came on them is neither ApiVersions nor a Fetch that this leader
        serves."""
        self._appended = trio.Event()

    def log(self, topic: str, partition: int) -> PartitionLog:
        key = (topic, partition)
        if key not in self.logs:
            self.logs[key] = PartitionLog(value_bytes=self.value_bytes)
        return self.logs[key]

    def produce(self, topic: str, partition: int, count: int) -> None:
        self.log(topic, partition).produce(count)
        self._appended.set()
        self._appended = trio.Event()

    @asynccontextmanager
    async def listening(
        self, host: str = "127.0.0.1", port: int = 0, secure: Secures = unsecured
    ) -> AsyncIterator[tuple[str, int]]:
        """Serve until the block ends; yields the address."""

        async def serve(stream: trio.SocketStream) -> None:
            await self._serve(secure(stream))

        async with trio.open_nursery() as nursery:
            listeners = await trio.open_tcp_listeners(port, host=host)
            nursery.start_soon(trio.serve_listeners, serve, listeners)
            yield listeners[0].socket.getsockname()[:2]
            nursery.cancel_scope.cancel()

    async def _serve(self, stream: trio.abc.Stream) -> None:
        async with stream:
            try:
                while (frame := await read_frame(stream)) is not None:
                    if frame[:2] == API_VERSIONS.to_bytes(2):
                        return
                    request = parse_fetch_request(frame)
                    self.requests.append((trio.current_time(), request))
                    await stream.send_all(with_length(await self._answer(request)))
            except trio.BrokenResourceError:
                return
            except ProtocolError as error:
                self.refused.append(str(error))

    async def _answer(self, request: FetchRequest) -> bytes:
        deadline = trio.current_time() + request.max_wait_ms / 1000
        while True:
            appended = self._appended
            entries = self._read(request)
            size = sum(len(entry["records"]) for _, entry in entries)
            if size >= request.min_bytes or trio.current_time() >= deadline:
                return _response(request, entries)
            with trio.move_on_at(deadline):
                await appended.wait()

    def _read(self, request: FetchRequest) -> list[tuple[str, dict[str, Any]]]:
        left = request.max_bytes
        at_least_one = request.head.api_version >= FIRST_VERSION_WITH_KIP74
        entries = []
        for wanted in request.entries:
            topic = str(wanted.topic)  # a name: below v13 there are no topic ids
            log = self.logs.get((topic, wanted.partition))
            records = b""
            if log is not None:
                limit = min(wanted.partition_max_bytes, left)
                records = log.read(wanted.fetch_offset, limit, at_least_one=at_least_one)
            if records:
                at_least_one = False
                left = max(left - len(records), 0)
            entries.append((topic, _entry(wanted.partition, log, records)))
        return entries


def _entry(partition: int, log: PartitionLog | None, records: bytes) -> dict[str, Any]:
    return {
        "partition_index": partition,
        "error_code": UNKNOWN_TOPIC_OR_PARTITION if log is None else 0,
        "high_watermark": -1 if log is None else log.log_end_offset,
        "last_stable_offset": -1,
        "log_start_offset": 0,
        "aborted_transactions": None,
        "records": records,
    }


def _response(request: FetchRequest, entries: list[tuple[str, dict[str, Any]]]) -> bytes:
    blocks: list[dict[str, Any]] = []
    for topic, entry in entries:
        if not blocks or blocks[-1]["topic"] != topic:
            blocks.append({"topic": topic, "partitions": []})
        blocks[-1]["partitions"].append(entry)
    body = response_layout(request.head.api_version).build({"throttle_time_ms": 0, "responses": blocks})
    return request.head.correlation_id.to_bytes(4, signed=True) + bytes(body)


async def read_frame(stream: trio.abc.ReceiveStream) -> bytes | None:
    """Return the next frame without its length prefix; None when the peer has finished sending."""
    prefix = await _read_exactly(stream, LENGTH_PREFIX_BYTES)
    if prefix is None:
        return None
    return await _read_exactly(stream, frame_size(prefix, 0, maximum=MAX_REQUEST_BYTES))


async def _read_exactly(stream: trio.abc.ReceiveStream, size: int) -> bytes | None:
    data = bytearray()
    while len(data) < size:
        received = await stream.receive_some(size - len(data))
        if not received:
            return None
        data += received
    return bytes(data)
