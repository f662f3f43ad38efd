"""The sidecar as a process: real listeners, a real quotas file, signals, and the drain."""

from __future__ import annotations

import gc
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
import warnings
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from lab.embedded.follower import EmbeddedFollower, FetcherSettings
from lab.embedded.leader import EmbeddedLeader
from lab.host.addresses import held_ports
from protocol.wire.framing import with_length
from proxy.config.settings import load_settings
from proxy.errors import ConfigurationError
from proxy.journal.recorder import Journal
from proxy.network.connection_setup import NameLookups
from proxy.quota_files.reload import QuotaWatch
from proxy.serving.serve import serve
from proxy.statistics.counters import Statistics
from tests.open_files import open_files
from tests.proxy.conversation import fetch_frame
from tests.proxy.recorded_log import RecordedLog
from tests.proxy.relay.wire import T0, T1, answer, entry, parsed, read_all, read_frame

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from proxy.config.settings import Address, Settings

SETTINGS = """
[broker]
id = 101
[ingress]
listen = "127.0.0.1:0"
upstream = "127.0.0.1:{upstream}"
[egress]
mode = "peers"
[[egress.peers]]
broker = 102
listen = "127.0.0.1:{peer}"
upstream = "127.0.0.1:{upstream}"
[quotas]
file = "quotas.toml"
[http]
listen = "127.0.0.1:{http}"
[limits]
max_memory = "64GiB"  # this process has what all tests before have left
drain = "{drain}"
"""
TWO = {T0: 0, T1: 0}
HALF_A_LENGTH = bytes(2)
"""The least that makes the sidecar dial, and nothing that it would pass on yet."""
LIMIT_SECONDS = 30.0
"""Against a test that hangs: a machine that is busy with other tests stands still for seconds now and then."""
HOLD_MS = 60_000
"""Longer than any test: a hold that ends was ended by what the test did."""


def write_quotas(folder: Path, rate: str) -> None:
    text = "".join(
        f'{role}.replication.throttled.rate = {rate}\n{role}.replication.throttled.replicas = "*"\n'
        for role in ("leader", "follower")
    )
    replacement = folder / "quotas.toml.new"
    replacement.write_text(f"[brokers.default]\n{text}")
    replacement.rename(folder / "quotas.toml")


def settings(folder: Path, *, upstream: int, peer: int = 0, http: int = 0, drain: str = "2s") -> Settings:
    path = folder / "proxy.toml"
    path.write_text(SETTINGS.format(upstream=upstream, peer=peer, http=http, drain=drain))
    return load_settings(path)


@dataclass
class Running:
    addresses: dict[str, Address]
    log: RecordedLog
    statistics: Statistics
    finished: trio.Event

    async def dial(self, key: str = "ingress.listen") -> trio.SocketStream:
        return await trio.open_tcp_stream(*self.addresses[key])


@asynccontextmanager
async def running(of: Settings, *, signals: bool = False, overrides: Path | None = None) -> AsyncIterator[Running]:
    """A sidecar until the block ends, or it does. `overrides`: the path of their store."""
    log, statistics, finished = RecordedLog(), Statistics(), trio.Event()
    watch = QuotaWatch.open(of.quotas.file, broker_id=101, log=log, overrides=overrides)
    run = partial(serve, of, watch, statistics=statistics, log=log, signals=signals)
    with trio.fail_after(50):
        async with trio.open_nursery() as nursery:

            async def run_until_finished(*, task_status: trio.TaskStatus[dict[str, Address]]) -> None:
                await run(task_status=task_status)
                finished.set()

            addresses = await nursery.start(run_until_finished)
            yield Running(addresses, log, statistics, finished)
            nursery.cancel_scope.cancel()
    assert statistics.leader.connections == statistics.follower.connections == 0


@asynccontextmanager
async def listener() -> AsyncIterator[trio.SocketListener]:
    """The leader's listener, played by the test."""
    async with (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0] as found:
        yield found


def port(of: trio.SocketListener) -> int:
    return int(of.socket.getsockname()[1])


