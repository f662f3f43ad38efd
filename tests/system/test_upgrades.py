"""Brokers that change what they speak in the middle of a move: rolling upgrades, as operators do them."""

from __future__ import annotations

from contextlib import asynccontextmanager
from itertools import groupby
from typing import TYPE_CHECKING

import pytest
import trio

from lab.brokers.releases import Release, release
from lab.cluster.cluster import Cluster, cluster
from lab.cluster.plan import ClusterPlan
from lab.measuring.figures import Asked, events
from lab.moves.move import MIB
from lab.moves.scenes import fill_topic, native_quotas, topic, until, until_equal, until_moved

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]

LEADER, FOLLOWER = 101, 102
PARTITIONS = range(4)
QUOTA = 2 * MIB
MIB_EACH = 8
EARLY = 6 * MIB
PROMPT = {"controlled.shutdown.retry.backoff.ms": "200"}
"""A leader whose partitions have no other replica yet tries to hand them over three times; it need not take 15 s."""


def plan(chosen: Release) -> ClusterPlan:
    return ClusterPlan(brokers=(LEADER, FOLLOWER), release=chosen, broker_overrides=PROMPT)


@asynccontextmanager
async def throttled_move(running: Cluster) -> AsyncGenerator[None]:
    """Partitions get a second replica, throttled by their leader; entered when a part of it has moved, left when all
    of it has and the replicas are the same."""
    async with topic(running, {partition: [LEADER] for partition in PARTITIONS}) as name:
        await fill_topic(running, name, dict.fromkeys(PARTITIONS, LEADER), bytes_per_partition=MIB_EACH * MIB)
        lists = {"leader": ",".join(f"{partition}:{LEADER}" for partition in PARTITIONS)}
        async with native_quotas(running, name, lists=lists, rates={"leader": QUOTA}, brokers=(LEADER, FOLLOWER)):
            target = {partition: [LEADER, FOLLOWER] for partition in PARTITIONS}
            await trio.to_thread.run_sync(running.admin.reassign, name, target)
            await until(lambda: moved(running, name) >= EARLY, what="the move is under way", timeout_seconds=30)
            yield
            assert moved(running, name) < len(PARTITIONS) * MIB_EACH * MIB
            await until_moved(running, name, PARTITIONS, timeout_seconds=90)
            await until_equal(running, name, timeout_seconds=60)


def moved(running: Cluster, name: str) -> int:
    assert running.taps
    return sum(event.size_bytes for event in events(running.taps.samples(), topic=name, follower=FOLLOWER))


def versions_in_turn(running: Cluster) -> list[int]:
    """Fetch versions that the follower sent to the leader, each once per period."""
    assert running.taps
    asked = [s.version for s in running.taps.samples() if isinstance(s, Asked)
             and (s.leader, s.follower) == (LEADER, FOLLOWER)]  # fmt: skip
    return [version for version, _ in groupby(asked)]


@pytest.mark.parametrize(
    ("before", "after"), [("0.10.1", "2.4"), ("1.1", "2.8"), ("2.4", "0.11.0")], ids=["up", "up in sessions", "down"]
)
async def test_the_protocol_changes_broker_by_broker(before: str, after: str) -> None:
    first, then = release(protocol=before), release(protocol=after)
    async with cluster(plan(first)) as running:
        async with throttled_move(running):
            await running.restart_as(FOLLOWER, then)
        assert versions_in_turn(running) == [first.fetch_version, then.fetch_version]
        async with throttled_move(running):
            await running.restart_as(LEADER, then)
        assert versions_in_turn(running) == [first.fetch_version, then.fetch_version]
        assert running.bad_log_lines() == []


async def test_the_metadata_version_rises_under_a_live_connection() -> None:
    first, then = release(protocol="3.3"), release(protocol="3.9")
    async with cluster(plan(first)) as running:
        async with throttled_move(running):
            await trio.to_thread.run_sync(running.admin.upgrade_metadata, then.metadata_level)
        assert versions_in_turn(running) == [first.fetch_version, then.fetch_version]
        assert running.bad_log_lines() == []


async def test_binaries_are_replaced_broker_by_broker() -> None:
    """3.9.1 to 4.1.0: followers speak the new version when all brokers are new and the metadata version is raised."""
    first, then = release(protocol="3.9"), release(protocol="4.1")
    async with cluster(plan(first)) as running:
        async with throttled_move(running):
            await running.restart_as(FOLLOWER, then)
        async with throttled_move(running):
            await running.restart_as(LEADER, then)
        assert versions_in_turn(running) == [first.fetch_version]
        async with throttled_move(running):
            await trio.to_thread.run_sync(running.admin.upgrade_metadata, then.metadata_level)
        assert versions_in_turn(running) == [first.fetch_version, then.fetch_version]
        assert running.bad_log_lines() == []
