"""A dead sidecar's broker replicates without it within seconds, and through it again once it is back.

Real brokers, each in a network namespace of its own, whose links carry 10 MiB/s so that an unthrottled move lasts.
"""

from __future__ import annotations

import signal
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import trio

from lab.cluster import Cluster, start_cluster
from lab.cluster_plan import ClusterPlan
from lab.measure import within
from lab.moves import MIB, Move, Side
from lab.open_move import open_move
from lab.processes import Process, wait_until
from lab.releases import release
from lab.rooms import Rooms, open_rooms
from lab.sidecars import SidecarPlan, throttle_sidecar_script

from .expectations import assert_intact, mean
from .test_transparent import SCRIPT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from lab.sidecars import Sidecar

pytestmark = [pytest.mark.system, pytest.mark.timeout(420)]

BROKERS = (101, 102)
QUOTA = 2 * MIB
LINK = 10 * MIB
AFTER_SECONDS = 3.0
WITHOUT_SECONDS = AFTER_SECONDS + 1.0
"""The way around is in force after `--after` at the latest, and a follower tries again after replica.fetch.backoff.ms,
1 s."""


@pytest.fixture(scope="module", params=["peers", "transparent"])
def rooms(request: pytest.FixtureRequest) -> Iterator[tuple[Rooms, bool]]:
    with open_rooms(BROKERS, link_bytes_per_second=LINK) as made:
        transparent = request.param == "transparent"
        if transparent:
            for broker in BROKERS:
                made.run(broker, str(SCRIPT), "add")
        yield made, transparent


@pytest.fixture(scope="module")
def cluster(rooms: tuple[Rooms, bool]) -> Iterator[Cluster]:
    made, transparent = rooms
    plan = ClusterPlan(
        brokers=BROKERS, release=release(protocol="3.9"), rooms=made, sidecars=SidecarPlan(transparent=transparent)
    )
    started = trio.run(start_cluster, plan)
    try:
        yield started
    finally:
        started.close()


@asynccontextmanager
async def guard(rooms: Rooms, sidecar: Sidecar, folder: Path) -> AsyncIterator[Process]:
    """As an operator runs it, in the broker's namespace."""
    config = sidecar.quotas_file.with_name("proxy.toml")
    command = [
        *rooms.within(sidecar.broker), throttle_sidecar_script(), "guard", "--config", str(config),
        "--after", f"{AFTER_SECONDS}s", "--textfile", str(folder / "guard.prom"),
    ]  # fmt: skip
    process = Process(f"guard {sidecar.broker}", command, output=folder / "guard.log")
    process.start()
    try:
        await wait_until((folder / "guard.prom").exists, process=process, what="the guard looked", timeout_seconds=20)
        yield process
    finally:
        await process.terminate(grace_seconds=10)


def rules(rooms: Rooms, broker: int) -> list[str]:
    found = (
        rooms.run(broker, tool, "-t", table, "-S") for tool in ("iptables", "ip6tables") for table in ("nat", "filter")
    )
    return [line for text in found for line in text.splitlines()]


@pytest.mark.parametrize(("side", "broker"), [("follower", 102), ("leader", 101)])
async def test_a_killed_sidecar_is_led_around_and_back(
    cluster: Cluster,
    rooms: tuple[Rooms, bool],
    side: Side,
    broker: int,
    tmp_path: Path,
    record: Callable[..., None],
) -> None:
    room, transparent = rooms
    sidecar = cluster.sidecars[broker]
    before = rules(room, broker)
    move = Move("sidecar strict", side, QUOTA, partitions=4, bytes_per_partition=72 * MIB)
    async with guard(room, sidecar, tmp_path), open_move(cluster, move) as running:
        await running.wait_moved_bytes(4 * MIB)
        killed = time.monotonic()
        await sidecar.kill()
        await trio.sleep(0.3)  # what was on its way has arrived
        again = await running.wait_first_byte(killed + 0.3, timeout_seconds=AFTER_SECONDS + 5)
        without = again + 0.3
        await trio.sleep(2.0)
        around = time.monotonic()
        assert mean(running.moved(), around - 1.5, around) > 1.5 * QUOTA  # unthrottled: the link's speed
        metrics = (tmp_path / "guard.prom").read_text()
        assert f'replication_throttle_guard_around{{broker="{broker}"}} 1' in metrics
        await sidecar.start()
        ready = time.monotonic()
        await trio.sleep(5.0)
        moved = running.moved()
        throttled = mean(moved, ready + 2.0, ready + 5.0)
        record(
            "guard",
            mode="transparent" if transparent else "peers",
            side=side,
            around_after_seconds=round(without, 2),
            around_rate=round(mean(moved, around - 1.5, around) / QUOTA, 2),
            throttled_2_s_after_ready=round(throttled / QUOTA, 3),
            bytes_in_2_s_after_ready=sum(each.size_bytes for each in within(moved, ready, ready + 2.0)),
        )
        assert without <= WITHOUT_SECONDS
        assert 0.5 * QUOTA <= throttled <= 1.25 * QUOTA
        await running.set_quota(None)
        outcome = await running.finish(timeout_seconds=120)
        assert_intact(outcome)
    assert rules(room, broker) == before  # the guard has ended, by SIGTERM
    assert [line for line in (tmp_path / "guard.log").read_text().splitlines() if "guard_refused" in line] == []


async def test_ctrl_c_leaves_no_rule_behind_and_strangers_rules_stay(
    cluster: Cluster, rooms: tuple[Rooms, bool], tmp_path: Path
) -> None:
    room, _ = rooms
    room.run(101, "iptables", "-t", "nat", "-A", "OUTPUT", "-p", "tcp", "--dport", "7", "-j", "RETURN")
    before = rules(room, 101)
    sidecar = cluster.sidecars[101]
    async with guard(room, sidecar, tmp_path) as process:
        await sidecar.kill()
        await wait_until(lambda: rules(room, 101) != before, process=process, what="it goes around", timeout_seconds=10)
        assert set(before) <= set(rules(room, 101))
        process.signal(signal.SIGINT)
        with trio.fail_after(10):
            await process.wait_exit()
    assert rules(room, 101) == before
    await sidecar.start()
