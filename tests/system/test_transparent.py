"""A transparent egress beside a real follower in a network namespace of its own: the kernel leads its fetches there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trio

from lab.brokers.releases import release
from lab.brokers.security import Security
from lab.cluster.cluster import Cluster, start_cluster
from lab.cluster.plan import ClusterPlan
from lab.host.addresses import KAFKA_PORT, SECURED_PORT
from lab.host.namespaces import Rooms, open_rooms
from lab.moves.move import MIB, Move
from lab.moves.open_move import open_move
from lab.sidecars.sidecars import SidecarPlan

from .expectations import assert_all_kept, assert_intact, mean, ratios

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lab.sidecars.sidecars import Sidecar

pytestmark = [pytest.mark.system, pytest.mark.timeout(420)]

SCRIPT = Path(__file__).parents[2] / "deploy" / "redirect" / "redirect.sh"
BROKERS = (101, 102)
QUOTA = 4 * MIB
CLUSTERS = (
    pytest.param("0.10.1", Security.PLAINTEXT, id="v3"),
    pytest.param("3.9", Security.PLAINTEXT, id="v17"),
    pytest.param("4.1", Security.MTLS, id="v18-mtls"),  # as beside Strimzi's brokers
)


@pytest.fixture(scope="module")
def rooms() -> Iterator[Rooms]:
    with open_rooms(BROKERS) as made:
        for broker in BROKERS:
            made.run(broker, str(SCRIPT), "add", "--ports", f"{KAFKA_PORT},{SECURED_PORT}")
        yield made


@pytest.fixture(scope="module")
def cluster(rooms: Rooms, protocol: str, security: Security) -> Iterator[Cluster]:
    sidecars = SidecarPlan(transparent=True)
    plan = ClusterPlan(BROKERS, release=release(protocol=protocol), rooms=rooms, security=security, sidecars=sidecars)
    made = trio.run(start_cluster, plan)
    try:
        yield made
    finally:
        made.close()


def follower_connections(sidecar: Sidecar) -> int:
    return int(sidecar.metrics()["replication_throttle_connections"]['role="follower"'])


@pytest.mark.parametrize(("protocol", "security"), CLUSTERS, scope="module")
async def test_a_move_is_bound_by_the_followers_quota(cluster: Cluster, record: Callable[..., None]) -> None:
    """Nobody told the follower's broker of a sidecar: its hosts file has the leader's own address."""
    move = Move("sidecar strict", "follower", QUOTA, partitions=4, bytes_per_partition=12 * MIB)
    sidecar = cluster.sidecars[102]
    async with open_move(cluster, move) as running:
        outcome = await running.finish(timeout_seconds=90)
        assert_intact(outcome)
        moved = running.moved()
        assert_all_kept(running, 0.0, float("inf"), QUOTA)
        began, ended = moved[0].t, moved[-1].t
        assert mean(moved, began, ended) >= 0.9 * QUOTA
        page = sidecar.throttle()["roles"]["follower"]
        # What is new to a connection is not counted as behind.
        assert page["throttled_bytes_total"]["catching_up"] >= 0.95 * 48 * MIB
        assert page["undecoded"] == {}
        assert follower_connections(sidecar) > 0
        record(
            "transparent",
            protocol=cluster.plan.release.protocol,
            security=cluster.plan.security.value,
            mean=round(mean(moved, began, ended) / QUOTA, 3),
            **ratios(moved, QUOTA),
        )
    assert sidecar.log_lines("redirected_connection_refused") == []


@pytest.mark.parametrize(("protocol", "security"), CLUSTERS, scope="module")
async def test_a_sidecar_that_dies_fails_closed_and_comes_back(cluster: Cluster) -> None:
    """Killed in mid-move: while it is dead nothing passes, not even unthrottled; then the move goes on, bounded."""
    move = Move("sidecar strict", "follower", QUOTA, partitions=4, bytes_per_partition=10 * MIB)
    sidecar = cluster.sidecars[102]
    async with open_move(cluster, move) as running:
        await running.wait_moved_bytes(8 * MIB)
        await sidecar.kill()
        await trio.sleep(0.5)
        before = len(running.moved())
        await trio.sleep(2.0)
        assert len(running.moved()) == before
        await sidecar.start()
        outcome = await running.finish(timeout_seconds=90)
        assert outcome.equal, outcome.comparisons
        assert_all_kept(running, 0.0, float("inf"), QUOTA, extra_bytes=2 * MIB)
