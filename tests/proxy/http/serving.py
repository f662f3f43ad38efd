"""A real HTTP server on a loopback port with pages of its own, and what a test sends it, byte by byte."""

from __future__ import annotations

from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import trio

from proxy.config.settings import Address
from proxy.http.authorization import Trust
from proxy.http.loop_share import LoopShare
from proxy.http.request_checks import HttpStatistics
from proxy.http.routing import Answer, Request, Route, Routes
from proxy.http.server import HttpServer
from tests.proxy.recorded_log import RecordedLog

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from proxy.http.request_checks import Bounds

ANY_PORT = Address("127.0.0.1", 0)
GET = b"GET /up HTTP/1.1\r\nhost: localhost\r\n\r\n"
PATIENT_SECONDS = 30.0
"""Against a test that hangs."""


async def up(request: Request) -> Answer:
    await trio.lowlevel.checkpoint()
    return Answer(200, b"up\n", "text/plain")


async def echo(request: Request) -> Answer:
    await trio.lowlevel.checkpoint()
    return Answer(200, request.body, "text/plain")


async def large(request: Request) -> Answer:
    await trio.lowlevel.checkpoint()
    return Answer(200, bytes(1024 * 1024), "text/plain")


async def broken(request: Request) -> Answer:
    await trio.lowlevel.checkpoint()
    raise KeyError("broken")


async def unsendable(request: Request) -> Answer:
    await trio.lowlevel.checkpoint()
    return Answer(200, b"", "text/plain\r\nx: y")


async def never(request: Request) -> Answer:
    await trio.sleep_forever()
    raise AssertionError


ROUTES = (
    Route("GET", "/up", up),
    Route("GET", "/up/again", up),
    Route("GET", "/anyhow", up, any_host=True),
    Route("POST", "/change", up),
    Route("PUT", "/echo", echo, max_body_bytes=100_000),
    Route("PUT", "/secret", echo, admit=lambda request: None if request.header("token") == "t" else Answer(401, b"no")),
    Route("GET", "/large", large),
    Route("GET", "/broken", broken),
    Route("GET", "/unsendable", unsendable),
    Route("GET", "/never", never),
)


@dataclass
class Serving:
    """One server that runs."""

    server: HttpServer
    statistics: HttpStatistics
    log: RecordedLog
    nursery: trio.Nursery = field(repr=False)

    @property
    def refused(self) -> dict[str, int]:
        return {reason.value: count for reason, count in self.statistics.refused.items()}

    async def connect(self) -> trio.SocketStream:
        return await trio.open_tcp_stream(*self.server.address)

    async def say(self, *chunks: bytes) -> bytes:
        """Everything that is answered to `chunks`, until the server has closed."""
        async with await self.connect() as stream:
            with suppress(trio.BrokenResourceError):
                for chunk in chunks:
                    await stream.send_all(chunk)
            return await heard(stream)

    async def serves_the_next(self) -> bool:
        return (await self.say(GET.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"))).endswith(b"\r\n\r\nup\n")


async def heard(stream: trio.SocketStream) -> bytes:
    """What comes until the other side has closed, or reset."""
    received = bytearray()
    with trio.fail_after(PATIENT_SECONDS), suppress(trio.BrokenResourceError):
        while chunk := await stream.receive_some():
            received += chunk
    return bytes(received)


async def one_answer(stream: trio.SocketStream) -> bytes:
    """The head and body of the next answer on a connection that stays open."""
    received = bytearray()
    with trio.fail_after(PATIENT_SECONDS):
        while b"\r\n\r\n" not in received:
            received += await some(stream)
        head, _, _ = bytes(received).partition(b"\r\n\r\n")
        length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        while len(received) < len(head) + 4 + length:
            received += await some(stream)
    return bytes(received)


async def some(stream: trio.SocketStream) -> bytes:
    received = await stream.receive_some()
    if not received:
        raise EOFError("closed in the middle of an answer")
    return received


@asynccontextmanager
async def serving(
    bounds: Bounds | None = None, *, routes: Routes | Iterable[Route] = ROUTES, trust: Iterable[str] = ("kafka-101",)
) -> AsyncIterator[Serving]:
    log, statistics = RecordedLog(), HttpStatistics()
    with closing(HttpServer.bind(ANY_PORT, log=log, bounds=bounds, statistics=statistics)) as server:
        async with trio.open_nursery() as nursery:
            table = routes if isinstance(routes, Routes) else Routes(routes)
            await nursery.start(partial(server.run, table, trust=Trust(trust), turn=LoopShare()))
            yield Serving(server, statistics, log, nursery)
            nursery.cancel_scope.cancel()
