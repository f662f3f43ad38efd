"""A replica fetcher: fetches its partitions in full Fetch requests, one in flight, and appends what comes.

As in Kafka: a full response must hold exactly the partitions that were asked for. Records must begin at the log end
offset. A partition with data goes to the end of the next request (PartitionStates). A broken connection costs
replica.fetch.backoff.ms.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import trio

from protocol.fetch.tables import request_layout, response_layout
from protocol.wire.framing import with_length
from protocol.wire.headers import request_header

from .leader import read_frame, unsecured
from .log import PartitionLog

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from protocol.wire.primitives import Skipped

    from .leader import Secures

API_FETCH = 1
HEADER_VERSION = 1
CORRELATION_ID_BYTES = 4


class InvalidFullFetchResponseError(Exception):
    """Kafka logs "sent an invalid full fetch response" and fetches again without a pause."""


@dataclass(slots=True)
class FetcherSettings:
    """Kafka's replica.fetch.* defaults."""

    version: int = 3
    replica_id: int = 102
    max_wait_ms: int = 500
    max_bytes: int = 10 * 1024 * 1024
    partition_max_bytes: int = 1024 * 1024
    backoff_seconds: float = 1.0


@dataclass(slots=True)
class Delivery:
    """One partition's records in one response."""

    time: float
    topic: str
    partition: int
    record_bytes: int


class EmbeddedFollower:
    """`deliveries` is every batch of records, `high_watermarks` the last ones seen, `fetches` counts requests."""

    def __init__(
        self,
        partitions: Sequence[tuple[str, int]],
        *,
        value_bytes: int = 1000,
        settings: FetcherSettings | None = None,
    ) -> None:
        self.settings = settings or FetcherSettings()
        self.logs = {key: PartitionLog(value_bytes=value_bytes) for key in partitions}
        self.order = list(partitions)
        self.high_watermarks: dict[tuple[str, int], int] = {}
        self.deliveries: list[Delivery] = []
        self.fetches = 0
        self.reconnects = 0
        self.progress = trio.Event()
        self._correlation_id = 0

    async def run(self, host: str, port: int, secure: Secures = unsecured) -> None:
        """Fetch until cancelled. Raises what a fetcher thread would die of."""
        while True:
            try:
                stream = secure(await trio.open_tcp_stream(host, port))
                async with stream:
                    while await self._fetch(stream):
                        pass
            except (OSError, trio.BrokenResourceError):
                pass
            self.reconnects += 1
            await trio.sleep(self.settings.backoff_seconds)

    async def wait_caught_up(self, log_end_offsets: dict[tuple[str, int], int]) -> None:
        """Wait until each of these partitions has reached its offset."""
        while any(self.logs[key].log_end_offset < end for key, end in log_end_offsets.items()):
            await self.progress.wait()

    async def _fetch(self, stream: trio.abc.Stream) -> bool:
        self.fetches += 1
        self._correlation_id += 1
        await stream.send_all(with_length(self._request()))
        frame = await read_frame(stream)
        if frame is None:
            return False
        if int.from_bytes(frame[:CORRELATION_ID_BYTES], signed=True) != self._correlation_id:
            raise InvalidFullFetchResponseError("the correlation id is not that of the request")
        self._process(frame[CORRELATION_ID_BYTES:])
        return True

    def _request(self) -> bytes:
        settings = self.settings
        blocks: list[dict[str, Any]] = []
        for topic, partition in self.order:
            if not blocks or blocks[-1]["topic"] != topic:
                blocks.append({"topic": topic, "partitions": []})
            entry = {
                "partition": partition,
                "fetch_offset": self.logs[topic, partition].log_end_offset,
                "log_start_offset": 0,
                "partition_max_bytes": settings.partition_max_bytes,
            }
            blocks[-1]["partitions"].append(entry)
        head = {
            "api_key": API_FETCH,
            "api_version": settings.version,
            "correlation_id": self._correlation_id,
            "client_id": f"broker-{settings.replica_id}-fetcher-0",
        }
        body = {
            "replica_id": settings.replica_id,
            "max_wait_ms": settings.max_wait_ms,
            "min_bytes": 1,
            "max_bytes": settings.max_bytes,
            "isolation_level": 0,
            "topics": blocks,
        }
        encoded = request_layout(settings.version).build(body)
        return bytes(request_header(HEADER_VERSION).build(head) + encoded)

    def _process(self, body: bytes) -> None:
        response = response_layout(self.settings.version).parse(body)
        answered = [(block.topic, entry) for block in response.responses for entry in block.partitions]
        keys = [(topic, entry.partition_index) for topic, entry in answered]
        if sorted(keys) != sorted(self.order):
            raise InvalidFullFetchResponseError(f"asked for {sorted(self.order)}, got {sorted(keys)}")
        for (topic, partition), (_, entry) in zip(keys, answered, strict=True):
            if entry.error_code:
                continue
            self.high_watermarks[topic, partition] = entry.high_watermark
            if records := _records(entry.records, body):
                self.logs[topic, partition].append(records)
                self.order.remove((topic, partition))
                self.order.append((topic, partition))
                self.deliveries.append(Delivery(trio.current_time(), topic, partition, len(records)))
        self.progress.set()
        self.progress = trio.Event()


def _records(place: Skipped, body: bytes) -> bytes:
    """Return an entry's records. Raises InvalidFullFetchResponseError for null, which kills old fetchers."""
    if place.size_bytes < 0:
        raise InvalidFullFetchResponseError("records are null")
    return body[place.at : place.at + place.size_bytes]
