"""Whatever is done to a leg with keys costs the connection on which it is done, and is counted by its reason.

Attacks come as rows of tables, one for each way in which a handshake or a record can be wrong; beside each a victim,
a follower with a connection of its own, fetches before and after it on the same connection.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import ssl
import struct
import subprocess
import time
from typing import TYPE_CHECKING, NamedTuple

import pytest
import trio

from protocol.wire.framing import with_length
from proxy.config.tls_settings import KEY_AGREEMENT
from proxy.tls import handshakes
from tests.proxy.conversation import fetch_frame
from tests.proxy.relay.wire import T0
from tests.proxy.serving.test_sidecar import until
from tests.proxy.tls_records import Records
from tests.proxy.tls_stage import (
    KAFKA,
    LISTENS,
    NAME,
    PATIENT_SECONDS,
    Keys,
    Victim,
    attacked,
    counted,
    counted_all,
    secured,
    waits,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from proxy.config.settings import Address

AT_ONCE, TIMES = 250, 2
IMPATIENT_SECONDS = 1.0
"""Of a handshake where the attack is not to be done in time; the victim's own has to be."""


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    return Keys(tmp_path)


# Towards those who dial the sidecar.


def dial(to: Address) -> socket.socket:
    return socket.create_connection((to.host, to.port), timeout=PATIENT_SECONDS)


def hello(name: str = NAME) -> bytes:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context()
    context.set_ecdh_curve(KEY_AGREEMENT)  # one that costs a signature
    client = context.wrap_bio(incoming, outgoing, server_hostname=name)
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def says(content: bytes) -> Callable[[Keys, Address], None]:
    def attack(_: Keys, to: Address) -> None:
        with dial(to) as sock:
            sock.sendall(content)
            waits(sock)

    return attack


def breaks_off(_: Keys, to: Address) -> None:
    with dial(to) as sock:
        sock.sendall(hello()[:100])


def resets(_: Keys, to: Address) -> None:
    with dial(to) as sock:
        sock.sendall(hello()[:100])
        time.sleep(0.5)  # of a connection that is reset before it is accepted nobody knows whose it was
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def dribbles(_: Keys, to: Address) -> None:
    """A byte each 30 ms: never silent, and not done in time."""
    with dial(to) as sock, contextlib.suppress(ConnectionError):
        for byte in hello():
            sock.sendall(bytes([byte]))
            time.sleep(0.03)


def says_no_more(_: Keys, to: Address) -> None:
    with dial(to) as sock:
        sock.sendall(hello()[:1])  # the handshake begins with the first byte (`network.silent_peers`)
        waits(sock)


def hundreds_half_done(_: Keys, to: Address) -> None:
    begins = hello()[:-1]
    for _wave in range(TIMES):
        with contextlib.ExitStack() as stack:
            socks = [stack.enter_context(dial(to)) for _ in range(AT_ONCE)]
            for sock in socks:
                sock.sendall(begins)
            for sock in socks:
                waits(sock)


def presents(
    which: Callable[[Keys], Path | None], newest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3
) -> Callable[[Keys, Address], None]:
    """A Fetch by a client with this certificate: no answer comes."""

    def attack(keys: Keys, to: Address) -> None:
        context = keys.client(which(keys), newest)
        with (
            contextlib.suppress(ssl.SSLError, ConnectionError),
            context.wrap_socket(dial(to), server_hostname=NAME) as sock,
        ):
            sock.sendall(with_length(fetch_frame({T0: 0})))
            assert sock.recv(1) == b""

    return attack


class Attack(NamedTuple):
    does: Callable[[Keys, Address], None]
    reasons: set[str]
    """Labels of `tls_handshake_failures_total`: each of its connections has one of them."""
    connections: int = 1

    @property
    def handshake_seconds(self) -> float:
        return IMPATIENT_SECONDS if "timeout" in self.reasons else PATIENT_SECONDS


