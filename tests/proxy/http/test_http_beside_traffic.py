"""HTTP and the relay in one sidecar: whatever comes over HTTP, a relayed connection beside never notices."""

from __future__ import annotations

from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import pytest
import trio
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from protocol.wire.framing import with_length
from tests.proxy.conversation import fetch_frame
from tests.proxy.relay.wire import answer, entry, read_frame

from ..serving.test_sidecar import TWO, Running, listener, port, running, settings, write_quotas
from .serving import heard
from .test_connection import ATTACKS, head, statuses

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

OURS = {b"/up": b"/metrics", b"/change": b"/-/reload", b"/echo": b"/-/reload", b"/broken": b"/throttle"}
"""The paths of these attacks, and what a sidecar has in their place."""


async def say(sidecar: Running, *chunks: bytes) -> bytes:
    async with await sidecar.dial("http.listen") as stream:
        with suppress(trio.BrokenResourceError):
            for chunk in chunks:
                if chunk:
                    await stream.send_all(chunk)
            await stream.send_eof()
        return await heard(stream)


class Victim:
    """A follower that fetches one answer after another over one connection."""

    def __init__(self) -> None:
        self.answers = 0

    async def fetch(self, sidecar: Running, leader: trio.SocketListener) -> None:
        request, response = fetch_frame(TWO), answer([entry(0), entry(1)])
        async with await sidecar.dial() as follower:
            await follower.send_all(with_length(request))  # nobody is dialled for a peer that has not spoken
            async with await leader.accept() as ours:
                while True:
                    assert await read_frame(ours) == request
                    await ours.send_all(with_length(response))
                    assert await read_frame(follower) == response
                    self.answers += 1
                    await follower.send_all(with_length(request))


@asynccontextmanager
async def attacked(folder: Path) -> AsyncIterator[Running]:
    """A sidecar with a victim on it, which has had answers before the block and has some after it."""
    write_quotas(folder, '"unlimited"')
    victim = Victim()

    async def next_answers() -> None:
        before = victim.answers
        with trio.fail_after(30):
            while victim.answers < before + 3:  # noqa: ASYNC110 - it counts, and tells nobody
                await trio.sleep(0.001)

    async with (
        listener() as leader,
        running(settings(folder, upstream=port(leader))) as sidecar,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(victim.fetch, sidecar, leader)
        await next_answers()
        yield sidecar
        await next_answers()
        assert sidecar.statistics.leader.connections == 1
        nursery.cancel_scope.cancel()
    assert sidecar.log.events.count("connection_closed") == 1  # when this block ended both its ends
    assert "task_restarted" not in sidecar.log.events
    assert "http_failed" not in sidecar.log.events


async def test_every_attack_at_once(tmp_path: Path) -> None:
    async with attacked(tmp_path) as sidecar:
        async with trio.open_nursery() as nursery:
            for attack in ATTACKS.values():
                chunks = list(attack.sent)
                for theirs, ours in OURS.items():
                    chunks[0] = chunks[0].replace(theirs + b" ", ours + b" ")
                nursery.start_soon(say, sidecar, *chunks)
        assert statuses(await say(sidecar, head("GET", "/healthz"))) == [200]


@pytest.mark.parametrize(
    ("request_head", "status"),
    [
        (head("POST", "/-/reload", "origin: https://evil.example"), 403),
        (head("POST", "/-/reload", "content-length: 0"), 200),
        (head("GET", "/config", host="evil.example"), 421),
        (head("GET", "/throttle", host="evil.example"), 421),
        (head("GET", "/readyz", host="evil.example"), 200),
        (head("GET", "/config"), 200),
    ],
)
async def test_who_may_ask_what(request_head: bytes, status: int, tmp_path: Path) -> None:
    async with attacked(tmp_path) as sidecar:
        assert statuses(await say(sidecar, request_head)) == [status]


async def test_promtool_finds_no_fault_with_what_a_sidecar_answers(tmp_path: Path) -> None:
    async with attacked(tmp_path) as sidecar:
        await say(sidecar, head(host="evil.example"))
        _, _, body = (await say(sidecar, head("GET", "/metrics"))).partition(b"\r\n\r\n")
    assert b'\nreplication_throttle_http_refused_total{reason="foreign_host"} 1.0\n' in body
    assert b"\nprocess_resident_memory_bytes " in body
    found = await trio.run_process(["promtool", "check", "metrics"], stdin=body, capture_stderr=True, check=False)
    faults = {line.split()[0] for line in found.stderr.decode().splitlines()}
    assert faults == {"LeaderReplicationThrottledRate", "FollowerReplicationThrottledRate", "SumReplicaLag"}


async def test_reloads_that_are_asked_for_together_are_one_or_two(tmp_path: Path) -> None:
    async with attacked(tmp_path) as sidecar:
        async with trio.open_nursery() as nursery:
            for _ in range(40):
                nursery.start_soon(say, sidecar, head("POST", "/-/reload", "content-length: 0"))
        _, _, body = (await say(sidecar, head("GET", "/metrics"))).partition(b"\r\n\r\n")
    (unchanged,) = [line for line in body.splitlines() if b'config_reloads_total{outcome="unchanged"}' in line]
    assert float(unchanged.split()[1]) <= 5


BYTES = st.one_of(st.binary(max_size=200), st.sampled_from([attack.sent[0][:500] for attack in ATTACKS.values()]))


@hypothesis_settings(deadline=None, max_examples=15, suppress_health_check=[*HealthCheck])
@given(connections=st.lists(st.lists(BYTES, max_size=5), min_size=5, max_size=20))
async def test_random_bytes(connections: list[list[bytes]], tmp_path: Path) -> None:
    async with attacked(tmp_path) as sidecar:
        async with trio.open_nursery() as nursery:
            for chunks in connections:
                nursery.start_soon(say, sidecar, *chunks)
        assert statuses(await say(sidecar, head("GET", "/healthz"))) == [200]
