"""A sidecar with keys between an embedded leader and its followers, for tests of what is done to it.

What it counts is read where operators read it, in /metrics.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import ssl
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import trio

from lab.brokers.authority import Authority
from lab.embedded.leader import EmbeddedLeader
from lab.sidecars.exposition import parse_exposition
from protocol.wire.framing import with_length
from proxy.config.settings import load_settings
from tests.proxy.conversation import fetch_frame
from tests.proxy.relay.wire import T0, read_frame
from tests.proxy.serving.test_sidecar import Running, get, running, write_quotas

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator
    from pathlib import Path

NAME = "kafka-101"
PATIENT_SECONDS = 30.0
"""Of a handshake that has to succeed, or to fail for another reason than its time: only a test that hangs takes as
long. One of 0.3 s failed where the machine had other work."""
MAX_HANDSHAKES = 8
KAFKA = bytes.fromhex("00000014001200030000000100047465737400000000000000")
TLS = '\n[ingress.tls.{side}]\n{keystore}ssl.truststore.location = "ca.pem"\n{more}'
OWN = 'ssl.keystore.location = "own.pem"\n'
LISTENS = TLS.format(side="listen", keystore=OWN, more='ssl.client.auth = "required"\nallowed_names = ["kafka-101"]')
DIALS = TLS.format(side="upstream", keystore="", more=f'server_name = "{NAME}"')
SETTINGS = """
[broker]
id = 101
[ingress]
listen = "127.0.0.1:0"
upstream = "127.0.0.1:{upstream}"
[http]
listen = "127.0.0.1:0"
[limits]
max_memory = "64GiB"  # this process has what all tests before have left
{tls}
"""


class Keys:
    """What an attacker has: certificates of the brokers' authority, good and bad, and one of another authority's."""

    def __init__(self, home: Path) -> None:
        write_quotas(home, '"100MiB/s"')
        long_ago = dt.datetime.now(dt.UTC) - dt.timedelta(hours=1)
        authority = Authority(home)
        self.trusted = authority.certificate
        self.own = authority.issue("own.pem", [NAME])
        self.expired = authority.issue("expired.pem", [NAME], expires=long_ago)
        self.of_another_name = authority.issue("other.pem", ["kafka-102"])
        stranger = Authority(home / "stranger", name="stranger")
        self.of_a_stranger = stranger.issue("own.pem", [NAME])

    def client(self, presents: Path | None, newest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.trusted)
        context.maximum_version = newest
        if presents is not None:
            context.load_cert_chain(presents)
        return context

    def server(self, presents: Path, *, asks: bool = False) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(presents)
        if asks:
            context.load_verify_locations(self.trusted)
            context.verify_mode = ssl.CERT_REQUIRED
        return context


@dataclass
class Victim:
    """A follower that fetches on one connection for as long as it is there."""

    stream: trio.abc.Stream
    leader: EmbeddedLeader
    fetched: int = 0

    async def fetches(self) -> None:
        """Raises AssertionError unless its answer has the records that the leader has appended."""
        self.leader.produce(*T0, 10)
        answer = b""
        for _ in range(1 if self.fetched else 2):  # first contact brings a batch at most
            await self.stream.send_all(with_length(fetch_frame({T0: self.fetched})))
            answer = await read_frame(self.stream)
        assert len(answer) > 10_000
        self.fetched += 10


async def metrics(sidecar: Running) -> dict[str, dict[str, float]]:
    text = await trio.to_thread.run_sync(get, sidecar.addresses["http.listen"], "/metrics")
    return parse_exposition(text)


async def counted(sidecar: Running, name: str) -> dict[str, float]:
    """What is not 0, by labels."""
    found = (await metrics(sidecar))["replication_throttle_" + name]
    return {labels: value for labels, value in found.items() if value}


async def counted_all(sidecar: Running, leg: str, count: int) -> set[str]:
    """Wait until so many handshakes of that leg have failed, and no other: their reasons."""
    with trio.fail_after(PATIENT_SECONDS):
        while True:
            found = await counted(sidecar, "tls_handshake_failures_total")
            if sum(found.values()) >= count:
                break
            await trio.sleep(0.02)
    assert sum(found.values()) == count
    assert {labels.partition(",")[0] for labels in found} == {f'leg="{leg}"'}
    return {labels.split('"')[3] for labels in found}


@asynccontextmanager
async def attacked(
    keys: Keys, folder: Path, tls: str, *, handshake_seconds: float = PATIENT_SECONDS
) -> AsyncIterator[tuple[Running, EmbeddedLeader]]:
    leader = EmbeddedLeader()
    async with leader.listening() as (_, upstream):
        path = folder / "proxy.toml"
        path.write_text(SETTINGS.format(upstream=upstream, tls=tls))
        settings = load_settings(path)
        limits = replace(settings.limits, tls_handshake_seconds=handshake_seconds, max_tls_handshakes=MAX_HANDSHAKES)
        async with running(replace(settings, limits=limits)) as sidecar:
            yield sidecar, leader


async def secured(sidecar: Running, keys: Keys, leader: EmbeddedLeader) -> Victim:
    context = keys.client(keys.own)
    stream = trio.SSLStream(await sidecar.dial(), context, server_hostname=NAME, https_compatible=True)
    return Victim(stream, leader)


def waits(sock: socket.socket) -> None:
    """Until the sidecar closes the connection; whatever it says before is an alert at most."""
    with contextlib.suppress(ConnectionError):
        while sock.recv(4096):
            pass