ON_LISTENERS = {
    "plaintext": Attack(says(KAFKA), {"plaintext"}),
    "HTTP": Attack(says(b"GET / HTTP/1.1\r\n\r\n"), {"plaintext"}),
    "noise": Attack(says(bytes(range(255, 0, -1))), {"plaintext"}),
    "a name that is not ASCII": Attack(says(hello("x" * 40).replace(b"x" * 40, b"\xff" * 40)), {"other"}),
    "a truncated handshake": Attack(breaks_off, {"closed"}),
    "a handshake that is reset": Attack(resets, {"closed"}),
    "a slow handshake": Attack(dribbles, {"timeout"}),
    "silence after one byte": Attack(says_no_more, {"timeout"}),
    "hundreds half done": Attack(hundreds_half_done, {"timeout"}, AT_ONCE * TIMES),
    "another authority": Attack(presents(lambda keys: keys.of_a_stranger), {"unknown_authority"}),
    "expired": Attack(presents(lambda keys: keys.expired), {"expired"}),
    "a client's certificate": Attack(presents(lambda keys: keys.of_another_name), {"not_allowed"}),
    "no certificate": Attack(presents(lambda _: None), {"no_certificate"}),
    "no certificate, TLS 1.2": Attack(presents(lambda _: None, ssl.TLSVersion.TLSv1_2), {"no_certificate"}),
    "expired, TLS 1.2": Attack(presents(lambda keys: keys.expired, ssl.TLSVersion.TLSv1_2), {"expired"}),
}