async def until(condition: Callable[[], bool]) -> None:
    with trio.fail_after(LIMIT_SECONDS):
        while not condition():
            await trio.testing.wait_all_tasks_blocked(0.001)


async def hold(sidecar: Running, leader: trio.SocketListener, folder: Path) -> tuple[trio.SocketStream, ...]:
    """A fetch that waits: quota 0, both partitions behind. The ends of follower and leader."""
    follower = await sidecar.dial()
    await follower.send_all(with_length(fetch_frame(TWO)))
    ours = await leader.accept()
    await read_frame(ours)
    await ours.send_all(with_length(answer([entry(0), entry(1)])))
    await read_frame(follower)
    await follower.send_all(with_length(fetch_frame(TWO, max_wait_ms=HOLD_MS)))
    await until(lambda: sidecar.statistics.leader.held_requests > 0)
    return follower, ours


@pytest.mark.parametrize(
    ("taken", "take_over", "told"),
    [
        ("http", False, "$"),
        ("peer", False, "$"),
        ("http", True, "; --take-over found no sidecar to replace: one of an older release"),
        ("peer", True, "; --take-over found no sidecar to replace: one of an older release"),
    ],
)
async def test_a_port_in_use_is_an_error_at_start_and_leaves_nothing_open(
    taken: str, told: str, tmp_path: Path, *, take_over: bool
) -> None:
    write_quotas(tmp_path, "0")
    with socket.create_server(("127.0.0.1", 0)) as other, warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()  # what an earlier test left open is none of this one's
        warnings.simplefilter("error", ResourceWarning)
        before = open_files()
        in_use = other.getsockname()[1]
        of = settings(tmp_path, upstream=9, **{taken: in_use})
        watch = QuotaWatch.open(of.quotas.file, broker_id=101, log=RecordedLog())
        with pytest.raises(ConfigurationError, match=f"127.0.0.1:{in_use}: Address already in use{told}"):
            await serve(of, watch, statistics=Statistics(), log=RecordedLog(), signals=False, take_over=take_over)
        left_open = open_files() - before
        gc.collect()
    assert left_open == set()


async def test_both_roles_are_relayed_and_named(tmp_path: Path) -> None:
    write_quotas(tmp_path, '"unlimited"')
    async with listener() as leader, running(settings(tmp_path, upstream=port(leader))) as sidecar:
        for key in ("ingress.listen", "egress.peers[0].listen"):
            async with await sidecar.dial(key) as follower:
                await follower.send_all(with_length(fetch_frame(TWO)))
                async with await leader.accept() as ours:
                    assert await read_frame(ours) == fetch_frame(TWO)
                    await ours.send_all(with_length(answer([entry(0), entry(1)])))
                    assert len(parsed(await read_frame(follower))) == 2
    ends = [(line["role"], line["peer"]) for line in sidecar.log.lines if line["event"] == "connection_closed"]
    assert sorted(ends) == [("follower", "102"), ("leader", "102")]


@pytest.mark.parametrize("rate", ['"1GiB/s"', '"unlimited"'])
async def test_a_new_file_ends_a_hold(rate: str, tmp_path: Path, notified_within: float) -> None:
    write_quotas(tmp_path, "0")
    async with listener() as leader, running(settings(tmp_path, upstream=port(leader))) as sidecar:
        follower, ours = await hold(sidecar, leader, tmp_path)
        write_quotas(tmp_path, rate)
        with trio.fail_after(notified_within):
            await read_frame(ours)
        await follower.aclose()
        await ours.aclose()


async def test_names_have_threads_of_their_own(tmp_path: Path) -> None:
    write_quotas(tmp_path, "1000")
    async with running(settings(tmp_path, upstream=1)):
        assert isinstance(trio.socket.set_custom_hostname_resolver(None), NameLookups)


async def test_a_bad_file_changes_nothing(tmp_path: Path) -> None:
    write_quotas(tmp_path, "0")
    async with listener() as leader, running(settings(tmp_path, upstream=port(leader))) as sidecar:
        follower, ours = await hold(sidecar, leader, tmp_path)
        write_quotas(tmp_path, '"many"')
        await until(lambda: "quotas_reload_failed" in sidecar.log.events)
        assert sidecar.statistics.leader.held_requests == 1
        await follower.aclose()
        await ours.aclose()


