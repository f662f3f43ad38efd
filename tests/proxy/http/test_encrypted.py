"""The pages by HTTPS: with keys that change, to whom has a certificate, and to nobody in plaintext."""

from __future__ import annotations

import http.client
import socket
import ssl
from contextlib import ExitStack, asynccontextmanager, closing
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from lab.brokers.authority import Authority
from proxy.config.settings_values import Address
from proxy.config.tls_settings import KEY_AGREEMENT, ClientAuth, LegSettings, StoreSettings
from proxy.http.authorization import Trust
from proxy.http.loop_share import LoopShare
from proxy.http.request_checks import Bounds
from proxy.http.routing import TEXT, Answer, Route, Routes
from proxy.http.server import HttpServer
from proxy.tls.contexts import load

from ..recorded_log import RecordedLog
from ..tls_records import Records

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from proxy.http.routing import Request


MAX_BYTES = 300_000
LIMIT_SECONDS = 60.0
"""Of each side, against a test that hangs. Work of a second can take 5 s on a machine that is busy with other tests."""


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
    bounds = Bounds(head_seconds=LIMIT_SECONDS, answer_seconds=LIMIT_SECONDS)
    server = HttpServer.bind(Address("127.0.0.1", 0), log=RecordedLog(), bounds=bounds)
    with closing(server):
        async with trio.open_nursery() as nursery:
            routes = Routes([Route("GET", "/", page), Route("POST", "/", length, max_body_bytes=MAX_BYTES)])
            start = nursery.start(lambda task_status: server.run(
                routes, trust=Trust({"localhost"}), turn=LoopShare(), tls=lambda: contexts[0], task_status=task_status
            ))  # fmt: skip
            await start
            yield server.address
            nursery.cancel_scope.cancel()


async def length(request: Request) -> Answer:
    await trio.lowlevel.checkpoint()
    return Answer(200, b"%d" % len(request.body), TEXT)


def get(address: Address, context: ssl.SSLContext) -> tuple[int, int]:
    """(status, bytes) of two requests on one connection."""
    connection = http.client.HTTPSConnection("localhost", address.port, context=context, timeout=LIMIT_SECONDS)
    with closing(connection):
        for _ in range(2):
            connection.request("GET", "/")
            answer = connection.getresponse()
            size = len(answer.read())
    return answer.status, size


async def test_pages_are_served(authority: Authority) -> None:
    async with serving(leg(authority)) as address:
        assert await trio.to_thread.run_sync(get, address, client(authority)) == (200, 100_000)


async def test_a_long_body_comes_as_it_was_sent(authority: Authority) -> None:
    def post(address: Address) -> bytes:
        connection = http.client.HTTPSConnection(
            "localhost", address.port, context=client(authority), timeout=LIMIT_SECONDS
        )
        with closing(connection):
            connection.request("POST", "/", b"x" * MAX_BYTES)
            return connection.getresponse().read()

    async with serving(leg(authority)) as address:
        assert await trio.to_thread.run_sync(post, address) == b"%d" % MAX_BYTES


async def test_only_who_has_a_certificate_gets_an_answer(authority: Authority) -> None:
    own = authority.issue("prometheus.pem", ["prometheus"])
    async with serving(leg(authority, ClientAuth.REQUIRED)) as address:
        assert await trio.to_thread.run_sync(get, address, client(authority, own)) == (200, 100_000)
        with pytest.raises(OSError, match=r"certificate required|reset|EOF|closed"):
            await trio.to_thread.run_sync(get, address, client(authority))
        assert (await trio.to_thread.run_sync(get, address, client(authority, own)))[0] == 200


async def test_plaintext_gets_nothing(authority: Authority) -> None:
    def ask(address: Address) -> bytes:
        with socket.create_connection(address, timeout=LIMIT_SECONDS) as plain:
            plain.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            try:
                return plain.recv(1000)
            except ConnectionResetError:
                return b""

    async with serving(leg(authority)) as address:
        # At most OpenSSL's alert.
        assert b"HTTP" not in await trio.to_thread.run_sync(ask, address)
        assert await trio.to_thread.run_sync(get, address, client(authority)) == (200, 100_000)