@pytest.mark.parametrize("name", ON_LISTENERS)
async def test_who_dials_costs_itself(
    tmp_path: Path, keys: Keys, name: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No byte of it reaches the leader, whom the victim alone has asked, nor standard error, which may be full."""
    attack = ON_LISTENERS[name]
    monkeypatch.setattr(handshakes, "YIELDS_AFTER_SECONDS", PATIENT_SECONDS)  # what is told is each one's own time
    async with attacked(keys, tmp_path, LISTENS, handshake_seconds=attack.handshake_seconds) as (sidecar, leader):
        victim = await secured(sidecar, keys, leader)
        await victim.fetches()
        await trio.to_thread.run_sync(attack.does, keys, sidecar.addresses["ingress.listen"])
        assert await counted_all(sidecar, "ingress.listen", attack.connections) <= attack.reasons
        lines = [line for line in sidecar.log.lines if line["event"] == "tls_handshake_failed"]
        assert [(line["reason"], bool(line["advice"])) for line in lines] == [(each, True) for each in attack.reasons]
        await victim.fetches()
        newcomer = await secured(sidecar, keys, leader)
        await newcomer.fetches()
        assert (len(leader.requests), leader.refused) == (2 + 1 + 2, [])
        assert sidecar.statistics.leader.connections == 2
        assert capfd.readouterr().err == ""
        for each in (victim, newcomer):
            await trio.aclose_forcefully(each.stream)


# What is done after a handshake that was right.


def renegotiates(keys: Keys, to: Address) -> None:
    """TLS 1.2 alone has it: a client's new ClientHello on the open connection (RFC 5746), by the openssl program."""
    certificate = str(keys.own)
    command = [
        "openssl", "s_client", "-connect", str(to), "-tls1_2", "-cert", certificate, "-key", certificate,
        "-CAfile", str(keys.trusted), "-servername", NAME,
    ]  # fmt: skip
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as client:
        assert client.stdin is not None
        assert client.stdout is not None
        for line in client.stdout:
            if b"Verify return code: 0" in line:
                break
        client.stdin.write(b"R\n")
        client.stdin.flush()
        assert b"no renegotiation" in client.stdout.read()


def writes_past_tls(content: bytes, *, ends: Callable[[ssl.SSLSocket], object]) -> Callable[[Keys, Address], None]:
    """After an honest Fetch: bytes for which OpenSSL was not asked."""

    def attack(keys: Keys, to: Address) -> None:
        with keys.client(keys.own).wrap_socket(dial(to), server_hostname=NAME) as sock:
            sock.sendall(with_length(fetch_frame({T0: 0})))
            assert sock.recv(4096)
            os.write(sock.fileno(), content)
            ends(sock)

    return attack


def changes_keys_without_end(*, wants_one: bool) -> Callable[[Keys, Address], None]:
    """After an honest Fetch: some seconds of work for OpenSSL, and no byte of data. The connection is to be ended."""

    def attack(keys: Keys, to: Address) -> None:
        context, key_log = keys.client(keys.own), keys.own.with_name("key.log")
        context.keylog_filename = str(key_log)
        with context.wrap_socket(dial(to), server_hostname=NAME) as sock:
            sock.sendall(with_length(fetch_frame({T0: 0})))
            assert sock.recv(4096)
            records = Records(key_log)
            records.record(b"")  # the Fetch's number is taken
            updates = b"".join(records.key_update(wants_one=wants_one) for _ in range(60_000))
            with contextlib.suppress(ConnectionError):
                writes_until_ended(sock, updates)

    return attack


def writes_until_ended(sock: ssl.SSLSocket, content: bytes) -> None:
    """Past TLS. What is answered is read, or a sidecar that answers would have to wait."""
    sock.setblocking(False)
    left = memoryview(content)
    while True:
        readable, writable, _ = select.select([sock], [sock] if left else [], [], PATIENT_SECONDS)
        assert readable or writable, "the connection is still open"
        if readable and not os.read(sock.fileno(), 65536):
            return
        if writable:
            left = left[os.write(sock.fileno(), left[:16384]) :]


def closes_by_a_reset(sock: ssl.SSLSocket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def waits_for_the_end(sock: ssl.SSLSocket) -> None:
    with contextlib.suppress(OSError):
        while sock.recv(4096):
            pass


HALF_A_RECORD = b"\x17\x03\x03\x10\x00half of it"
FORGED_RECORD = b"\x17\x03\x03\x00\x40" + bytes(64)
IN_MID_CONNECTION = {
    "renegotiation": (renegotiates, {"follower_closed", "connection_broken"}),
    # Without close_notify an end is an end to Python's ssl module, before 3.13 a reset one too; frames have lengths.
    "it vanishes": (writes_past_tls(HALF_A_RECORD, ends=lambda _: None), {"follower_closed"}),
    "it vanishes by a reset": (
        writes_past_tls(HALF_A_RECORD, ends=closes_by_a_reset),
        {"follower_closed", "connection_broken"},
    ),
    "new keys without end": (changes_keys_without_end(wants_one=False), {"connection_broken"}),
    "new keys without end, on both sides": (changes_keys_without_end(wants_one=True), {"connection_broken"}),
    "a forged record": (writes_past_tls(FORGED_RECORD, ends=waits_for_the_end), {"connection_broken"}),
}


@pytest.mark.parametrize("name", IN_MID_CONNECTION)
async def test_what_comes_after_a_handshake_ends_one_connection(tmp_path: Path, keys: Keys, name: str) -> None:
    attack, causes = IN_MID_CONNECTION[name]
    async with attacked(keys, tmp_path, LISTENS) as (sidecar, leader):
        victim = await secured(sidecar, keys, leader)
        await victim.fetches()
        await trio.to_thread.run_sync(attack, keys, sidecar.addresses["ingress.listen"])
        await until(lambda: sum(sidecar.statistics.leader.ended.values()) == 1)
        (cause,) = await counted(sidecar, "ended_connections_total")
        assert any(f'cause="{each}"' in cause for each in causes), cause
        await victim.fetches()
        assert leader.refused == []
        await trio.aclose_forcefully(victim.stream)


# Where there are no keys.


async def test_tls_on_a_plaintext_port_passes_unread_and_says_so(tmp_path: Path, keys: Keys) -> None:
    """The leader is the one to refuse it; the sidecar never answers a handshake for which it has no key."""
    async with attacked(keys, tmp_path, "") as (sidecar, leader):
        victim = Victim(await sidecar.dial(), leader)
        await victim.fetches()
        await trio.to_thread.run_sync(presents(lambda keys: keys.own), keys, sidecar.addresses["ingress.listen"])
        await until(lambda: sidecar.statistics.leader.connections == 1)
        assert await counted(sidecar, "undecoded_total") == {'reason="tls",role="leader"': 1}
        assert len(leader.refused) == 1
        await victim.fetches()
        await trio.aclose_forcefully(victim.stream)
