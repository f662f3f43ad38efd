"""Kafka's own tests of replication quotas, with sidecars in place of the brokers' quotas.

From ReplicationQuotasTest and throttling_test.py, scaled to what two cores carry; ratios and bounds are theirs. New
brokers are stopped while the data is produced and start empty.
"""

from __future__ import annotations

import statistics
import time
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import pytest
import trio

from lab.cluster.cluster import start_cluster
from lab.cluster.plan import ClusterPlan
from lab.load.following_producer import FollowingProducer, missing
from lab.measuring.figures import Asked, events
from lab.moves.move import MIB
from lab.moves.scenes import fill_topic, sidecar_quotas, topic, until, until_equal, until_moved
from lab.sidecars.sidecars import SidecarPlan, lists_toml
from lab.wire.records import Shape

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator, Sequence

    from lab.cluster.cluster import Cluster
    from lab.measuring.figures import Sample

pytestmark = [pytest.mark.timeout(600)]

POLICIES = ("strict", "kip73")
ONE_RECORD = Shape(record_bytes=100_000, batch_records=1)
NEW = 103
"""The broker that starts empty."""
MB = 1_000_000
BOOTSTRAP_SECONDS = 10
READINGS = 8
"""Of the rate, in the last four seconds."""
LEAST, MOST = 0.9 * BOOTSTRAP_SECONDS, 3.0 * BOOTSTRAP_SECONDS
ASSIGNMENT = {0: [101, NEW], 1: [102, NEW], 2: [101, NEW], 3: [102, NEW]}
THROTTLED, FREE = (0, 1), (2, 3)


@asynccontextmanager
async def stopped(cluster: Cluster, broker: int) -> AsyncGenerator[None]:
    """The broker is down; afterwards it runs, whatever happened."""
    process = cluster.brokers[broker]
    await process.stop()
    try:
        yield
    finally:
        if not process.process.running:
            with trio.CancelScope(shield=True):
                await process.start()


@asynccontextmanager
async def clean_logs(cluster: Cluster) -> AsyncGenerator[None]:
    """No broker logs what altered fetches must never cause, nor does a replica leave the in-sync set."""
    said = cluster.log_mark()
    yield
    assert cluster.bad_log_lines(since=said) == []
    assert cluster.shrinks(since=said) == []


def sizes(samples: Sequence[Sample], name: str, partitions: Sequence[int]) -> dict[int, int]:
    """Record bytes on the wire, by partition."""
    found = dict.fromkeys(partitions, 0)
    for sample in samples:
        for topic_name, partition, size in getattr(sample, "partitions", ()):
            if topic_name == name and partition in found:
                found[partition] += size
    return found


def first_fetch(samples: Sequence[Sample], follower: int) -> float:
    return min(sample.t for sample in samples if isinstance(sample, Asked) and sample.follower == follower)


def last_byte(samples: Sequence[Sample], name: str, partitions: Sequence[int]) -> float:
    """When the last records of these partitions arrived."""
    return max(
        sample.t
        for sample in samples
        if any(t == name and p in partitions for t, p, _ in getattr(sample, "partitions", ()))
    )


@asynccontextmanager
async def rates_shown(cluster: Cluster, role: str, throttling: Sequence[int]) -> AsyncGenerator[list[float]]:
    """The mean of these brokers' throttled rates, twice a second. At a single moment it may be above the bound: kip73
    admits a whole answer at a rate just below the quota, and two partitions of 1 MB are a tenth of the window's bytes.
    """
    metric = f"{role.capitalize()}ReplicationThrottledRate"
    shown: list[float] = []

    async def read() -> None:
        while True:
            found = [await trio.to_thread.run_sync(cluster.sidecars[broker].metrics) for broker in throttling]
            shown.append(statistics.fmean(each[metric][""] for each in found))
            await trio.sleep(0.5)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        yield shown
        nursery.cancel_scope.cancel()


@pytest.mark.system
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("role", ["leader", "follower"])
async def test_should_bootstrap_a_broker(
    sidecar_cluster: Cluster, role: str, policy: str, record: Callable[..., None]
) -> None:
    """shouldBootstrapTwoBrokersWithLeaderThrottle, …WithFollowerThrottle: 100 records of 100 kB per partition. Two
    throttled partitions are led by one broker each, and go to the same one, so that they share only its quota."""
    cluster, taps = sidecar_cluster, sidecar_cluster.taps
    assert taps is not None
    partition_bytes = 100 * 100_000
    throttling = (101, 102) if role == "leader" else (NEW,)
    quota = partition_bytes * len(THROTTLED) / len(throttling) / BOOTSTRAP_SECONDS
    replicas = ",".join(f"{p}:{ASSIGNMENT[p][0] if role == 'leader' else NEW}" for p in THROTTLED)
    async with topic(cluster, ASSIGNMENT, prefix="bootstrap") as name:
        text = lists_toml({role: quota}, {name: {role: replicas}})
        async with sidecar_quotas(cluster, text, throttling, policy=policy), clean_logs(cluster):
            async with stopped(cluster, NEW):
                leaders = {partition: replicas[0] for partition, replicas in ASSIGNMENT.items()}
                await fill_topic(cluster, name, leaders, bytes_per_partition=partition_bytes, shape=ONE_RECORD)
                mark = taps.position()
                await cluster.brokers[NEW].start()
                async with rates_shown(cluster, role, throttling) as shown:
                    await until(
                        lambda: min(sizes(taps.samples(since=mark), name, THROTTLED).values()) >= partition_bytes,
                        what="everything was fetched",
                        timeout_seconds=60,
                    )
            await until_equal(cluster, name, timeout_seconds=30)
    samples = taps.samples(since=mark)
    start = first_fetch(samples, NEW)
    free, throttled = (last_byte(samples, name, partitions) - start for partitions in (FREE, THROTTLED))
    rate = statistics.fmean(shown[-READINGS:])
    record("scenarios", scene=f"bootstrap, {role}", policy=policy, free_seconds=free, throttled_seconds=throttled,
           rate_over_quota=rate / quota)  # fmt: skip
    assert free < LEAST
    assert LEAST < throttled < MOST
    assert 0.5 * quota < rate < 1.1 * quota


