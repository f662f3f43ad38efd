"""The incident on real brokers: their sidecars and their own metrics under a real Prometheus, our rules hurried."""

from __future__ import annotations

import re
import signal
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import trio

from lab.cluster.cluster import Cluster, start_cluster
from lab.cluster.plan import ClusterPlan
from lab.host.addresses import EXPORTER_PORT, HTTP_PORT
from lab.measuring.prometheus import Target
from lab.moves.move import MIB, Move
from lab.moves.open_move import OpenMove, open_move
from lab.sidecars.sidecars import SidecarPlan
from tests.deploy.incident import (
    LEFT_BEHIND,
    LOOP_LAGGING,
    PINNED,
    PROMETHEUS,
    RELOAD_FAILED,
    Watch,
    play,
    watched,
)

from .busy import busy_partitions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

ISR_SHRINKING = "ReplicationThrottleIsrShrinking"
LAG_SECONDS = 4

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]


class MoveScene:
    """A move of four partitions, to which producers go on writing 2 MiB/s."""

    too_little = 1.0 * MIB
    plenty = 16.0 * MIB

    def __init__(self, cluster: Cluster, move: OpenMove) -> None:
        self._cluster, self._move = cluster, move

    def quotas(self, bytes_per_second: float) -> str:
        return self._move.quotas(bytes_per_second).replace("[topics", "until = 2099-01-01T00:00:00Z\n[topics", 1)

    def write_quotas(self, text: str) -> None:
        self._cluster.sidecars[101].write_quotas(text)

    async def produce(self) -> None:
        leader = self._cluster.addresses.direct(101)
        while True:
            due = trio.current_time() + 0.5
            await self._move.fill(MIB // 4, dict.fromkeys(range(self._move.move.partitions), leader))
            await trio.sleep_until(due)


@pytest.fixture(scope="module")
def scraped_cluster() -> Iterator[Cluster]:
    """Two brokers with journalling sidecars, which tell Prometheus themselves when an ISR shrinks."""
    cluster = trio.run(
        start_cluster,
        ClusterPlan(
            brokers=(101, 102),
            broker_overrides={
                "replica.lag.time.max.ms": str(LAG_SECONDS * 1000),
                # A broker that stands still for a while is not to be taken for dead.
                "zookeeper.session.timeout.ms": "30000",
            },
            sidecars=SidecarPlan(settings={"journal": 'directory = "journal"'}),
            exporter=PROMETHEUS / "jmx_exporter.yaml",
        ),
    )
    try:
        yield cluster
    finally:
        cluster.close()


@asynccontextmanager
async def incident(cluster: Cluster, home: Path) -> AsyncIterator[tuple[OpenMove, Watch]]:
    """A move that is pinned from its first fetch on, and a Prometheus that watches both brokers."""
    targets = []
    for broker in cluster.plan.brokers:
        labels = {"cluster": "lab", "broker": str(broker)}
        targets.append(Target("throttle-sidecar", f"{cluster.addresses.http(broker)}:{HTTP_PORT}", labels))
        targets.append(Target("kafka", f"{cluster.addresses.direct(broker)}:{EXPORTER_PORT}", labels))
    move = Move("sidecar strict", "leader", MoveScene.too_little, partitions=4, bytes_per_partition=12 * MIB)
    async with open_move(cluster, move) as moving, watched(targets, home) as watch:
        yield moving, watch


async def test_a_stall_a_bad_file_and_a_throttle_left_behind_are_told_and_over(
    scraped_cluster: Cluster, tmp_path: Path, record: Callable[..., None]
) -> None:
    async with incident(scraped_cluster, tmp_path) as (move, watch):
        await play(MoveScene(scraped_cluster, move), watch)
        outcome = await move.finish(timeout_seconds=60)
    record("alerts", history=watch.history)
    assert outcome.equal
    told = {name: alert for name, alert in watch.fired.items() if name != LOOP_LAGGING}
    assert set(told) == {PINNED, RELOAD_FAILED, LEFT_BEHIND}
    assert {alert.labels["broker"] for alert in told.values()} == {"101"}
    # Panels of encrypted legs, finer rates, rates that set themselves and of connections that pass unthrottled have
    # nothing to show where there are none.
    without = re.compile("_tls_|certificate|_bound_|_deadline_|_auto_|_opaque_connections")
    assert {each for each in watch.unanswered if not without.search(each)} == set()


async def test_a_replica_that_leaves_the_isr_while_others_are_held_back_is_told(
    scraped_cluster: Cluster, tmp_path: Path, record: Callable[..., None]
) -> None:
    """Broker 102 stands still for longer than replica.lag.time.max.ms, in the middle of a move to it."""
    # Only a replica that misses something leaves: one of an idle partition is as far as its leader.
    async with (
        busy_partitions(scraped_cluster, {0: [101, 102]}),
        incident(scraped_cluster, tmp_path) as (move, watch),
    ):
        scene = MoveScene(scraped_cluster, move)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(scene.produce)
            await watch.until_firing(PINNED)
            shrinks = len(scraped_cluster.shrinks())
            stopped = scraped_cluster.brokers[102].process
            stopped.signal(signal.SIGSTOP)
            try:
                with trio.fail_after(4 * LAG_SECONDS):
                    while len(scraped_cluster.shrinks()) == shrinks:  # noqa: ASYNC110 - a log file
                        await trio.sleep(0.1)
            finally:
                stopped.signal(signal.SIGCONT)
            await watch.until_fired(ISR_SHRINKING)
            nursery.cancel_scope.cancel()
        scene.write_quotas(scene.quotas(scene.plenty))
        await move.finish(timeout_seconds=60)
    record("alerts", isr_shrink=watch.history)
    assert "There were about" in watch.fired[ISR_SHRINKING].annotations["description"]
    assert watch.fired[ISR_SHRINKING].labels["cluster"] == "lab"
