"""A replica that returns while fewer than min.insync.replicas are in sync, and the high watermark does not move.

Since Kafka 3.7 (KAFKA-15583) a leader does not advance the high watermark meanwhile. The replica that returns has every
record up to it, which is all that the leader asks of a member of the ISR: it is one again as soon as it fetches, far
behind the end of the log, and producers with acks=all wait for it from then on. So it is in sync, and passes.
"""

from __future__ import annotations

import pytest
import trio

from lab.brokers.releases import release
from lab.cluster.cluster import Cluster, cluster
from lab.cluster.plan import ClusterPlan
from lab.errors import LabError
from lab.load.live_producer import LIVE, LiveProducer
from lab.moves.move import MIB
from lab.moves.scenes import fill_topic, sidecar_quotas, topic, until, until_equal, until_in_sync
from lab.sidecars.sidecars import SidecarPlan, lists_toml

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

LEADER, FIRST, SECOND = 101, 102, 103
QUOTA = 4 * MIB
BACKLOG = 200 * MIB
JOINS_SECONDS = 20.0
"""Most of it is the start of a broker."""


def throttled_bytes(running: Cluster, *, in_sync: bool) -> float:
    found = running.sidecars[LEADER].metrics()["replication_throttle_throttled_bytes_total"]
    return found[f'in_sync="{str(in_sync).lower()}",role="leader"']


def in_sync(running: Cluster, name: str) -> tuple[int, ...]:
    """Those in the ISR; none where the broker that was asked is down."""
    try:
        return running.admin.describe(name)[0].in_sync
    except LabError:
        return ()


async def high_watermark(running: Cluster, name: str) -> int:
    """Ask until a broker that is up is asked."""
    found: list[int] = []

    def ask() -> bool:
        try:
            found.append(running.admin.end_offsets(name, [0])[0])
        except LabError:
            return False
        return True

    await until(ask, what="the leader answers", timeout_seconds=30)
    return found[0]


@pytest.mark.parametrize("protocol", ["3.9", "4.4"])
async def test_the_first_replica_that_returns_is_in_the_isr_at_once_and_the_second_is_throttled(protocol: str) -> None:
    """Had the first one been throttled, producers with acks=all would have waited for as long as the quota takes."""
    plan = ClusterPlan(
        release=release(protocol=protocol),
        sidecars=SidecarPlan(),
        taps=False,
        broker_overrides={"replica.lag.time.max.ms": "5000"},
    )
    async with (
        cluster(plan) as running,
        topic(running, {0: [LEADER, FIRST, SECOND]}, configs={"min.insync.replicas": "2"}) as name,
    ):
        await fill_topic(running, name, {0: LEADER}, bytes_per_partition=MIB)
        await until_in_sync(running, name, timeout_seconds=30)
        for broker in (FIRST, SECOND):
            await running.brokers[broker].kill()
        await until(lambda: in_sync(running, name) == (LEADER,), what="both are out", timeout_seconds=60)
        frozen = await high_watermark(running, name)
        await fill_topic(running, name, {0: LEADER}, bytes_per_partition=BACKLOG)
        assert await high_watermark(running, name) == frozen, "the high watermark moved"

        text = lists_toml({"leader": QUOTA}, {"*": {"leader": "*"}})
        async with sidecar_quotas(running, text, [LEADER], policy="strict"):
            running.brokers[FIRST].begin_start()
            await until(
                lambda: FIRST in in_sync(running, name),
                what="the first one is in the ISR",
                timeout_seconds=JOINS_SECONDS,
            )
            passed = throttled_bytes(running, in_sync=True)
            assert passed < 0.8 * BACKLOG, "it was in the ISR when it had caught up"
            leader, shape = running.addresses.direct(LEADER), running.shape(LIVE)
            producer = LiveProducer(leader, name, 0, interval_seconds=0.1, shape=shape)
            async with trio.open_nursery() as nursery:
                await nursery.start(producer.run)
                await trio.sleep(5)
                nursery.cancel_scope.cancel()
            assert (len(producer.acknowledged) > 10, producer.errors) == (True, [])
            assert throttled_bytes(running, in_sync=True) > 0.9 * BACKLOG
            assert throttled_bytes(running, in_sync=False) < 2 * QUOTA

            running.brokers[SECOND].begin_start()
            await until(
                lambda: throttled_bytes(running, in_sync=False) > 2 * QUOTA,
                what="the second one is throttled",
                timeout_seconds=JOINS_SECONDS,
            )
            assert SECOND not in in_sync(running, name)
        await until_equal(running, name, timeout_seconds=60)
