"""A leader that is not who it should be gets a ClientHello, and not a byte of Kafka's; it is counted by its reason."""

from __future__ import annotations

import contextlib
import socket
import ssl
from typing import TYPE_CHECKING

import pytest
import trio

from protocol.wire.framing import with_length
from proxy.config.settings import load_settings
from tests.proxy.conversation import fetch_frame
from tests.proxy.relay.wire import T0, read_all
from tests.proxy.serving.test_sidecar import running, until
from tests.proxy.tls_stage import DIALS, KAFKA, NAME, PATIENT_SECONDS, SETTINGS, Keys, counted_all, waits

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


IMPATIENT_SECONDS = 0.3
"""Of a handshake for which the leader does nothing."""


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    return Keys(tmp_path)


def speaks(content: bytes) -> Callable[[Keys, socket.socket], None]:
    def attack(_: Keys, sock: socket.socket) -> None:
        sock.sendall(content)
        waits(sock)

    return attack


def keeps_silent(_: Keys, sock: socket.socket) -> None:
    waits(sock)


def hangs_up(_: Keys, sock: socket.socket) -> None:
    sock.recv(100)


def shows(which: Callable[[Keys], Path], *, asks: bool = False) -> Callable[[Keys, socket.socket], None]:
    """A leader with this certificate, and whether it wants one of the sidecar: it is never sent a byte of Kafka's."""

    def attack(keys: Keys, sock: socket.socket) -> None:
        context = keys.server(which(keys), asks=asks)
        with (
            contextlib.suppress(ssl.SSLError, ConnectionError),
            context.wrap_socket(sock, server_side=True) as encrypted,
        ):
            assert encrypted.recv(1) == b""

    return attack


BY_LEADERS: dict[str, tuple[Callable[[Keys, socket.socket], None], str]] = {
    "plaintext": (speaks(KAFKA), "plaintext"),
    "noise": (speaks(bytes(range(255, 0, -1))), "plaintext"),
    "it hangs up": (hangs_up, "closed"),
    "silence": (keeps_silent, "timeout"),
    "another authority": (shows(lambda keys: keys.of_a_stranger), "unknown_authority"),
    "expired": (shows(lambda keys: keys.expired), "expired"),
    "another name": (shows(lambda keys: keys.of_another_name), "wrong_name"),
    "it wants a certificate": (shows(lambda keys: keys.own, asks=True), "refused"),
}


@pytest.mark.parametrize("name", BY_LEADERS)
async def test_a_leader_that_is_not_who_it_should_be_gets_nothing(tmp_path: Path, keys: Keys, name: str) -> None:
    """Its follower's connection ends; nothing is sent again in plaintext, or to whoever was not verified."""
    attack, reason = BY_LEADERS[name]
    seen = bytearray()
    with socket.create_server(("127.0.0.1", 0)) as impostor:
        path = tmp_path / "proxy.toml"
        seconds = IMPATIENT_SECONDS if reason == "timeout" else PATIENT_SECONDS
        upstream = impostor.getsockname()[1]
        path.write_text(SETTINGS.format(upstream=upstream, tls=DIALS, handshake_seconds=seconds))

        def leads() -> None:
            with impostor.accept()[0] as sock:
                sock.settimeout(PATIENT_SECONDS)
                seen.extend(sock.recv(4096, socket.MSG_PEEK))
                attack(keys, sock)

        async with running(load_settings(path)) as sidecar, trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, leads)
            async with await sidecar.dial() as follower:
                await follower.send_all(with_length(fetch_frame({T0: 0})))
                assert await read_all(follower) == b""
            assert await counted_all(sidecar, "ingress.upstream", 1) == {reason}
            await until(lambda: sidecar.statistics.leader.connections == 0)
    assert seen.startswith(b"\x16\x03")
    assert b"kafka" not in seen.replace(NAME.encode(), b"")
