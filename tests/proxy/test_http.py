"""`answer` is a conversation without a socket; a few requests over a real one prove the wiring."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import trio

from proxy.errors import ConfigurationError
from proxy.http import Endpoints, HttpServer, answer
from proxy.settings import Address
from tests.proxy.recorded_log import RecordedLog

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ANY_PORT = Address("127.0.0.1", 0)


async def reload_well() -> tuple[bool, dict[str, Any]]:
    await trio.lowlevel.checkpoint()
    return True, {"outcome": "changed"}


async def reload_badly() -> tuple[bool, dict[str, Any]]:
    await trio.lowlevel.checkpoint()
    return False, {"error": "quotas.toml: x"}


ENDPOINTS = Endpoints(
    metrics=lambda accept: (b"up 1\n", f"text/plain; asked={accept}"),
    healthy=lambda: True,
    ready=lambda: (True, {"reasons": []}),
    config=lambda: {"broker": 101, "rate": float("inf")},
    throttle=lambda: {"roles": {}},
    reload=reload_well,
)


@pytest.mark.parametrize(
    ("method", "path", "status", "body"),
    [
        ("GET", "/metrics", 200, b"up 1\n"),
        ("HEAD", "/metrics", 200, b"up 1\n"),
        ("GET", "/healthz", 200, b"ok\n"),
        ("GET", "/readyz", 200, b'{"ready":true,"reasons":[]}\n'),
        ("GET", "/config", 200, b'{"broker":101,"rate":null}\n'),
        ("GET", "/throttle", 200, b'{"roles":{}}\n'),
        ("POST", "/-/reload", 200, b'{"outcome":"changed"}\n'),
        ("POST", "/metrics", 405, b'{"error":"POST is not allowed here; use GET"}\n'),
        ("GET", "/-/reload", 405, b'{"error":"GET is not allowed here; use POST"}\n'),
    ],
)
async def test_each_path_has_its_answer(method: str, path: str, status: int, body: bytes) -> None:
    reply = await answer(ENDPOINTS, method, path)
    assert (reply.status, reply.body) == (status, body)
    assert (reply.allow is not None) == (status == 405)


async def test_an_unknown_path_names_those_there_are() -> None:
    reply = await answer(ENDPOINTS, "GET", "/nope")
    assert reply.status == 404
    assert json.loads(reply.body)["paths"] == [
        "/metrics",
        "/healthz",
        "/readyz",
        "/config",
        "/throttle",
        "/-/reload",
    ]


async def test_the_accept_header_reaches_the_metrics() -> None:
    reply = await answer(ENDPOINTS, "GET", "/metrics", accept="application/openmetrics-text")
    assert reply.content_type == "text/plain; asked=application/openmetrics-text"


async def test_what_is_wrong_is_said() -> None:
    sick = replace(
        ENDPOINTS,
        healthy=lambda: False,
        ready=lambda: (False, {"reasons": ["draining"]}),
        reload=reload_badly,
    )
    assert (await answer(sick, "GET", "/healthz")).status == 503
    ready = await answer(sick, "GET", "/readyz")
    assert (ready.status, json.loads(ready.body)) == (503, {"ready": False, "reasons": ["draining"]})
    reloaded = await answer(sick, "POST", "/-/reload")
    assert (reloaded.status, json.loads(reloaded.body)) == (400, {"error": "quotas.toml: x"})


@pytest.fixture
def log() -> RecordedLog:
    return RecordedLog()


async def request(address: Address, head: str) -> bytes:
    async with await trio.open_tcp_stream(*address) as stream:
        await stream.send_all(f"{head}\r\nhost: test\r\nconnection: close\r\n\r\n".encode())
        return b"".join([chunk async for chunk in stream])


@pytest.fixture
async def server(log: RecordedLog) -> AsyncIterator[HttpServer]:
    def broken() -> dict[str, Any]:
        raise KeyError("broken")

    server = HttpServer.bind(ANY_PORT, log=log)
    async with trio.open_nursery() as nursery:
        await nursery.start(server.run, replace(ENDPOINTS, throttle=broken))
        yield server
        nursery.cancel_scope.cancel()
    server.close()


async def test_get_over_a_socket(server: HttpServer) -> None:
    reply = await request(server.address, "GET /metrics?x=1 HTTP/1.1\r\naccept: any")
    head, _, body = reply.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    assert b"content-type: text/plain; asked=any" in head
    assert b"hypercorn" not in head
    assert body == b"up 1\n"


async def test_head_has_the_length_and_no_body(server: HttpServer) -> None:
    reply = await request(server.address, "HEAD /healthz HTTP/1.1")
    assert b"content-length: 3" in reply
    assert reply.endswith(b"\r\n\r\n")


async def test_post_over_a_socket(server: HttpServer) -> None:
    reply = await request(server.address, "POST /-/reload HTTP/1.1\r\ncontent-length: 0")
    assert reply.endswith(b'{"outcome":"changed"}\n')


async def test_a_method_that_is_not_allowed_is_told_which_are(server: HttpServer) -> None:
    assert b"allow: POST" in await request(server.address, "GET /-/reload HTTP/1.1")


async def test_an_endpoint_that_breaks_is_logged_and_the_server_lives(server: HttpServer, log: RecordedLog) -> None:
    assert (await request(server.address, "GET /throttle HTTP/1.1")).startswith(b"HTTP/1.1 500")
    assert log.events == ["http_failed"]
    assert isinstance(log.lines[0]["exc_info"], BaseException)
    assert (await request(server.address, "GET /healthz HTTP/1.1")).startswith(b"HTTP/1.1 200")


async def test_requests_are_not_logged(server: HttpServer, log: RecordedLog) -> None:
    await request(server.address, "GET /healthz HTTP/1.1")
    assert log.events == []


async def test_an_idle_connection_does_not_delay_the_end(log: RecordedLog) -> None:
    server = HttpServer.bind(ANY_PORT, log=log)
    started = trio.current_time()
    async with trio.open_nursery() as nursery:
        await nursery.start(server.run, ENDPOINTS)
        async with await trio.open_tcp_stream(*server.address):
            nursery.cancel_scope.cancel()
    server.close()
    assert trio.current_time() - started < 0.9


def test_a_port_in_use_is_said_at_once(log: RecordedLog) -> None:
    server = HttpServer.bind(ANY_PORT, log=log)
    try:
        with pytest.raises(ConfigurationError) as caught:
            HttpServer.bind(server.address, log=log)
    finally:
        server.close()
    expected = f"http.listen: cannot listen on {server.address}: Address already in use"
    assert str(caught.value) == expected


def test_an_address_of_somebody_else_is_said_at_once(log: RecordedLog) -> None:
    with pytest.raises(ConfigurationError, match=r"http\.listen: cannot listen on 192\.0\.2\.1:9404: "):
        HttpServer.bind(Address("192.0.2.1", 9404), log=log)
