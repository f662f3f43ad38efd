"""Does the lab itself work? Everything else in this folder takes that for granted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from lab.brokers.releases import release
from lab.cluster.admin import wait_end_offsets
from lab.cluster.cluster import cluster
from lab.cluster.plan import ClusterPlan
from lab.moves.move import MIB, Move
from lab.moves.mover import Mover
from lab.moves.scenes import fill_topic, topic, until_committed, until_equal

if TYPE_CHECKING:
    from lab.cluster.cluster import Cluster

pytestmark = pytest.mark.brokers


async def test_an_unthrottled_move_is_fast_and_complete(native_cluster: Cluster) -> None:
    result = await Mover(native_cluster).run(Move("unthrottled", bytes_per_partition=2 * MIB, partitions=4))
    assert result.equal
    assert set(result.fetch_versions) == {3}
    assert result.figures[101].total_bytes >= 8 * MIB
    assert result.duration_seconds < 10
    assert (result.bad_log_lines, result.shrinks) == ([], [])


async def test_a_move_through_idle_sidecars_is_complete(sidecar_cluster: Cluster) -> None:
    result = await Mover(sidecar_cluster).run(Move("unthrottled", bytes_per_partition=2 * MIB, partitions=4))
    assert result.equal
    assert (result.bad_log_lines, result.shrinks) == ([], [])


async def test_kraft_brokers_move_partitions_under_their_own_throttle() -> None:
    """The short form of test_versions.py: 3.9, Fetch v17, topic ids on the wire."""
    newest = release(kafka="3.9.1", protocol="3.9")
    wanted = Move("native cold", quota_bytes_per_second=8 * MIB, partitions=4, bytes_per_partition=4 * MIB)
    async with cluster(ClusterPlan(brokers=(101, 102), release=newest)) as running:
        result = await Mover(running).run(wanted)
    assert result.equal
    assert set(result.fetch_versions) == {newest.fetch_version}
    assert result.figures[101].total_bytes >= 16 * MIB
    assert result.duration_ratio >= 0.8
    assert (result.bad_log_lines, result.shrinks) == ([], [])


async def test_a_broker_comes_back(native_cluster: Cluster) -> None:
    admin, broker = native_cluster.admin, native_cluster.brokers[103]
    await trio.to_thread.run_sync(admin.create_topic, "come-back", {0: [101, 103]})
    await broker.kill()
    assert not broker.process.running
    await broker.start()
    await trio.to_thread.run_sync(lambda: admin.wait_in_sync("come-back", timeout_seconds=30))
    await trio.to_thread.run_sync(admin.delete_topic, "come-back")


async def test_records_can_be_deleted_and_leaders_elected(native_cluster: Cluster) -> None:
    admin = native_cluster.admin

    def work(name: str) -> None:
        admin.reassign(name, {0: [102, 101]})
        admin.wait_moved(name, [0], timeout_seconds=20)
        admin.elect_preferred_leaders(name, {0: 102})
        admin.wait_in_sync(name, timeout_seconds=20)
        # Two batches of 16 messages of 1034 bytes.
        assert wait_end_offsets(admin, name, {0: 32}, timeout_seconds=20) == {0: 32}
        assert admin.replica_sizes(name, [101, 102]) == {(101, 0): 32 * 1034, (102, 0): 32 * 1034}
        admin.delete_records(name, {0: 3})
        assert admin.start_offsets(name, [0]) == {0: 3}

    async with topic(native_cluster, {0: [101, 102]}) as name:
        await fill_topic(native_cluster, name, {0: 101}, bytes_per_partition=20_000)
        # A replica that has just been made is in sync by name before it has fetched anything: elected then, it would
        # begin with an empty log, and the records would be gone.
        await until_equal(native_cluster, name, timeout_seconds=20)
        # In another order of replicas it becomes a follower once more, and at this protocol (before KIP-101) drops
        # what is above the high watermark it knows of.
        await until_committed(native_cluster, name, {0: 32}, broker=102, timeout_seconds=20)
        await trio.to_thread.run_sync(work, name)
