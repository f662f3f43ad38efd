"""The HTTP endpoint: /metrics /healthz /readyz /config /throttle and POST /-/reload, by hypercorn under Trio.

Knows what to call (`Endpoints`) and how to answer; nothing of what is served. Built and bound before traffic
starts, so that a port in use is an error at start. Invariant: every path and method gets an answer, in JSON
but for /metrics and /healthz; a reload that fails is the caller's 400, never our 500.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import hypercorn.trio
import msgspec
import trio
from hypercorn.config import Config

from .errors import ConfigurationError
from .settings import Address

if TYPE_CHECKING:
    from hypercorn.typing import ASGIFramework, ASGIReceiveCallable, ASGISendCallable, Scope

    from .logs import Log

Json = Mapping[str, Any]

_GRACEFUL_SECONDS = 1.0
"""Scrapes are short; nothing here is worth delaying a shutdown for."""
_BACKLOG = 64
_JSON = "application/json"
_TEXT = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Endpoints:
    """What the paths call. All but `reload` answer at once, from memory."""

    metrics: Callable[[str], tuple[bytes, str]]
    """Takes the Accept header, returns the exposition and its content type."""
    healthy: Callable[[], bool]
    ready: Callable[[], tuple[bool, Json]]
    """Whether traffic may be sent here, and the reasons."""
    config: Callable[[], Json]
    throttle: Callable[[], Json]
    reload: Callable[[], Awaitable[tuple[bool, Json]]]
    """Whether the file was good, and what changed or what is wrong."""


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes
    content_type: str = _JSON
    allow: str | None = None


def _json(status: int, body: Json, *, allow: str | None = None) -> Answer:
    return Answer(status, msgspec.json.encode(body, enc_hook=str) + b"\n", allow=allow)


async def answer(endpoints: Endpoints, method: str, path: str, *, accept: str = "") -> Answer:
    """One request, one answer. HEAD is answered as GET; who sends it drops the body."""
    if path == "/-/reload":
        if method != "POST":
            return _json(405, {"error": f"{method} is not allowed here; use POST"}, allow="POST")
        good, facts = await endpoints.reload()
        return _json(200 if good else 400, facts)
    await trio.lowlevel.checkpoint()
    pages: dict[str, Callable[[], Answer]] = {
        "/metrics": lambda: Answer(200, *endpoints.metrics(accept)),
        "/healthz": lambda: _healthz(healthy=endpoints.healthy()),
        "/readyz": lambda: _readyz(*endpoints.ready()),
        "/config": lambda: _json(200, endpoints.config()),
        "/throttle": lambda: _json(200, endpoints.throttle()),
    }
    page = pages.get(path)
    if page is None:
        return _json(404, {"error": f"no such path: {path}", "paths": [*pages, "/-/reload"]})
    if method not in ("GET", "HEAD"):
        return _json(405, {"error": f"{method} is not allowed here; use GET"}, allow="GET, HEAD")
    return page()


def _healthz(*, healthy: bool) -> Answer:
    return Answer(200 if healthy else 503, b"ok\n" if healthy else b"not healthy\n", _TEXT)


def _readyz(ready: bool, reasons: Json) -> Answer:
    return _json(200 if ready else 503, {"ready": ready, **reasons})


def asgi_app(endpoints: Endpoints) -> ASGIFramework:
    """The smallest application that serves `endpoints`; request bodies are ignored."""

    async def app(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
        elif scope["type"] == "http":
            accept = next((value for name, value in scope["headers"] if name == b"accept"), b"")
            reply = await answer(endpoints, scope["method"], scope["path"], accept=accept.decode("latin-1"))
            await _send(reply, send, with_body=scope["method"] != "HEAD")

    return app


async def _lifespan(receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            await send({"type": "lifespan.startup.complete"})
        elif message["type"] == "lifespan.shutdown":
            await send({"type": "lifespan.shutdown.complete"})
            return


async def _send(reply: Answer, send: ASGISendCallable, *, with_body: bool) -> None:
    headers = [
        (b"content-type", reply.content_type.encode("latin-1")),
        (b"content-length", str(len(reply.body)).encode()),
        (b"cache-control", b"no-store"),
    ]
    if reply.allow is not None:
        headers.append((b"allow", reply.allow.encode("latin-1")))
    await send({"type": "http.response.start", "status": reply.status, "headers": headers, "trailers": False})
    body = reply.body if with_body else b""
    await send({"type": "http.response.body", "body": body, "more_body": False})


class HttpServer:
    """A bound socket that is served once `run` is called."""

    def __init__(self, listener: socket.socket, log: Log) -> None:
        self._listener = listener
        self._log = log
        self.address = Address(*listener.getsockname()[:2])
        """With the port that was given, if any free one was asked for."""

    @classmethod
    def bind(cls, listen: Address, *, log: Log) -> HttpServer:
        """Raises ConfigurationError if the address is in use or not ours."""
        try:
            family, _, _, _, address = socket.getaddrinfo(*listen, type=socket.SOCK_STREAM)[0]
            listener = socket.create_server(address, family=family, backlog=_BACKLOG)
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
            raise ConfigurationError(f"http.listen: cannot listen on {listen}: {reason}") from error
        return cls(listener, log)

    def close(self) -> None:
        """No request is accepted any more; `run` cannot be called again."""
        self._listener.close()

    async def run(self, endpoints: Endpoints, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serves until cancelled. May be called again after an error: requests wait in the listener's backlog."""
        config = Config()
        config.bind = [f"fd://{os.dup(self._listener.fileno())}"]  # hypercorn closes what it is given
        config.accesslog = None
        config.errorlog = _ErrorLog(self._log)
        config.graceful_timeout = _GRACEFUL_SECONDS
        config.include_server_header = False
        async with trio.open_nursery() as nursery:
            await nursery.start(hypercorn.trio.serve, asgi_app(endpoints), config)
            task_status.started()


class _ErrorLog(logging.Logger):
    """What goes wrong inside hypercorn or an endpoint, as our log lines; in no global registry."""

    def __init__(self, log: Log) -> None:
        super().__init__("http", logging.ERROR)
        self._events = log

    def handle(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        self._events.error("http_failed", error=record.getMessage(), exc_info=error)
