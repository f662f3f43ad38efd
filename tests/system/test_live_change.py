"""A changed quotas.toml is on the wire within 250 ms, however it changes, for fetches that wait as well.

Times are from just before the rename to the end of a response's last byte at the tap between the brokers.
"""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

import pytest
import trio

from lab.kubernetes.mounts import MountedConfigMap
from lab.moves.move import MIB, Move, Side
from lab.moves.open_move import OpenMove, open_move
from lab.sidecars.sidecars import UNLIMITED

from .busy import assert_undisturbed, busy_partitions
from .expectations import EFFECT_SECONDS, assert_all_kept, assert_intact, mean

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lab.cluster.cluster import Cluster
    from lab.sidecars.sidecars import Sidecar

SIDES: tuple[Side, ...] = ("leader", "follower", "both")
RELOADS = 1000
FIRST_CONTACT_SECONDS = 1.5
UNWATCHED_SECONDS = 1.0
"""So often the file itself is looked at, where the kernel says nothing of changes (proxy/files/watching.py)."""
RELOAD_SECONDS = 5.0
QUESTION_BYTES = 2 * 1034
"""More than the one batch of this topic that an answer has whose request asked for one byte: of a replica that was left
out for five seconds the high watermark is asked for, so that its lag is true at quota 0 (proxy/throttle/link.py)."""


def held(side: Side, *, mebibytes: int = 24) -> Move:
    """A move that begins with quota 0."""
    return Move("sidecar strict", side, 0, bytes_per_partition=mebibytes * MIB // 8)


async def wait_silent(move: OpenMove) -> None:
    """First contact is over and every fetch waits for the quota."""
    await trio.sleep(FIRST_CONTACT_SECONDS)
    silence = time.monotonic()
    await trio.sleep(0.7)
    assert move.moved(silence) == []


async def raise_lower_and_lift(cluster: Cluster, side: Side) -> None:
    async with open_move(cluster, held(side, mebibytes=40)) as move:
        await wait_silent(move)
        raised = move.write_quota(8 * MIB)
        assert await move.wait_first_byte(raised) <= EFFECT_SECONDS
        await trio.sleep_until(trio.current_time() + 2.0)
        lowered = move.write_quota(1 * MIB)
        await trio.sleep(3.5)
        lifted = move.write_quota(None)
        outcome = await move.finish(timeout_seconds=30)
        assert_intact(outcome)
        assert mean(move.moved(), raised, lowered) >= 0.9 * 8 * MIB
        assert_all_kept(move, raised, lowered, 8 * MIB)
        assert_all_kept(move, lowered + EFFECT_SECONDS, lifted, 1 * MIB)
        # A rate of 1 MiB/s is a gate of 105 kB ten times a second: it goes on, it does not only stop.
        assert mean(move.moved(), lowered, lifted) >= 0.5 * MIB
        assert mean(move.moved(), lifted, lifted + 1) >= 8 * MIB


@pytest.mark.brokers
async def test_a_change_of_the_file_is_on_the_wire_within_250_ms(sidecar_cluster: Cluster) -> None:
    await raise_lower_and_lift(sidecar_cluster, "leader")


@pytest.mark.system
@pytest.mark.timeout(600)
@pytest.mark.parametrize("side", SIDES[1:])
async def test_also_where_the_follower_throttles(sidecar_cluster: Cluster, side: Side) -> None:
    await raise_lower_and_lift(sidecar_cluster, side)


@pytest.mark.system
@pytest.mark.timeout(600)
@pytest.mark.parametrize("side", SIDES)
async def test_ten_changes_in_a_row_are_each_on_the_wire_within_250_ms(
    sidecar_cluster: Cluster, side: Side, record_property: Callable[[str, object], None]
) -> None:
    """0 to 4 MiB/s and back, at moments that have nothing to do with when fetches come."""
    delays = []
    async with open_move(sidecar_cluster, held(side)) as move:
        await wait_silent(move)
        for turn in range(10):
            raised = move.write_quota(4 * MIB)
            delays.append(await move.wait_first_byte(raised))
            stopped = move.write_quota(0)
            await trio.sleep(0.8 + 0.037 * turn)
            late = move.moved(stopped + EFFECT_SECONDS)
            assert sum(event.size_bytes for event in late) <= QUESTION_BYTES
        move.write_quota(None)
        assert_intact(await move.finish(timeout_seconds=30))
    record_property("delays", [round(delay, 3) for delay in delays])
    assert max(delays) <= EFFECT_SECONDS, delays


@pytest.mark.system
@pytest.mark.timeout(600)
async def test_the_swap_of_a_config_map_counts_as_a_change(sidecar_cluster: Cluster) -> None:
    sidecar = sidecar_cluster.sidecars[101]
    async with open_move(sidecar_cluster, held("leader")) as move:
        mount = MountedConfigMap(sidecar.quotas_file.parent, {"quotas.toml": move.quotas(0)})
        await wait_silent(move)
        for bytes_per_second in (4 * MIB, 2 * MIB):
            mount.publish({"quotas.toml": move.quotas(0)})
            await wait_silent(move)
            changed = time.monotonic()
            mount.publish({"quotas.toml": move.quotas(bytes_per_second)})
            assert await move.wait_first_byte(changed) <= EFFECT_SECONDS
        mount.publish({"quotas.toml": UNLIMITED})
        assert_intact(await move.finish(timeout_seconds=30))


class UnwatchedFile:
    """quotas.toml as another file system has it, which tells nobody of changes: a hard link written elsewhere."""

    def __init__(self, quotas_file: Path, elsewhere: Path) -> None:
        elsewhere.mkdir()
        self._file = elsewhere / "quotas.toml"
        self._file.write_text(quotas_file.read_text("utf-8"), encoding="utf-8")
        link = quotas_file.with_suffix(".link")
        os.link(self._file, link)
        link.rename(quotas_file)

    def write(self, text: str) -> None:
        self._file.write_text(text, encoding="utf-8")


def post(sidecar: Sidecar) -> None:
    assert sidecar.reload()["outcome"] == "changed"


def hang_up(sidecar: Sidecar) -> None:
    sidecar.process.signal(signal.SIGHUP)


def do_nothing(_: Sidecar) -> None:
    """It is looked at all the same, though later."""


@pytest.mark.system
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("ask", "seconds"), [(post, 0.0), (hang_up, 0.0), (do_nothing, UNWATCHED_SECONDS)])
async def test_a_change_that_no_watch_sees_is_taken_when_asked_for_and_soon_by_itself(
    sidecar_cluster: Cluster, ask: Callable[[Sidecar], None], seconds: float
) -> None:
    sidecar = sidecar_cluster.sidecars[101]
    async with open_move(sidecar_cluster, held("leader")) as move:
        unwatched = UnwatchedFile(sidecar.quotas_file, sidecar_cluster.home / f"elsewhere-{move.topic}")
        await wait_silent(move)
        changed = time.monotonic()
        unwatched.write(move.quotas(4 * MIB))
        await trio.to_thread.run_sync(ask, sidecar)
        assert await move.wait_first_byte(changed) <= seconds + EFFECT_SECONDS
        move.write_quota(None)
        assert_intact(await move.finish(timeout_seconds=30))


