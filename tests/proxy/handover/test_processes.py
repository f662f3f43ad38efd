"""Real processes: one sidecar takes another's place between a follower that catches up and its leader."""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import trio

from lab.embedded.follower import EmbeddedFollower, FetcherSettings
from lab.embedded.leader import EmbeddedLeader, unsecured
from lab.host.processes import Process, wait_until
from operating.asking import ask, send

from ..tls.stage import MUTUAL_TLS, NAME, Keys

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

KEYS = [("t", 0), ("t", 1)]
MESSAGES = 5200
"""Of each partition, with 1 kB each: the quota lets them through in 40 s, so on a machine that is busy with more tests,
too, something is left while the processes follow each other. Once nothing throttles, it takes a second."""
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
DRAIN = '[limits]\ndrain = "{}s"\n'
LIMIT_SECONDS, STEP_SECONDS = 150, 60
"""Against a test that hangs. To start a process takes half a second, and 20 s on two cores with six others at work."""
pytestmark = pytest.mark.timeout(180)
KEPT_SECONDS = 4.0
"""So long a move is still held to its quota after what happened to it; what is left of it then, nothing throttles."""


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
            lambda: len(self.events("started")) > before,
            process=process,
            what="it has started",
            timeout_seconds=STEP_SECONDS,
        )
        return process

    def events(self, name: str) -> list[dict[str, Any]]:
        lines = self.output.read_text().splitlines() if self.output.exists() else []
        logged = (json.loads(line) for line in lines if line.startswith("{"))  # others are a failed start's last words
        return [line for line in logged if line["event"] == name]

    async def logged(self, name: str, *, times: int = 1) -> None:
        await wait_until(
            lambda: len(self.events(name)) >= times, process=self.processes[-1], what=name, timeout_seconds=STEP_SECONDS
        )

    async def end(self) -> None:
        with trio.CancelScope(shield=True):
            for process in self.processes:
                await process.terminate(grace_seconds=5)
            for line in self.events("next_process_started"):
                os.kill(line["pid"], signal.SIGKILL)

    async def configure(self, *, leader: int, quota: int, more: str = "") -> None:
        """Write both files; `more` is added to proxy.toml."""
        for name, text in FILES.items():
            written = text.format(leader=leader, quota=quota)
            await trio.Path(self.folder / name).write_text(written + more if name == "proxy.toml" else written)

    async def lift_quota(self) -> None:
        await trio.Path(self.folder / "quotas.toml").write_text(FILES["quotas.toml"].format(quota='"unlimited"'))

    def port(self) -> int:
        return int(self.events("started")[-1]["ingress.listen"].rpartition(":")[2])


class Secured:
    """Mutual TLS on both legs, TLS 1.3."""

    def __init__(self, folder: Path) -> None:
        self._keys = Keys(folder)

    def dials(self, stream: trio.SocketStream) -> trio.abc.Stream:
        return trio.SSLStream(stream, self._keys.client(presents=self._keys.own), server_hostname=NAME)

    def listens(self, stream: trio.SocketStream) -> trio.abc.Stream:
        return trio.SSLStream(stream, self._keys.server(asks=True), server_side=True)


@asynccontextmanager
async def served(
    leader: EmbeddedLeader, sidecar: Sidecar, secured: Secured | None, *, drain_seconds: int
) -> AsyncIterator[None]:
    """The leader listens, and the sidecar before it."""
    drain = DRAIN.format(drain_seconds)
    listens = unsecured if secured is None else secured.listens
    async with leader.listening(secure=listens) as (_, port):
        more = drain if secured is None else drain + MUTUAL_TLS
        await sidecar.configure(leader=port, quota=QUOTA_BYTES_PER_SECOND, more=more)
        await sidecar.start()
        yield


@asynccontextmanager
async def catching_up(
    folder: Path, secured: Secured | None = None, *, reconnects: int = 0
) -> AsyncIterator[tuple[Sidecar, EmbeddedFollower]]:
    """A follower behind a sidecar that throttles it; left when it has caught up, after so many further connections."""
    dials = unsecured if secured is None else secured.dials
    leader = EmbeddedLeader()
    for key in KEYS:
        leader.produce(*key, MESSAGES)
    sidecar = Sidecar(folder)
    follower = EmbeddedFollower(KEYS, settings=FetcherSettings(backoff_seconds=0.05))
    try:
        with trio.fail_after(LIMIT_SECONDS):
            async with served(leader, sidecar, secured, drain_seconds=20), trio.open_nursery() as nursery:
                began = trio.current_time()
                nursery.start_soon(follower.run, "127.0.0.1", sidecar.port(), dials)
                while not follower.deliveries:
                    await follower.progress.wait()
                yield sidecar, follower
                await trio.sleep(KEPT_SECONDS)
                seconds = trio.current_time() - began
                moved = sum(delivery.record_bytes for delivery in follower.deliveries)
                await sidecar.lift_quota()
                await follower.wait_caught_up(dict.fromkeys(KEYS, MESSAGES))
                nursery.cancel_scope.cancel()
            for process in sidecar.processes[:-1]:
                await process.wait_exit()  # by itself, now that nothing goes through it
    finally:
        await sidecar.end()
    assert follower.reconnects == reconnects
    for key in KEYS:
        assert follower.logs[key].digest() == leader.log(*key).digest()
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


