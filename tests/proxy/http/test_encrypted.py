"""The pages by HTTPS: with keys that change, to whom has a certificate, and to nobody in plaintext."""

from __future__ import annotations

import http.client
import socket
import ssl
from contextlib import asynccontextmanager, closing
from typing import TYPE_CHECKING

import pytest
import trio

from lab.authority import Authority
from proxy.config.settings_values import Address
from proxy.config.tls_settings import ClientAuth, LegSettings, StoreSettings
from proxy.http.routing import TEXT, Answer, Route, Routes
from proxy.http.server import HttpServer
from proxy.http.trust import Trust
from proxy.http.turn import Turn
from proxy.tls.contexts import load

from ..recorded_log import RecordedLog

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from proxy.http.routing import Request


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    made = Authority(tmp_path / "tls")
    made.issue("own.pem", ["localhost"])
    return made


def leg(authority: Authority, auth: ClientAuth = ClientAuth.NONE) -> LegSettings:
    own = authority.certificate.with_name("own.pem")
    return LegSettings("http.listen", (StoreSettings(own),), StoreSettings(authority.certificate), auth)


def client(authority: Authority, presents: Path | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=authority.certificate)
    if presents is not None:
        context.load_cert_chain(presents)
    return context


@asynccontextmanager
async def serving(settings: LegSettings) -> AsyncIterator[Address]:
    async def page(_: Request) -> Answer:
        await trio.lowlevel.checkpoint()
        return Answer(200, b"x" * 100_000, TEXT)

    contexts = load(settings).contexts
    server = HttpServer.bind(Address("127.0.0.1", 0), log=RecordedLog())
    with closing(server):
        async with trio.open_nursery() as nursery:
            routes = Routes([Route("GET", "/", page)])
            start = nursery.start(lambda task_status: server.run(
                routes, trust=Trust({"localhost"}), turn=Turn(), tls=lambda: contexts[0], task_status=task_status
            ))  # fmt: skip
            await start
            yield server.address
            nursery.cancel_scope.cancel()


def get(address: Address, context: ssl.SSLContext) -> tuple[int, int]:
    """(status, bytes) of two requests on one connection."""
    connection = http.client.HTTPSConnection("localhost", address.port, context=context, timeout=5)
    with closing(connection):
        for _ in range(2):
            connection.request("GET", "/")
            answer = connection.getresponse()
            size = len(answer.read())
    return answer.status, size


async def test_pages_are_served(authority: Authority) -> None:
    async with serving(leg(authority)) as address:
        assert await trio.to_thread.run_sync(get, address, client(authority)) == (200, 100_000)


async def test_only_who_has_a_certificate_gets_an_answer(authority: Authority) -> None:
    own = authority.issue("prometheus.pem", ["prometheus"])
    async with serving(leg(authority, ClientAuth.REQUIRED)) as address:
        assert await trio.to_thread.run_sync(get, address, client(authority, own)) == (200, 100_000)
        with pytest.raises(OSError, match=r"certificate required|reset|EOF|closed"):
            await trio.to_thread.run_sync(get, address, client(authority))
        assert (await trio.to_thread.run_sync(get, address, client(authority, own)))[0] == 200


async def test_plaintext_gets_nothing(authority: Authority) -> None:
    def ask(address: Address) -> bytes:
        with socket.create_connection(address, timeout=5) as plain:
            plain.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            try:
                return plain.recv(1000)
            except ConnectionResetError:
                return b""

    async with serving(leg(authority)) as address:
        # At most OpenSSL's alert.
        assert b"HTTP" not in await trio.to_thread.run_sync(ask, address)
        assert await trio.to_thread.run_sync(get, address, client(authority)) == (200, 100_000)