class Turns(trio.abc.Instrument):
    """Counts what is done in each of the loop's turns: signatures, or bytes that OpenSSL works off."""

    def __init__(self) -> None:
        self.done = [0]

    def after_io_wait(self, timeout: float) -> None:
        self.done.append(0)


async def test_a_storm_of_handshakes_has_no_more_of_the_loop_than_other_requests(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One ClientHello, sent again and again, costs a stranger nothing, and us a signature each: in one turn of the loop
    all were signed that had come."""
    turns = Turns()

    def counted(self: ssl.SSLObject) -> None:
        turns.done[-1] += 1
        shake_hands(self)

    shake_hands = ssl.SSLObject.do_handshake
    monkeypatch.setattr(ssl.SSLObject, "do_handshake", counted)
    hello, out = ssl.MemoryBIO(), ssl.MemoryBIO()
    stranger_has = client(authority)
    stranger_has.set_ecdh_curve(KEY_AGREEMENT)  # whoever has to be asked for it costs no signature yet
    with pytest.raises(ssl.SSLWantReadError):
        shake_hands(stranger_has.wrap_bio(hello, out, server_hostname="localhost"))
    said = out.read()
    async with serving(leg(authority)) as address:
        with ExitStack() as kept:
            strangers = [kept.enter_context(socket.create_connection(address)) for _ in range(40)]
            await trio.testing.wait_all_tasks_blocked(0.05)
            turns.done = [0]
            trio.lowlevel.add_instrument(turns)
            for stranger in strangers:  # all at once, as another machine would
                stranger.sendall(said)
            await trio.testing.wait_all_tasks_blocked(0.05)
            trio.lowlevel.remove_instrument(turns)
            assert all(stranger.recv(10) for stranger in strangers)
    assert sum(turns.done) >= 40
    assert max(turns.done) <= 4


@pytest.fixture
def worked(monkeypatch: pytest.MonkeyPatch) -> Turns:
    found, came, wrap, read = (
        Turns(),
        dict[ssl.SSLObject, ssl.MemoryBIO](),
        ssl.SSLContext.wrap_bio,
        ssl.SSLObject.read,
    )

    def wrapped(context: ssl.SSLContext, incoming: ssl.MemoryBIO, *more: Any, **options: Any) -> ssl.SSLObject:
        made = wrap(context, incoming, *more, **options)
        came[made] = incoming
        return made

    def counted(openssl: ssl.SSLObject, *most: int) -> bytes:
        before = came[openssl].pending
        try:
            return read(openssl, *most)
        finally:
            found.done[-1] += before - came[openssl].pending

    monkeypatch.setattr(ssl.SSLContext, "wrap_bio", wrapped)
    monkeypatch.setattr(ssl.SSLObject, "read", counted)
    return found


async def test_keys_that_change_without_end_have_no_more_of_the_loop_than_other_requests(
    authority: Authority, tmp_path: Path, worked: Turns
) -> None:
    """It takes OpenSSL 10 to 35 µs for each 27 bytes: all that had come, 16 KiB, was worked off in one turn."""
    context, key_log = client(authority), tmp_path / "key.log"
    context.keylog_filename = str(key_log)

    def dial(address: Address) -> tuple[ssl.SSLSocket, bytes]:
        peer = context.wrap_socket(
            socket.create_connection(address, timeout=LIMIT_SECONDS), server_hostname="localhost"
        )
        records = Records(key_log)
        return peer, b"".join(records.key_update() for _ in range(20_000))

    async with serving(leg(authority)) as address:
        stranger, said = await trio.to_thread.run_sync(dial, address)
        trio.lowlevel.add_instrument(worked)
        with stranger:
            await trio.to_thread.run_sync(socket.socket.sendall, stranger, said)
            await trio.testing.wait_all_tasks_blocked(0.05)
        trio.lowlevel.remove_instrument(worked)
        assert (await trio.to_thread.run_sync(get, address, client(authority)))[0] == 200
    assert sum(worked.done) > len(said) / 2
    assert max(worked.done) <= 512
