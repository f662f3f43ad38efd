"""The pages over a real socket: each path with its answer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import trio

from proxy.http.routing import json_answer
from proxy.observing.pages import Endpoints, pages

from ..http.serving import serving

if TYPE_CHECKING:
    from proxy.http.routing import Routes


async def metrics(accept: str) -> tuple[bytes, str]:
    await trio.lowlevel.checkpoint()
    return b"up 1\n", f"text/plain; asked={accept}"


async def config() -> dict[str, Any]:
    await trio.lowlevel.checkpoint()
    return {"broker": 101, "rate": float("inf")}


async def throttle() -> dict[str, Any]:
    await trio.lowlevel.checkpoint()
    return {"roles": {}}


async def reload_well() -> tuple[bool, dict[str, Any]]:
    await trio.lowlevel.checkpoint()
    return True, {"outcome": "changed"}


async def reload_badly() -> tuple[bool, dict[str, Any]]:
    await trio.lowlevel.checkpoint()
    return False, {"error": "quotas.toml: x"}


ENDPOINTS = Endpoints(
    metrics=metrics,
    ready=lambda: (True, {"reasons": []}),
    config=config,
    throttle=throttle,
    reload=reload_well,
)
SICK = ENDPOINTS._replace(ready=lambda: (False, {"reasons": ["draining"]}), reload=reload_badly)


async def asked(
    table: Routes, method: str, path: str, *headers: str, host: str = "localhost"
) -> tuple[int, str, bytes]:
    """Status, head and body."""
    lines = [f"{method} {path} HTTP/1.1", f"host: {host}", "connection: close", *headers, "", ""]
    async with serving(routes=table) as served:
        head, _, body = (await served.say("\r\n".join(lines).encode())).partition(b"\r\n\r\n")
    return int(head[9:12]), head.decode(), body


@pytest.mark.parametrize(
    ("method", "path", "status", "body"),
    [
        ("GET", "/metrics", 200, b"up 1\n"),
        ("HEAD", "/metrics", 200, b""),
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
    assert (await asked(pages(ENDPOINTS), method, path))[::2] == (status, body)


@pytest.mark.parametrize(
    ("method", "path", "status", "body"),
    [
        ("GET", "/healthz", 200, b"ok\n"),
        ("GET", "/readyz", 503, b'{"ready":false,"reasons":["draining"]}\n'),
        ("POST", "/-/reload", 400, b'{"error":"quotas.toml: x"}\n'),
    ],
)
async def test_what_is_wrong_is_said(method: str, path: str, status: int, body: bytes) -> None:
    assert (await asked(pages(SICK), method, path))[::2] == (status, body)


async def test_an_unknown_path_names_those_there_are() -> None:
    status, _, body = await asked(pages(ENDPOINTS), "GET", "/nope")
    assert status == 404
    assert json.loads(body)["paths"] == ["/metrics", "/healthz", "/readyz", "/config", "/throttle", "/-/reload"]


async def test_the_accept_header_reaches_the_metrics() -> None:
    _, head, _ = await asked(pages(ENDPOINTS), "GET", "/metrics", "accept: application/openmetrics-text")
    assert "content-type: text/plain; asked=application/openmetrics-text" in head


@pytest.mark.parametrize(
    ("path", "status", "body"),
    [
        ("/healthz", 200, b"ok\n"),
        ("/readyz", 200, b'{"ready":true}\n'),  # and no reasons, which name files
        ("/metrics", 421, None),
        ("/config", 421, None),
        ("/throttle", 421, None),
    ],
)
async def test_by_a_foreign_name_probes_alone_are_answered(path: str, status: int, body: bytes | None) -> None:
    found, _, said = await asked(pages(ENDPOINTS), "GET", path, host="evil.example")
    assert found == status
    assert body is None or said == body


async def test_a_token_may_be_wanted_of_everybody_but_probes() -> None:
    table = pages(ENDPOINTS, admit=lambda _: json_answer(401, {"error": "no token"}))
    for method, path in (("GET", "/metrics"), ("GET", "/config"), ("GET", "/throttle"), ("POST", "/-/reload")):
        assert (await asked(table, method, path))[0] == 401
    for path in ("/healthz", "/readyz"):
        assert (await asked(table, "GET", path))[0] == 200


async def test_reloads_may_be_switched_off() -> None:
    status, _, body = await asked(pages(ENDPOINTS, reload=False), "POST", "/-/reload")
    assert status == 404
    assert b"/-/reload" not in body.partition(b"paths")[2]