@pytest.mark.parametrize(
    "policy", [pytest.param("strict", marks=pytest.mark.brokers), pytest.param("kip73", marks=pytest.mark.system)]
)
async def test_should_throttle_old_segments(sidecar_cluster: Cluster, policy: str, record: Callable[..., None]) -> None:
    """shouldThrottleOldSegments: 200 records of 100 kB in segments of 1 MiB, at 5 MB/s from the leader: 4 s. A
    fetch of an older segment never waits in the broker (DelayedFetch's case F), a throttled one has to."""
    cluster, taps = sidecar_cluster, sidecar_cluster.taps
    assert taps is not None
    quota, total = 5 * MB, 200 * 100_000
    async with topic(cluster, {0: [101, NEW]}, prefix="segments", configs={"segment.bytes": str(MIB)}) as name:
        text = lists_toml({"leader": quota}, {name: {"leader": "0:101"}})
        async with sidecar_quotas(cluster, text, [101], policy=policy), clean_logs(cluster):
            async with stopped(cluster, NEW):
                await fill_topic(cluster, name, {0: 101}, bytes_per_partition=total, shape=ONE_RECORD)
                mark = taps.position()
                await cluster.brokers[NEW].start()
                await until(
                    lambda: sizes(taps.samples(since=mark), name, [0])[0] >= total,
                    what="everything was fetched",
                    timeout_seconds=30,
                )
            await until_equal(cluster, name, timeout_seconds=30)
    found = events(taps.samples(since=mark), topic=name)
    took = found[-1].t - found[0].t
    record("scenarios", scene="old segments", policy=policy, seconds=took)
    assert 0.9 * total / quota < took < 1.5 * total / quota


BROKERS = (101, 102, 103, 104)
HERE, THERE = (101, 102), (103, 104)
MOVE_QUOTA = 4 * MIB
PARTITION_BYTES = 40 * MIB
MOVING = (0, 1)


@pytest.fixture(scope="module")
def four_brokers() -> Iterator[Cluster]:
    """Room for replicas that all change places, as in throttling_test.py."""
    cluster = trio.run(start_cluster, ClusterPlan(brokers=BROKERS, sidecars=SidecarPlan()))
    try:
        yield cluster
    finally:
        cluster.close()


async def bounce(cluster: Cluster) -> None:
    """Restart every other broker, cleanly, one after the other."""
    for broker in BROKERS[::2]:
        await cluster.brokers[broker].stop()
        await cluster.brokers[broker].start()


@pytest.mark.system
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("bounces", [False, True], ids=["quiet", "bounces"])
async def test_throttled_reassignment(
    four_brokers: Cluster, policy: str, *, bounces: bool, record: Callable[..., None]
) -> None:
    """throttling_test.py: every replica changes its broker under load; 0.9 to 2 times the estimate, nothing that was
    acknowledged is lost."""
    cluster = four_brokers
    before, after = {0: HERE, 1: THERE}, {0: THERE, 1: HERE}
    estimate = len(THERE) * PARTITION_BYTES / MOVE_QUOTA
    lists = {
        "leader": ",".join(f"{p}:{b}" for p in MOVING for b in before[p]),
        "follower": ",".join(f"{p}:{b}" for p in MOVING for b in after[p]),
    }
    async with topic(cluster, before, prefix="reassign", configs={"segment.bytes": str(64 * MIB)}) as name:
        await fill_topic(cluster, name, {p: before[p][0] for p in MOVING}, bytes_per_partition=PARTITION_BYTES)
        await until_equal(cluster, name, timeout_seconds=60)
        rates = {"leader": MOVE_QUOTA, "follower": MOVE_QUOTA}
        text = lists_toml(rates, {name: lists})
        said = cluster.log_mark()
        async with sidecar_quotas(cluster, text, BROKERS, policy=policy):
            producers = [FollowingProducer(cluster, name, partition) for partition in MOVING]
            async with trio.open_nursery() as nursery:
                for producer in producers:
                    await nursery.start(producer.run)
                start = time.monotonic()
                await trio.to_thread.run_sync(cluster.admin.reassign, name, after)
                if bounces:
                    await trio.sleep(1)
                    await bounce(cluster)
                took = await until_moved(cluster, name, MOVING, timeout_seconds=3 * estimate) - start
                await trio.sleep(1)
                nursery.cancel_scope.cancel()
        await until_equal(cluster, name, timeout_seconds=60)
        states = await trio.to_thread.run_sync(partial(cluster.admin.describe, name))
        for state, producer in zip(states, producers, strict=True):
            assert set(state.in_sync) == set(after[state.partition])
            assert len(producer.acknowledged) > 50 * took
            for replica in state.replicas:
                directory = cluster.brokers[replica].log_dir / f"{name}-{state.partition}"
                assert missing(directory, producer.acknowledged) == []
    record("scenarios", scene="reassignment", policy=policy, bounces=bounces, took_over_estimate=took / estimate,
           acknowledged=sum(len(producer.acknowledged) for producer in producers),
           interruptions=sum(producer.interruptions for producer in producers))  # fmt: skip
    assert 0.9 * estimate <= took <= 2 * estimate
    assert cluster.bad_log_lines(since=said) == []
