"""A new process that dies after it was ready leaves nothing in the way of the next one, which somebody has to start."""

from __future__ import annotations

import signal
import struct
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import pytest
import trio

from lab.addresses import held_ports
from lab.processes import wait_until
from proxy.handover.giving import NEXT_SECONDS

from .test_processes import LIMIT_SECONDS, STEP_SECONDS, Sidecar

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from lab.processes import Process

API_VERSIONS = struct.pack(">ihhihc", 11, 18, 0, 1, 1, b"x")
"""A request, from the client `x`; its length is before it."""
DRAIN = '[limits]\ndrain = "60s"\n'
pytestmark = pytest.mark.timeout(180)


async def test_a_process_that_drains_after_its_successor_died_keeps_no_address_from_the_next_one(
    tmp_path: Path,
) -> None:
    """HTTP's was bound until the last connection had drained, so each start until then ended with status 1. And the
    process that knew that nobody listens did not tell."""
    async with with_a_request_in_flight(tmp_path, binds=2) as (sidecar, old):
        new = await sidecar.start("--take-over")
        await sidecar.logged("handover_started")
        pid = new.pid
        await new.kill()
        await wait_until(
            lambda: bool(sidecar.events("handover_failed")), process=old, what="it tells", timeout_seconds=STEP_SECONDS
        )
        (line,) = sidecar.events("handover_failed")
        told = f"process {pid} ended after it had taken over: nobody listens until a sidecar is started"
        assert (line["level"], line["error"]) == ("error", told)
        next_one = await sidecar.start("--take-over")
        assert (old.running, next_one.running) == (True, True)
        assert len(sidecar.events("nothing_to_take_over")) == 1


async def test_a_successor_that_was_taken_over_from_has_not_died(tmp_path: Path) -> None:
    async with with_a_request_in_flight(tmp_path) as (sidecar, old):
        second = await sidecar.start("--take-over")
        await sidecar.logged("handover_started")
        await sidecar.start("--take-over")
        await second.wait_exit()
        await trio.sleep(NEXT_SECONDS + 0.5)
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

    async def never_answer(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        asked.set()
        await trio.sleep_forever()

    try:
        with held_ports(binds) as ports, trio.fail_after(LIMIT_SECONDS):
            async with trio.open_nursery() as nursery:
                (leader,) = await nursery.start(partial(trio.serve_tcp, never_answer, 0, host="127.0.0.1"))
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
