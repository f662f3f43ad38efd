"""A new process that dies before it has proven itself leaves the old one serving, as if nobody had asked."""

from __future__ import annotations

import signal
import struct
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import pytest
import trio

from lab.host.addresses import held_ports
from lab.host.processes import wait_until

from .test_processes import LIMIT_SECONDS, STEP_SECONDS, Sidecar

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from lab.host.processes import Process

API_VERSIONS = struct.pack(">ihhihc", 11, 18, 0, 1, 1, b"x")
"""A request, from the client `x`; its length is before it."""
ANSWER = struct.pack(">ii", 4, 0)
DRAIN = '[limits]\ndrain = "60s"\n'
pytestmark = pytest.mark.timeout(180)


@pytest.mark.parametrize(("stage", "started"), [("handover_offered", 1), ("handover_started", 2)])
async def test_a_new_process_that_dies_leaves_the_old_one_serving(tmp_path: Path, stage: str, started: int) -> None:
    """Every connection and listener was lost, and the old process ended with status 0, so that no supervisor acted."""
    async with with_a_request_in_flight(tmp_path) as (sidecar, old):
        new = await sidecar.start("--take-over")
        await sidecar.logged(stage)
        await new.kill()
        await wait_until(
            lambda: bool(sidecar.events("handover_failed")), process=old, what="it tells", timeout_seconds=STEP_SECONDS
        )
        assert await are_pages_answered(sidecar)
        assert await is_relayed(sidecar)
        await sidecar.start("--take-over")
        await sidecar.logged("handover_started", times=started)
        assert await is_relayed(sidecar)
        assert old.running


async def is_relayed(sidecar: Sidecar) -> bool:
    """Tell whether a connection is accepted and reaches the leader, which answers the first of two requests."""
    async with await trio.open_tcp_stream("127.0.0.1", sidecar.port()) as client:
        await client.send_all(API_VERSIONS + API_VERSIONS)
        return await client.receive_some(100) == ANSWER


async def are_pages_answered(sidecar: Sidecar) -> bool:
    host, port = sidecar.events("started")[0]["http"].rsplit(":", 1)
    async with await trio.open_tcp_stream(host, int(port)) as stream:
        await stream.send_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        return (await stream.receive_some(4096)).startswith(b"HTTP/1.1 200")


async def test_a_process_that_was_taken_over_from_has_a_successor(tmp_path: Path) -> None:
    """A third process asked the first one, which hands over to the second."""
    async with with_a_request_in_flight(tmp_path) as (sidecar, old):
        second = await sidecar.start("--take-over")
        await sidecar.start("--take-over")
        await second.wait_exit()
        assert second.exit_status == 0
        assert old.running
        assert sidecar.events("handover_failed") == []


async def test_a_process_that_was_told_to_end_is_taken_over_from_while_it_drains(tmp_path: Path) -> None:
    """It offered the numbers of listeners that were closed: the start ended with a traceback, or with a file of the old
    process that had the number by then."""
    async with with_a_request_in_flight(tmp_path, binds=1) as (sidecar, old):
        old.signal(signal.SIGTERM)
        await sidecar.logged("drain_started")
        new = await sidecar.start("--take-over")
        assert (old.running, new.running) == (True, True)
        first, second = sidecar.events("started")
        assert [second[key] for key in ("ingress.listen", "http")] == [first[key] for key in ("ingress.listen", "http")]
        await sidecar.logged("handover_started")
        assert sidecar.events("handover_failed") == []


@asynccontextmanager
async def with_a_request_in_flight(folder: Path, *, binds: int = 0) -> AsyncIterator[tuple[Sidecar, Process]]:
    """A sidecar, and its first process, which has as much to wait for as it may. The first `binds` of its listeners are
    for ports that a later process can bind again."""
    sidecar, asked = Sidecar(folder), trio.Event()

    async def answer_a_second_request(stream: trio.SocketStream) -> None:
        received = b""
        while len(received) < 2 * len(API_VERSIONS):
            received += await stream.receive_some()
            asked.set()
        await stream.send_all(ANSWER)

    try:
        with held_ports(binds) as ports, trio.fail_after(LIMIT_SECONDS):
            async with trio.open_nursery() as nursery:
                (leader,) = await nursery.start(partial(trio.serve_tcp, answer_a_second_request, 0, host="127.0.0.1"))
                port = leader.socket.getsockname()[1]
                await sidecar.configure(leader=port, quota=1, more=DRAIN)
                await _binds(folder / "proxy.toml", ports)
                process = await sidecar.start()
                async with await trio.open_tcp_stream("127.0.0.1", sidecar.port()) as client:
                    await client.send_all(API_VERSIONS)
                    await asked.wait()
                    yield sidecar, process
                nursery.cancel_scope.cancel()
    finally:
        await sidecar.end()


async def _binds(config: Path, ports: list[int]) -> None:
    """Instead of any free port, which another program could have by the time that it is bound again."""
    path = trio.Path(config)
    text = await path.read_text()
    for port in ports:
        text = text.replace('listen = "127.0.0.1:0"', f'listen = "127.0.0.1:{port}"', 1)
    await path.write_text(text)
