"""Every request and response of the clients of one listener, as they pass: when, which API, and what throttle time.

In the middle between clients and a listener, in this process. Invariant: bytes go on as they come, before they are
looked at.
"""

from __future__ import annotations

import itertools
import struct
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

import trio

from lab.host.addresses import KAFKA_PORT
from protocol.produce import peek_produce_answer
from protocol.wire.apis import API_FETCH, API_PRODUCE
from protocol.wire.headers import peek_response, response_header_version

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

LIMITED = (API_PRODUCE, API_FETCH)
_CHUNK_BYTES = 65536


class Seen(NamedTuple):
    connection: int
    at: float
    api_key: int
    throttle_seconds: float | None
    """None: a request."""


class RequestLog:
    """What passed, in order."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []

    def early(self) -> list[tuple[float, Seen]]:
        """Return the byte-rate limited requests that a client sent within the throttle time of an earlier response on
        the same connection, and how many seconds too early."""
        until: dict[int, float] = {}
        found = []
        for each in self.seen:
            if each.throttle_seconds is not None:
                until[each.connection] = max(until.get(each.connection, 0.0), each.at + each.throttle_seconds)
            elif each.at < until.get(each.connection, 0.0):
                found.append((until[each.connection] - each.at, each))
        return found

    @property
    def throttle_seconds(self) -> list[float]:
        return [each.throttle_seconds for each in self.seen if each.throttle_seconds]


@asynccontextmanager
async def request_log(host: str, upstream: str) -> AsyncIterator[RequestLog]:
    """Listen at `host` for clients of the listener at `upstream`."""
    log, numbers = RequestLog(), itertools.count()

    async def connection(client: trio.SocketStream) -> None:
        number, pending = next(numbers), dict[int, tuple[int, int]]()

        def request(frame: bytes) -> None:
            api_key, version, correlation_id = struct.unpack_from(">hhi", frame)
            if api_key in LIMITED:
                pending[correlation_id] = api_key, version
                log.seen.append(Seen(number, trio.current_time(), api_key, None))

        def response(frame: bytes) -> None:
            (correlation_id,) = struct.unpack_from(">i", frame)
            if correlation_id in pending:
                api_key, version = pending.pop(correlation_id)
                ms = _throttle_time_ms(api_key, version, frame)
                log.seen.append(Seen(number, trio.current_time(), api_key, ms / 1000))

        async with client, await trio.open_tcp_stream(upstream, KAFKA_PORT) as broker, trio.open_nursery() as nursery:
            nursery.start_soon(_pass_on, client, broker, request)
            nursery.start_soon(_pass_on, broker, client, response)

    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(KAFKA_PORT, host=host)
        nursery.start_soon(trio.serve_listeners, connection, listeners)
        yield log
        nursery.cancel_scope.cancel()


async def _pass_on(source: trio.SocketStream, sink: trio.SocketStream, seen: Callable[[bytes], None]) -> None:
    held = bytearray()
    try:
        async for data in source:
            await sink.send_all(data)
            held += data
            while len(held) >= 4 and len(held) >= 4 + (size := int.from_bytes(held[:4])):
                seen(bytes(held[4 : 4 + size]))
                del held[: 4 + size]
        await sink.send_eof()
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        await trio.aclose_forcefully(sink)


def _throttle_time_ms(api_key: int, version: int, frame: bytes) -> int:
    head = peek_response(frame, 0, len(frame), response_header_version(api_key, version))
    assert head is not None
    at: int | None = head.body_at
    if api_key != API_FETCH:
        at = peek_produce_answer(version, frame, head.body_at, len(frame)).throttle_time_at
    assert at is not None
    return int.from_bytes(frame[at : at + 4], signed=True)
