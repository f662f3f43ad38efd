"""Rates of racks and peers inside the broker's, and who goes first, on real brokers and measured on the wire."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

import pytest
import trio

from lab.brokers.releases import release
from lab.cluster.cluster import cluster
from lab.cluster.plan import ClusterPlan
from lab.moves.move import MIB, Move
from lab.moves.open_move import open_move
from lab.sidecars.sidecars import SidecarPlan

from .expectations import assert_intact, assert_kept, mean, ratios

if TYPE_CHECKING:
    from collections.abc import Callable

    from lab.cluster.cluster import Cluster

RATE = 8 * MIB
PEER = 1 * MIB
CROSSED = "replication_throttle_cross_rack_bytes_total"


def in_leader_101(rate: str, *more: str) -> str:
    """Quotas of every topic that broker 101 leads."""
    key = "leader.replication.throttled"
    return "\n".join(["[brokers.101]", f'{key}.rate = "{rate}"', f'{key}.replicas = "*"', *more, ""])


@pytest.mark.system
@pytest.mark.timeout(300)
async def test_a_peer_keeps_to_its_rate_and_the_other_has_the_rest(
    sidecar_cluster: Cluster, record_property: Callable[[str, object], None]
) -> None:
    move = Move("sidecar strict", "leader", 0, followers=(102, 103), bytes_per_partition=5 * MIB)
    async with open_move(sidecar_cluster, move) as made:
        await trio.sleep(1.5)
        peer = ("[peers.102]", 'leader.replication.throttled.rate = "1MiB/s"')
        await sidecar_cluster.sidecars[101].set_quotas(in_leader_101("8MiB/s", *peer))
        began = time.monotonic()
        await trio.sleep(5)
        ended = time.monotonic()
        slow, fast = (made.moved(began, ended, follower=follower) for follower in (102, 103))
        record_property("102, MiB/s", round(mean(slow, began, ended) / MIB, 2))
        record_property("103, MiB/s", round(mean(fast, began, ended) / MIB, 2))
        assert_kept(slow, PEER)
        assert_kept(made.moved(began, ended, leader=101), RATE)
        assert mean(slow, began, ended) >= 0.8 * PEER
        assert mean(fast, began, ended) >= 0.85 * (RATE - PEER)
        bounds = (await trio.to_thread.run_sync(sidecar_cluster.sidecars[101].throttle))["roles"]["leader"]["bounds"]
        assert [(each["kind"], each["name"]) for each in bounds] == [("peer", "102")]
        assert bounds[0]["throttled_bytes_total"] > 0
        await sidecar_cluster.sidecars[101].set_quotas(in_leader_101("200MiB/s"))
        assert_intact(await made.finish(timeout_seconds=30))


RACKS = {101: "a", 102: "b", 103: "b", 104: "c"}


@pytest.mark.system
@pytest.mark.timeout(300)
@pytest.mark.parametrize("protocol", ["0.10.1", "3.9"])
async def test_brokers_of_a_rack_share_its_rate_every_second(
    protocol: str, record_property: Callable[[str, object], None]
) -> None:
    """102 and 103 of rack b share 4 of 12 MiB/s, 104 of rack c has the rest; then 102 may have 1 MiB/s of the 4."""
    plan = ClusterPlan(brokers=tuple(RACKS), racks=RACKS, release=release(protocol=protocol), sidecars=SidecarPlan())
    move = Move("sidecar strict", "leader", 0, followers=(102, 103, 104), bytes_per_partition=16 * MIB)
    rack = ('[racks."b"]', 'leader.replication.throttled.rate = "4MiB/s"')
    peer = ("[peers.102]", 'leader.replication.throttled.rate = "1MiB/s"')
    async with cluster(plan) as running, open_move(running, move) as made:
        sidecar = running.sidecars[101]
        await trio.sleep(1.5)
        for quotas, shares in (((), (2.0, 2.0)), (peer, (1.0, 3.0))):
            await sidecar.set_quotas(in_leader_101("12MiB/s", *rack, *quotas))
            await trio.sleep(1)
            began = time.monotonic()
            await trio.sleep(5)
            ended = time.monotonic()
            moved = {follower: made.moved(began, ended, follower=follower) for follower in move.followers}
            in_rack = sorted([*moved[102], *moved[103]], key=lambda event: event.t)
            rates = {follower: mean(found, began, ended) / MIB for follower, found in moved.items()}
            name = "one rate" if not quotas else "102 has its own"
            record_property(name, {follower: round(rate, 2) for follower, rate in rates.items()})
            record_property(f"{name}, rack", ratios(in_rack, 4 * MIB))
            assert_kept(in_rack, 4 * MIB)
            assert_kept(made.moved(began, ended, leader=101), 12 * MIB)
            assert rates == pytest.approx({102: shares[0], 103: shares[1], 104: 8.0}, rel=0.2)
        page = await trio.to_thread.run_sync(sidecar.throttle)
        leader = page["roles"]["leader"]
        assert [(each["kind"], each["name"]) for each in leader["bounds"]] == [("rack", "b"), ("peer", "102")]
        assert [each["name"] for each in page["conditions"] if each["role"] == "leader"] == []
        # The move goes on while the sidecar answers, at 12 MiB/s, and the sidecar counts these bytes once a second.
        before = sum(each.size_bytes for each in made.moved(leader=101))
        await trio.sleep(1.5)
        crossed = (await trio.to_thread.run_sync(sidecar.metrics))[CROSSED]['direction="response",role="leader"']
        after = sum(each.size_bytes for each in made.moved(leader=101))
        record_property("bytes between racks, of bytes moved", round(crossed / before, 3))
        assert 0.95 * before <= crossed <= 1.05 * after
        await sidecar.set_quotas(in_leader_101("400MiB/s"))
        assert_intact(await made.finish(timeout_seconds=30))


@pytest.mark.system
@pytest.mark.timeout(300)
async def test_what_is_under_min_isr_is_in_sync_before_another_topic_has_moved_a_tenth(
    sidecar_cluster: Cluster, record_property: Callable[[str, object], None]
) -> None:
    """Of both topics one copy is in sync. Of one topic all partitions are to have two, so it is under min ISR; of the
    other one partition stays as it is, so that it is a topic of one replica, which is moved."""
    size = Move("sidecar strict", "leader", 0, bytes_per_partition=5 * MIB)
    async with open_move(sidecar_cluster, size, begin=False) as dying:
        async with open_move(sidecar_cluster, size, begin=False) as moved:
            await sidecar_cluster.sidecars[101].set_quotas(in_leader_101("0"))
            await dying.begin()
            stays = moved.move.partitions - 1
            target = {p: replicas for p, replicas in moved.move.target().items() if p != stays}
            await trio.to_thread.run_sync(sidecar_cluster.admin.reassign, moved.topic, target)
            await in_need(sidecar_cluster, size.partitions)
            await sidecar_cluster.sidecars[101].set_quotas(in_leader_101("8MiB/s"))
            began = time.monotonic()
            await dying.wait_moved(timeout_seconds=30)
            # The controller says so some time after the last byte, and then the others have the rate.
            ended = max(event.t for event in dying.moved())
            share = sum(each.size_bytes for each in moved.moved(began, ended)) / (stays * size.bytes_per_partition)
            record_property("in need, MiB/s", round(mean(dying.moved(), began, ended) / MIB, 2))
            record_property("of the other topic", round(share, 3))
            assert share <= 0.1
            await sidecar_cluster.sidecars[101].set_quotas(in_leader_101("200MiB/s"))
            wait = partial(sidecar_cluster.admin.wait_moved, moved.topic, list(target), timeout_seconds=30)
            await trio.to_thread.run_sync(wait)
        assert_intact(await dying.finish(timeout_seconds=30))


async def in_need(cluster: Cluster, replicas: int) -> None:
    """Wait until the sidecar has been told who is under min ISR."""
    with trio.fail_after(20):
        while True:
            leader = (await trio.to_thread.run_sync(cluster.sidecars[101].throttle))["roles"]["leader"]
            if leader["behind_in_need"] == {"under-min-isr": replicas}:
                return
            await trio.sleep(0.2)