@pytest.mark.system
@pytest.mark.timeout(600)
async def test_a_bad_file_changes_nothing_and_says_why(sidecar_cluster: Cluster) -> None:
    quota, sidecar = 2 * MIB, sidecar_cluster.sidecars[101]
    async with open_move(sidecar_cluster, Move("sidecar strict", "leader", quota, bytes_per_partition=3 * MIB)) as move:
        await move.wait_moved_bytes(2 * MIB)
        before = (await trio.to_thread.run_sync(sidecar.metrics))["replication_throttle_config_reloads_total"]
        bad = time.monotonic()
        sidecar.write_quotas(move.quotas(64 * MIB).replace("leader.replication", "leeder.replication", 1))
        await trio.sleep(3)
        metrics = await trio.to_thread.run_sync(sidecar.metrics)
        page = await trio.to_thread.run_sync(sidecar.throttle)
        assert_all_kept(move, bad, time.monotonic(), quota)
        assert mean(move.moved(), bad, bad + 3) >= 0.9 * quota
        assert page["roles"]["leader"]["quota_bytes_per_second"] == quota
        assert metrics["replication_throttle_config_reloads_total"]['outcome="failed"'] > before['outcome="failed"']
        assert metrics["replication_throttle_config_last_reload_successful"][""] == 0
        lines = [line for line in sidecar.log_lines("quotas_reload_failed") if "leeder" in line]
        assert len(lines) == 1
        assert "brokers.default" in lines[0]
        await move.set_quota(None)
        assert_intact(await move.finish(timeout_seconds=30))
        metrics = await trio.to_thread.run_sync(sidecar.metrics)
        assert metrics["replication_throttle_config_last_reload_successful"][""] == 1


def changes(sidecar: Sidecar) -> float:
    return sidecar.metrics()["replication_throttle_config_reloads_total"]['outcome="changed"']


def reload_often(sidecars: list[Sidecar], texts: list[str]) -> None:
    """By signals: who asks over HTTP shares a reload with whoever asked in the last 0.2 s."""
    taken = [changes(sidecar) for sidecar in sidecars]
    for turn in range(RELOADS):
        for sidecar in sidecars:
            sidecar.write_quotas(texts[turn % len(texts)])
            sidecar.process.signal(signal.SIGHUP)
        ends = time.monotonic() + RELOAD_SECONDS
        while [changes(sidecar) for sidecar in sidecars] != [before + turn + 1 for before in taken]:
            assert time.monotonic() < ends, f"change {turn} is not in force, or more than that is"


@pytest.mark.system
@pytest.mark.timeout(600)
async def test_a_thousand_reloads_under_load_lose_nothing(sidecar_cluster: Cluster) -> None:
    """Quotas that come, go, rise, fall and stop everything, while a move and an acks=all producer go on."""
    sidecars = [sidecar_cluster.sidecars[broker] for broker in (101, 102)]
    async with (
        open_move(sidecar_cluster, Move("sidecar strict", "both", 8 * MIB, bytes_per_partition=40 * MIB)) as move,
        busy_partitions(sidecar_cluster, {0: [101, 102]}) as producers,
    ):
        closed = [len(sidecar.log_lines("connection_closed")) for sidecar in sidecars]
        # No quota at all now and then only: the move is to last longer than the reloads, also where each takes 100 ms.
        rates = [1.0 * MIB, 0.0, 4.0 * MIB, 2.0 * MIB] * 24 + [None]
        texts = [move.quotas(rate) for rate in rates]
        await trio.to_thread.run_sync(reload_often, sidecars, texts)
        reloaded = move.write_quota(None)
        assert_intact(await move.finish(timeout_seconds=60))
        assert move.moved(reloaded), "the move was over before the reloads were"
        assert [len(sidecar.log_lines("connection_closed")) for sidecar in sidecars] == closed
    assert_undisturbed(producers, worst_seconds=2.0)
