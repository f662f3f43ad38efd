"""What cannot be Kafka is ended at once, counted and told once; no byte of it reaches the leader."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest
import trio

from protocol.wire.framing import with_length
from proxy.clients.throttle import ClientThrottle
from proxy.quotas import Quotas
from proxy.statistics.counters import RoleStatistics
from tests.proxy.conversation import settings

from .test_passing import HANDSHAKE, PRODUCE, TOKEN, UNKNOWN, fetch, listed, told
from .wire import read_all, read_exactly, relayed

if TYPE_CHECKING:
    from trio.testing import MockClock

IMPOSSIBLE = {
    "http probe": b"GET / HTTP/1.0\r\n\r\n",
    "http/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "proxy header v1": b"PROXY TCP4 10.0.0.1 10.0.0.2 40000 9092\r\n",
    "proxy header v2": b"\r\n\r\n\0\r\nQUIT\n!\x11\0\x0c" + bytes(12),
    "ssh banner": b"SSH-2.0-OpenSSH_9.6\r\n",
    "redis": b"*1\r\n$4\r\nPING\r\n",
    "a tls alert": bytes.fromhex("15030300020228") + bytes(8),
    "a negative size": b"\xff\xff\xff\xfegarbage",
    "a negative size beside a client id length that outweighs it": struct.pack(">ihhih", -4, 3, 0, 7, -32768),
    "a negative api key": struct.pack(">ihhih", 600_000, -1, 0, 7, -1),
}
BEGINNINGS = {"at once": b"", "after a request": fetch(), "after a handshake": HANDSHAKE + TOKEN}


def watching() -> ClientThrottle:
    """What looks for the user of each connection of the ingress, whether a client has a quota or not."""
    return ClientThrottle(settings(), Quotas(), 0.0, RoleStatistics())


@pytest.mark.parametrize("is_ingress", [False, True])
@pytest.mark.parametrize("pieces", [1000, 3, 1])
@pytest.mark.parametrize("before", BEGINNINGS)
@pytest.mark.parametrize("name", IMPOSSIBLE)
async def test_it_is_ended_at_its_eighth_byte(
    name: str, before: str, pieces: int, is_ingress: bool, clock: MockClock
) -> None:
    """An HTTP probe waited for the rest of a request of 1.2 GB, until `limits.frame_timeout`."""
    began, sent = BEGINNINGS[before], IMPOSSIBLE[name]
    async with relayed(listed(), clients=watching() if is_ingress else None) as wire:
        await wire.follower.send_all(began)
        assert await read_exactly(wire.leader, len(began)) == began
        since = trio.current_time()
        for at in range(0, len(sent[:8]), pieces):
            if not wire.finished.is_set():
                await wire.follower.send_all(sent[at : min(at + pieces, 8)] if pieces < 8 else sent)
                await trio.testing.wait_all_tasks_blocked()
        assert await read_all(wire.leader) == b""
        await wire.finished.wait()
        assert trio.current_time() - since < 1
        assert wire.ending["cause"] == "malformed_frame"
        assert wire.ending["level"] == "warning"
    assert wire.throttle.statistics.ended == {"malformed_frame": 1}
    assert wire.throttle.statistics.undecoded == {}
    if "size" not in name:
        assert wire.ending["error"] == f"expected a Kafka request, found bytes that begin with {sent[:8]!r}"


@pytest.mark.parametrize("is_ingress", [False, True])
@pytest.mark.parametrize(
    "frame",
    [
        with_length(b"GET / HTTP/1.0"),
        with_length(b"\x60\x82\x02\x0a" + bytes(530)),
        with_length(bytes(100_000)),
        UNKNOWN,
        with_length(struct.pack(">hhih", 10_003, 255, 7, -1) + b"\0"),
    ],
    ids=["a token that looks like HTTP", "a GSSAPI token", "a long token", "an api to come", "a vendor's api"],
)
async def test_what_could_be_kafka_passes(frame: bytes, is_ingress: bool, clock: MockClock) -> None:
    async with relayed(listed(), clients=watching() if is_ingress else None) as wire:
        await wire.follower.send_all(frame + PRODUCE)
        assert await read_exactly(wire.leader, len(frame + PRODUCE)) == frame + PRODUCE
        await wire.leader.send_all(told(PRODUCE))
        assert await read_exactly(wire.follower, len(told(PRODUCE))) == told(PRODUCE)
    assert wire.throttle.statistics.ended["malformed_frame"] == 0
