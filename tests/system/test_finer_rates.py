"""A peer's rate inside the broker's, and who goes first, on real brokers and measured on the wire."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

import pytest
import trio

from lab.moves import MIB, Move
from lab.open_move import open_move

from .expectations import assert_intact, assert_kept, mean

if TYPE_CHECKING:
    from collections.abc import Callable

    from lab.cluster import Cluster

RATE = 8 * MIB
PEER = 1 * MIB


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