async def test_files_that_change_under_load_lose_nothing(tmp_path: Path) -> None:
    """As fast as files can be written, while a follower catches up through both roles of the sidecar."""
    write_quotas(tmp_path, "0")
    keys = [("t", p) for p in range(4)]
    leader = EmbeddedLeader()
    for topic, partition in keys:
        leader.produce(topic, partition, 4000)
    follower = EmbeddedFollower(keys, settings=FetcherSettings(backoff_seconds=0.05))
    async with (
        leader.listening() as (_, upstream),
        running(settings(tmp_path, upstream=upstream)) as sidecar,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(follower.run, *sidecar.addresses["ingress.listen"])
        for turn in range(150):
            write_quotas(tmp_path, ["0", '"4MiB/s"', '"nonsense"', '"64KiB/s"', '"40MiB/s"'][turn % 5])
            await trio.sleep(0.005)
        write_quotas(tmp_path, '"unlimited"')
        with trio.fail_after(LIMIT_SECONDS):
            await follower.wait_caught_up({key: log.log_end_offset for key, log in leader.logs.items()})
        nursery.cancel_scope.cancel()
    assert {k: log.digest() for k, log in follower.logs.items()} == {k: log.digest() for k, log in leader.logs.items()}
    assert follower.reconnects == 0


async def test_sigterm_drains(tmp_path: Path) -> None:
    """What is held is answered, what is idle is closed, nothing new is accepted, and then it is over."""
    write_quotas(tmp_path, "0")
    async with listener() as leader:
        of = settings(tmp_path, upstream=port(leader), drain="30s")
        async with running(of, signals=True) as sidecar:
            held, *ends = await hold(sidecar, leader, tmp_path)
            idle, silent = await sidecar.dial(), await sidecar.dial()
            await idle.send_all(HALF_A_LENGTH)
            ends += [held, idle, silent, await leader.accept()]
            began = trio.current_time()
            os.kill(os.getpid(), signal.SIGTERM)
            assert len(parsed(await read_frame(held))) == 2
            assert await read_all(held) == await read_all(idle) == await read_all(silent) == b""
            await sidecar.finished.wait()
            assert trio.current_time() - began < 15  # half of what it has; HTTP has a second of its own
            with pytest.raises(OSError, match="connect"):
                await sidecar.dial()
            for end in ends:
                await end.aclose()
    causes = [line["cause"] for line in sidecar.log.lines if line["event"] == "connection_closed"]
    assert causes == ["drained", "drained"]
    assert sidecar.log.events[-1] == "stopped"


async def test_a_drain_ends_at_its_deadline(tmp_path: Path) -> None:
    write_quotas(tmp_path, "0")
    async with listener() as leader:
        of = settings(tmp_path, upstream=port(leader), drain="300ms")
        async with running(of, signals=True) as sidecar, await sidecar.dial() as follower:
            await follower.send_all(with_length(fetch_frame(TWO)))
            ours = await leader.accept()
            await read_frame(ours)
            began = trio.current_time()
            os.kill(os.getpid(), signal.SIGINT)
            assert await read_all(follower) == b""
            assert 0.25 < trio.current_time() - began < 10  # it would wait for the leader, who never answers
            await sidecar.finished.wait()
            await ours.aclose()
    causes = [line["cause"] for line in sidecar.log.lines if line["event"] == "connection_closed"]
    assert causes == ["drained"]


async def test_sighup_reads_the_file_again(tmp_path: Path) -> None:
    write_quotas(tmp_path, "0")
    async with listener() as leader, running(settings(tmp_path, upstream=port(leader)), signals=True) as sidecar:
        await trio.sleep(0.05)
        os.kill(os.getpid(), signal.SIGHUP)
        await trio.sleep(0.05)
        assert not sidecar.finished.is_set()


def wait_deadly(pid: int, number: int) -> None:
    """Until the process does not catch this signal any more: it does so right after it has told of the first one."""
    over = time.monotonic() + LIMIT_SECONDS
    while True:
        (caught,) = (line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("SigCgt"))
        if not int(caught.split()[1], 16) & 1 << number - 1:
            return
        assert time.monotonic() < over, "it still catches it"
        time.sleep(0.01)


@pytest.mark.parametrize(("first", "second"), [("SIGTERM", "SIGTERM"), ("SIGTERM", "SIGINT")])
def test_a_second_signal_ends_at_once(first: str, second: str, tmp_path: Path) -> None:
    """Whichever it is: an operator who asks twice does not want to wait for the deadline."""
    write_quotas(tmp_path, "0")
    with socket.create_server(("127.0.0.1", 0)) as leader:
        settings(tmp_path, upstream=leader.getsockname()[1], drain="60s")
        command = [
            sys.executable,
            "-c",
            "from operating.cli import main; main()",
            "run",
            "--config",
            str(tmp_path / "proxy.toml"),
        ]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                started = json.loads(process.stdout.readline())
                host, _, at = str(started["ingress.listen"]).rpartition(":")
                with socket.create_connection((host, int(at))) as follower:
                    follower.sendall(with_length(fetch_frame(TWO)))
                    with leader.accept()[0] as ours:
                        ours.recv(1000)
                        process.send_signal(getattr(signal, first))
                        while json.loads(process.stdout.readline())["event"] != "drain_started":
                            pass
                        wait_deadly(process.pid, getattr(signal, second))
                        process.send_signal(getattr(signal, second))
                        assert process.wait(LIMIT_SECONDS) == -getattr(signal, second)
            finally:
                process.kill()


async def test_peers_that_say_nothing_cost_no_dial(tmp_path: Path) -> None:
    """Health checks that only connect, and 600 of a flood's each second."""
    write_quotas(tmp_path, '"unlimited"')
    async with listener() as leader, running(settings(tmp_path, upstream=port(leader))) as sidecar:
        for _ in range(10):
            await (await sidecar.dial()).aclose()
            follower = await sidecar.dial()
            follower.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            follower.socket.close()
        async with await sidecar.dial(), await sidecar.dial() as follower:
            await follower.send_all(with_length(fetch_frame(TWO)))
            async with await leader.accept() as ours:  # the first that is dialled at all
                assert await read_frame(ours) == fetch_frame(TWO)
                assert sidecar.statistics.leader.connections == 1
    assert sidecar.log.events.count("connection_closed") == 1


async def test_who_dials_a_transparent_egress_itself_is_refused_and_told_of_once(tmp_path: Path) -> None:
    write_quotas(tmp_path, "0")
    path = tmp_path / "proxy.toml"
    path.write_text(
        '[broker]\nid = 101\n[egress]\nmode = "transparent"\nlisten = "[::]:0"\n[http]\nlisten = "127.0.0.1:0"\n'
    )
    async with running(load_settings(path)) as sidecar:
        port = sidecar.addresses["egress.listen"].port
        for host in ("127.0.0.1", "::1", "127.0.0.1"):
            async with await trio.open_tcp_stream(host, port) as follower:
                await follower.send_all(HALF_A_LENGTH)
                assert await read_all(follower) == b""
        await until(lambda: any(line.get("name") == "redirect_refused" for line in sidecar.log.lines))
        ready = await trio.to_thread.run_sync(get, sidecar.addresses["http.listen"], "/readyz")
    assert sidecar.statistics.follower.refused == {"not_redirected": 3}
    refused = [line for line in sidecar.log.lines if line["event"] == "redirected_connection_refused"]
    assert [(line["level"], line["reason"], line["peer"]) for line in refused] == [
        ("warning", "not_redirected", "::ffff:127.0.0.1")
    ]
    assert "3 connections refused (not_redirected)" in ready


LEADER_ALONE = """
[brokers.default]
leader.replication.throttled.rate = { auto = true, min = "1MiB/s", max = "9MiB/s" }
leader.replication.throttled.replicas = "*"
follower.replication.throttled.rate = "4MiB/s"
follower.replication.throttled.replicas = "*"
[peers.102]
leader.replication.throttled.rate = "2MiB/s"
until = 2100-01-01T00:00:00Z
"""


async def test_a_role_that_is_left_out_has_nothing_for_an_alert_to_find(tmp_path: Path) -> None:
    """quotas.toml may have a quota for it, as for every broker; nothing passes here that it could hold for."""
    (tmp_path / "quotas.toml").write_text(LEADER_ALONE)
    path = tmp_path / "proxy.toml"
    path.write_text(
        '[broker]\nid = 101\n[egress]\nmode = "transparent"\nlisten = "[::]:0"\n[http]\nlisten = "127.0.0.1:0"\n'
    )
    async with running(load_settings(path)) as sidecar:
        await trio.sleep(1.5)  # rates are chosen once a second
        metrics = await trio.to_thread.run_sync(get, sidecar.addresses["http.listen"], "/metrics")
        page = await trio.to_thread.run_sync(get, sidecar.addresses["http.listen"], "/throttle")
    samples = [line for line in metrics.splitlines() if not line.startswith("#")]
    assert 'replication_throttle_limit_bytes_per_second{role="follower"} 4.194304e+06' in samples
    assert 'replication_throttle_limit_bytes_per_second{role="leader"} +Inf' in samples
    own = r"\w+_(auto|bound|deadline_needed|quota_until|quota_next)_"
    assert [line for line in samples if re.match(own, line)] == []
    assert json.loads(page)["roles"]["leader"]["rate"]["held_by"] == ""


def get(http: Address, path: str) -> str:
    with urllib.request.urlopen(f"http://{http}{path}", timeout=LIMIT_SECONDS) as answer:
        return str(answer.read().decode())


async def test_a_journal_that_is_not_written_is_a_warning_while_it_is_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_quotas(tmp_path, "0")
    path = settings(tmp_path, upstream=1).path
    path.write_text(path.read_text() + f'[journal]\ndirectory = "{tmp_path / "journal"}"\n')
    async with running(load_settings(path)) as sidecar:
        before = await trio.to_thread.run_sync(get, sidecar.addresses["http.listen"], "/readyz")
        monkeypatch.setattr(Journal, "problem", "No space left on device")
        await until(lambda: any(line.get("name") == "journal_not_written" for line in sidecar.log.lines))
        after = await trio.to_thread.run_sync(get, sidecar.addresses["http.listen"], "/readyz")
    assert ("journal" in before, "the journal is not written, lines are dropped: No space left" in after) == (
        False,
        True,
    )


async def test_nobody_behind_it(tmp_path: Path) -> None:
    write_quotas(tmp_path, "0")
    with held_ports(1) as (free,):
        of = settings(tmp_path, upstream=free)
        async with running(of) as sidecar:
            for _ in range(3):
                async with await sidecar.dial() as follower:
                    await follower.send_all(HALF_A_LENGTH)
                    assert await read_all(follower) == b""
    ends = [(line["cause"], line["level"]) for line in sidecar.log.lines if line["event"] == "connection_closed"]
    assert ends == [("connect_failed", "warning")] * 3


async def test_an_upstream_that_leads_back_here_is_told_of_and_dials_nobody(tmp_path: Path) -> None:
    """Each connection dialled the next one, as fast as it went, until descriptors ran out."""
    write_quotas(tmp_path, "0")
    lookups = NameLookups(lambda _, *rest: socket.getaddrinfo("127.0.0.1", *rest))
    with held_ports(1) as (free,):
        path = settings(tmp_path, upstream=1, peer=free).path
        path.write_text(path.read_text().replace('"127.0.0.1:1"\n[quotas]', f'"kafka-102:{free}"\n[quotas]'))
        async with running(load_settings(path)) as sidecar:
            trio.socket.set_custom_hostname_resolver(lookups)
            async with await sidecar.dial("egress.peers[0].listen") as follower:
                await follower.send_all(HALF_A_LENGTH)
                assert await read_all(follower) == b""
            await until(lambda: sidecar.statistics.follower.connections == 0)
    ends = [line for line in sidecar.log.lines if line["event"] == "connection_closed"]
    (end,) = ends
    assert end["cause"] == "connect_failed"
    assert f"expected another address than that of egress.peers[0].listen, found 127.0.0.1:{free}" in end["error"]
