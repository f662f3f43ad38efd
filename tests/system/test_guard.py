"""A dead sidecar's broker replicates without it within seconds, and through it again once it is back.

Real brokers, each in a network namespace of its own, whose links carry 10 MiB/s so that an unthrottled move lasts.
"""

from __future__ import annotations

import signal
import time
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import pytest
import trio

from lab.brokers.releases import release
from lab.cluster.cluster import Cluster, start_cluster
from lab.cluster.plan import ClusterPlan
from lab.host.namespaces import Rooms, open_rooms
from lab.host.processes import Process, wait_until
from lab.measuring.compare_replicas import compare
from lab.measuring.figures import within
from lab.moves.move import MIB, Move, Side
from lab.moves.open_move import open_move
from lab.sidecars.sidecars import SidecarPlan, throttle_sidecar_script

from .busy import busy_partitions
from .expectations import assert_intact, mean
from .test_transparent import SCRIPT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from lab.measuring.compare_replicas import Comparison
    from lab.sidecars.sidecars import Sidecar

pytestmark = [pytest.mark.system, pytest.mark.timeout(420)]

BROKERS = (101, 102)
QUOTA = 2 * MIB
LINK = 10 * MIB
AFTER_SECONDS = 3.0
WITHOUT_SECONDS = AFTER_SECONDS + 1.0
"""The way around is in force after `--after` at the latest, and a follower tries again after replica.fetch.backoff.ms,
1 s."""

OUTAGE_SECONDS = {signal.SIGKILL: 1.5, signal.SIGSTOP: 2.0}
"""The longest that a record may wait with `--after 0.5s`. A follower rests for replica.fetch.backoff.ms after each loss
of its connection. SIGKILL closes it at once, so that the follower rests while the guard finds out; SIGSTOP does not."""


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
async def guard(
    rooms: Rooms, sidecar: Sidecar, folder: Path, *, after_seconds: float = AFTER_SECONDS
) -> AsyncIterator[Process]:
    """As an operator runs it, in the broker's namespace; it has tried its ways."""
    config = sidecar.quotas_file.with_name("proxy.toml")
    command = [
        *rooms.within(sidecar.broker), throttle_sidecar_script(), "guard", "--config", str(config),
        "--after", f"{after_seconds}s", "--textfile", str(folder / "guard.prom"),
    ]  # fmt: skip
    environment = {"RUNTIME_DIRECTORY": str(sidecar.runtime_directory)}
    process = Process(f"guard {sidecar.broker}", command, output=folder / "guard.log", environment=environment)
    process.start()
    try:
        proved = partial(logged, folder, "guard_proved")
        await wait_until(proved, process=process, what="the guard tried its ways", timeout_seconds=20)
        yield process
    finally:
        await process.terminate(grace_seconds=10)


def logged(folder: Path, event: str) -> bool:
    return f'"event": "{event}"' in (folder / "guard.log").read_text()


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


@pytest.mark.parametrize("dies_by", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stands still"])
@pytest.mark.parametrize("broker", [102, 101], ids=["follower's", "leader's"])
async def test_producers_that_want_all_acks_go_on(
    cluster: Cluster,
    rooms: tuple[Rooms, bool],
    broker: int,
    dies_by: signal.Signals,
    tmp_path: Path,
    record: Callable[..., None],
) -> None:
    """50 records a second to a partition in sync, whose follower fetches through the sidecar. Nothing else moves: what
    is led around is not throttled, and would fill the link."""
    room, transparent = rooms
    sidecar, said = cluster.sidecars[broker], cluster.log_mark()
    async with (
        guard(room, sidecar, tmp_path, after_seconds=0.5) as watching,
        busy_partitions(cluster, {0: [101, 102]}) as [producer],
    ):
        if dies_by is signal.SIGKILL:
            await sidecar.kill()
        else:
            sidecar.process.signal(dies_by)
        await trio.sleep(5.0)
        assert logged(tmp_path, "guard_around")
        outage = producer.percentile(1.0)
        producer.acknowledged.clear()
        if dies_by is signal.SIGKILL:
            await sidecar.start()
        else:
            sidecar.process.signal(signal.SIGCONT)
        through = partial(logged, tmp_path, "guard_through")
        await wait_until(through, process=watching, what="it goes through again", timeout_seconds=20)
        await trio.sleep(5.0)
        way_back = producer.percentile(1.0)
        record(
            "guard_acks_all",
            mode="transparent" if transparent else "peers",
            broker=broker,
            dies_by=dies_by.name,
            outage_seconds=round(outage, 2),
            way_back_seconds=round(way_back, 2),
        )
        producer.interval_seconds = 3600.0
        await trio.sleep(1.0)  # its last record has arrived
        assert [compared.equal for compared in replicas(cluster, producer.topic)] == [True]
        assert [*cluster.bad_log_lines(since=said), *cluster.shrinks(since=said)] == []
        assert (producer.errors, outage <= OUTAGE_SECONDS[dies_by], way_back <= 1.5) == ([], True, True)


def replicas(cluster: Cluster, topic: str) -> list[Comparison]:
    """Each follower's log with its leader's."""
    return [
        compare(
            topic, state.partition, leader=cluster.brokers[state.leader].log_dir,
            follower=cluster.brokers[follower].log_dir,
        )
        for state in cluster.admin.describe(topic)
        for follower in set(state.replicas) - {state.leader}
    ]  # fmt: skip


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
