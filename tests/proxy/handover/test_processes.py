"""Real processes: one sidecar takes another's place between a follower that catches up and its leader."""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import trio

from lab.embedded.follower import EmbeddedFollower, FetcherSettings
from lab.embedded.leader import EmbeddedLeader
from lab.processes import Process, wait_until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

KEYS = [("t", 0), ("t", 1)]
MESSAGES = 1300
QUOTA_BYTES_PER_SECOND = 260_000
FILES = {
    "proxy.toml": """
[broker]
id = 101
[ingress]
listen = "127.0.0.1:0"
upstream = "127.0.0.1:{leader}"
[http]
listen = "127.0.0.1:0"
""",
    "quotas.toml": """
[brokers.default]
leader.replication.throttled.rate = {quota}
leader.replication.throttled.replicas = "*"
""",
}
LIMIT_SECONDS = 40


class Sidecar:
    """The processes that serve one proxy.toml, one after the other, with one log."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.output = folder / "sidecar.log"
        self.processes: list[Process] = []

    async def start(self, *options: str) -> Process:
        code = "from operating.cli import main; main()"
        command = [sys.executable, "-c", code, "run", "--config", str(self.folder / "proxy.toml"), *options]
        process = Process("sidecar", command, output=self.output)
        self.processes.append(process)
        before = len(self.events("started"))
        process.start()
        await wait_until(
            lambda: len(self.events("started")) > before, process=process, what="it has started", timeout_seconds=20
        )
        return process

    def events(self, name: str) -> list[dict[str, Any]]:
        lines = self.output.read_text().splitlines() if self.output.exists() else []
        return [line for line in map(json.loads, lines) if line["event"] == name]

    def port(self) -> int:
        return int(self.events("started")[-1]["ingress.listen"].rpartition(":")[2])


@asynccontextmanager
async def catching_up(folder: Path) -> AsyncIterator[tuple[Sidecar, EmbeddedFollower]]:
    """A follower behind a sidecar that throttles it; left when it has caught up, without a second connection."""
    leader = EmbeddedLeader()
    for key in KEYS:
        leader.produce(*key, MESSAGES)
    sidecar = Sidecar(folder)
    follower = EmbeddedFollower(KEYS, settings=FetcherSettings(backoff_seconds=0.05))
    try:
        with trio.fail_after(LIMIT_SECONDS):
            async with leader.listening() as (_, port), trio.open_nursery() as nursery:
                for name, text in FILES.items():
                    path = trio.Path(folder / name)
                    await path.write_text(text.format(leader=port, quota=QUOTA_BYTES_PER_SECOND))
                await sidecar.start()
                began = trio.current_time()
                nursery.start_soon(follower.run, "127.0.0.1", sidecar.port())
                while not follower.deliveries:
                    await follower.progress.wait()
                yield sidecar, follower
                await follower.wait_caught_up(dict.fromkeys(KEYS, MESSAGES))
                seconds = trio.current_time() - began
                nursery.cancel_scope.cancel()
    finally:
        with trio.CancelScope(shield=True):
            for process in sidecar.processes:
                await process.terminate(grace_seconds=5)
            for line in sidecar.events("next_process_started"):
                os.kill(line["pid"], signal.SIGKILL)
    assert follower.reconnects == 0
    for key in KEYS:
        assert follower.logs[key].digest() == leader.log(*key).digest()
    moved = sum(delivery.record_bytes for delivery in follower.deliveries)
    assert moved <= QUOTA_BYTES_PER_SECOND * (1.05 * seconds + 0.5)


async def test_the_new_process_goes_on_with_the_connection_and_the_old_one_ends(tmp_path: Path) -> None:
    async with catching_up(tmp_path) as (sidecar, follower):
        (old,) = sidecar.processes
        port = sidecar.port()
        await sidecar.start("--take-over")
        await old.wait_exit()
        assert old.exit_status == 0
        assert sidecar.port() == port
        behind = min(log.log_end_offset for log in follower.logs.values())
        assert behind < MESSAGES
    ends = [line["cause"] for line in sidecar.events("connection_closed")]
    assert ends[0] == "handed_over"
    assert "drained" not in ends[:1]
    assert [line["connections"] for line in sidecar.events("taken_over")] == [1]


async def test_it_is_taken_over_again_and_again_and_by_a_signal(tmp_path: Path) -> None:
    async with catching_up(tmp_path) as (sidecar, _):
        await sidecar.start("--take-over")
        await sidecar.processes[0].wait_exit()
        last = sidecar.processes[-1]
        last.signal(signal.SIGUSR2)
        await last.wait_exit()
        assert last.exit_status == 0
    assert [line["connections"] for line in sidecar.events("taken_over")] == [1, 1]


@pytest.mark.parametrize("wrong", ["[broker]", 'x = "y"'])
async def test_a_new_process_that_fails_before_it_is_ready_changes_nothing(tmp_path: Path, wrong: str) -> None:
    async with catching_up(tmp_path) as (sidecar, _):
        path = trio.Path(tmp_path / "proxy.toml")
        good = await path.read_text()
        await path.write_text(wrong)
        code = "from operating.cli import main; main()"
        failed = await trio.run_process(
            [sys.executable, "-c", code, "run", "--take-over", "--config", str(path)], check=False, capture_stderr=True
        )
        assert failed.returncode == 1
        await path.write_text(good)
        assert sidecar.processes[0].running
    assert sidecar.events("handover_started") == []


async def test_without_anybody_to_take_over_from_it_starts_anew(tmp_path: Path) -> None:
    for name, text in FILES.items():
        await trio.Path(tmp_path / name).write_text(text.format(leader=9, quota=1))
    sidecar = Sidecar(tmp_path)
    try:
        await sidecar.start("--take-over")
        assert len(sidecar.events("nothing_to_take_over")) == 1
    finally:
        await sidecar.processes[0].terminate(grace_seconds=5)
    assert sidecar.processes[0].exit_status == 0


async def test_without_anybody_to_take_over_from_a_crash_s_journal_is_closed(tmp_path: Path) -> None:
    """A unit file may always have --take-over, and the sidecar before may have been killed."""
    for name, text in FILES.items():
        await trio.Path(tmp_path / name).write_text(text.format(leader=9, quota=1))
    async with await trio.open_file(tmp_path / "proxy.toml", "a") as file:
        await file.write('\n[journal]\ndirectory = "journal"\n')
    left = tmp_path / "journal" / "journal-101-20261121T082503Z-000001.open.ndjson.gz"
    await trio.Path(left.parent).mkdir()
    await trio.Path(left).write_bytes(b"torn")
    sidecar = Sidecar(tmp_path)
    try:
        await sidecar.start("--take-over")
        closed = left.with_name(left.name.replace(".open", ""))
        assert (left.exists(), closed.exists()) == (False, True)
    finally:
        await sidecar.processes[0].terminate(grace_seconds=5)
