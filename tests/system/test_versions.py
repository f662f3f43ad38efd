"""Every release the lab has: it starts, moves partitions under the broker's own throttle, and speaks what it should."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
import trio

from lab.brokers.releases import EVERY_RELEASE, Release, release
from lab.cluster.admin import wait_end_offsets
from lab.cluster.cluster import Cluster, cluster
from lab.cluster.plan import ClusterPlan
from lab.measuring.figures import Answer
from lab.moves.move import MIB, Move
from lab.moves.mover import Mover
from lab.moves.scenes import fill_topic, topic, until, until_committed, until_equal

from .busy import assert_undisturbed, busy_partitions

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]

MOVE = Move("native cold", quota_bytes_per_second=8 * MIB, partitions=4, bytes_per_partition=6 * MIB)
"""A response carries 1 MiB of each partition, half a second's worth: enough for the broker's own quota to keep to."""


@pytest.mark.parametrize("row", EVERY_RELEASE, ids=[row.id for row in EVERY_RELEASE])
async def test_a_throttled_move(row: Release, record: Callable[..., None]) -> None:
    started = time.monotonic()
    async with cluster(ClusterPlan(release=row)) as running:
        up_seconds = time.monotonic() - started
        result = await Mover(running).run(MOVE)
        record("versions", kafka=row.kafka, protocol=row.protocol, up_seconds=up_seconds, **result.summary())
        assert set(result.fetch_versions) == {row.fetch_version}
        assert result.equal
        assert 0.8 <= result.duration_ratio <= 2.0
        async with busy_partitions(running, {0: [101, 102]}) as producers:
            if not row.through_zookeeper:
                await administer(running)
            await until(
                lambda: all(len(producer.acknowledged) >= 20 for producer in producers),
                what="records are acknowledged",
                timeout_seconds=20,
            )
        assert_undisturbed(producers, worst_seconds=3.0)
        await come_back(running)
        assert (running.bad_log_lines(), result.shrinks) == ([], [])


async def administer(running: Cluster) -> None:
    """Leaders elected, records deleted, sizes and offsets asked for."""

    def work() -> None:
        admin = running.admin
        admin.reassign(name, {0: [102, 101]})
        admin.wait_moved(name, [0], timeout_seconds=20)
        admin.elect_preferred_leaders(name, {0: 102})
        admin.wait_in_sync(name, timeout_seconds=20)
        end = wait_end_offsets(admin, name, {0: 100}, timeout_seconds=20)[0]
        sizes = admin.replica_sizes(name, [101, 102])
        assert sizes[101, 0] == sizes[102, 0] >= end * 1000 >= 100_000
        admin.delete_records(name, {0: 32})
        assert admin.start_offsets(name, [0]) == {0: 32}

    async with topic(running, {0: [101, 102]}) as name:
        await fill_topic(running, name, {0: 101}, bytes_per_partition=100_000)
        # A replica that has just been made is in sync by name before it has fetched anything.
        await until_equal(running, name, timeout_seconds=20)
        await until_committed(running, name, {0: 100}, broker=102, timeout_seconds=20)
        await trio.to_thread.run_sync(work)


async def come_back(running: Cluster) -> None:
    """A broker is killed and started again; what was produced meanwhile reaches it."""
    async with topic(running, {0: [101, 103]}) as name:
        await running.brokers[103].kill()
        await fill_topic(running, name, {0: 101}, bytes_per_partition=MIB)
        await running.brokers[103].start()
        await until_equal(running, name, timeout_seconds=60)


@pytest.mark.parametrize("slots", ["0", "8"])
async def test_a_plan_sets_the_brokers_configs(slots: str) -> None:
    """The cache of fetch sessions is in eight shards since 3.8, each of which holds an eighth of the slots."""
    configs = {"max.incremental.fetch.session.cache.slots": slots}
    async with cluster(ClusterPlan(release=release(protocol="2.4"), broker_overrides=configs)) as running:
        async with topic(running, {0: [101, 102, 103]}) as name:
            await fill_topic(running, name, {0: 101}, bytes_per_partition=MIB)
            await until_equal(running, name, timeout_seconds=20)
        assert running.taps
        sessions = {s.session_id for s in running.taps.samples() if isinstance(s, Answer)}
    assert (sessions == {0}) == (slots == "0")
