"""Something for Prometheus to scrape: one text, always the same."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"


@asynccontextmanager
async def exporter(body: bytes) -> AsyncIterator[str]:
    """Serves it to whoever asks; yields host:port."""

    async def serve(stream: trio.SocketStream) -> None:
        async with stream:
            await stream.receive_some()
            await stream.send_all(_HEAD % len(body) + body)

    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, serve, listeners)
        host, port = listeners[0].socket.getsockname()[:2]
        yield f"{host}:{port}"
        nursery.cancel_scope.cancel()