async def test_a_follower_with_tls_comes_back_between_two_fetches(tmp_path: Path) -> None:
    async with catching_up(tmp_path, Secured(tmp_path), reconnects=1) as (sidecar, follower):
        old, _ = *sidecar.processes, await sidecar.start("--take-over")
        await old.wait_exit()
        assert follower.reconnects == 1
        behind = min(log.log_end_offset for log in follower.logs.values())
        assert behind < MESSAGES
    assert [line["connections"] for line in sidecar.events("taken_over")] == [0]
    assert [line["left"] for line in sidecar.events("tls_connections_ending")][::2] == [1]
    assert sidecar.events("connection_closed")[0]["cause"] == "drained"
    assert [process.exit_status for process in sidecar.processes] == [0, 0]


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


async def test_a_signal_with_a_broken_proxy_toml_is_reported_and_leaves_no_zombie(tmp_path: Path) -> None:
    """Only `next_process_started` was logged, and the child stayed a zombie for as long as the sidecar lived."""
    sidecar = Sidecar(tmp_path)
    await sidecar.configure(leader=9, quota=1)
    process = await sidecar.start()
    try:
        await trio.Path(tmp_path / "proxy.toml").write_text("[broker]")
        process.signal(signal.SIGUSR2)
        await sidecar.logged("handover_failed")
        (child,) = [line["pid"] for line in sidecar.events("next_process_started")]
        (line,) = sidecar.events("handover_failed")
        assert f"process {child} ended with status 1 before it took over" in line["error"]
        assert not await trio.Path(f"/proc/{child}").exists()
        assert process.running
    finally:
        await process.terminate(grace_seconds=5)
    assert process.exit_status == 0


async def test_an_override_that_is_made_while_the_next_process_starts_holds_there(tmp_path: Path) -> None:
    """That process had read the store by then."""
    sidecar = Sidecar(tmp_path)
    await sidecar.configure(leader=9, quota=1)
    first = await sidecar.start()
    url = f"unix:{os.environ['RUNTIME_DIRECTORY']}/101"
    change = {"place": "broker", "key": "leader.replication.throttled.rate", "value": "5MiB/s"}
    try:
        await sidecar.start("--take-over")
        assert sidecar.events("handover_started") == []
        body = json.dumps({"changes": [change]}).encode()
        await trio.to_thread.run_sync(partial(send, url, "/overrides", method="POST", body=body))
        await first.wait_exit()
        page = await trio.to_thread.run_sync(ask, url, "/throttle")
        assert json.loads(page)["roles"]["leader"]["quota_bytes_per_second"] == 5 * 2**20, page[:2000]
        history = json.loads(await trio.to_thread.run_sync(partial(ask, url, "/history")))["records"]
        events = [each["event"] for each in history if not each["event"].startswith("condition_")]
        assert sorted(events) == ["handed_over", "override_set", "started", "started", "stopped", "taken_over"], history
    finally:
        await sidecar.end()


async def test_without_anybody_to_take_over_from_it_starts_anew(tmp_path: Path) -> None:
    sidecar = Sidecar(tmp_path)
    await sidecar.configure(leader=9, quota=1)
    try:
        await sidecar.start("--take-over")
        assert len(sidecar.events("nothing_to_take_over")) == 1
    finally:
        await sidecar.processes[0].terminate(grace_seconds=5)
    assert sidecar.processes[0].exit_status == 0


async def test_without_anybody_to_take_over_from_a_crash_s_journal_is_closed(tmp_path: Path) -> None:
    """A unit file may always have --take-over, and the sidecar before may have been killed."""
    sidecar = Sidecar(tmp_path)
    await sidecar.configure(leader=9, quota=1, more='\n[journal]\ndirectory = "journal"\n')
    left = tmp_path / "journal" / "journal-101-20261121T082503Z-000001.open.ndjson.gz"
    await trio.Path(left.parent).mkdir()
    await trio.Path(left).write_bytes(b"torn")
    try:
        await sidecar.start("--take-over")
        closed = left.with_name(left.name.replace(".open", ""))
        assert (left.exists(), closed.exists()) == (False, True)
    finally:
        await sidecar.processes[0].terminate(grace_seconds=5)
