"""Real brokers tell the sidecar which replicas a move adds, so that the partitions that move lack nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from lab.brokers.releases import release
from lab.cluster.cluster import start_cluster
from lab.cluster.plan import ClusterPlan
from lab.host.addresses import KAFKA_PORT
from lab.load.fill import fill
from lab.moves.native_quotas import throttle_natively
from protocol.metadata import ReplicaCount, replica_counts
from proxy.cluster.broker_client import Broker, ask_metadata
from proxy.cluster.questions import added_at, without_added
from proxy.config.settings import Address

if TYPE_CHECKING:
    from lab.cluster.cluster import Cluster

pytestmark = [pytest.mark.system, pytest.mark.timeout(120)]


async def told_by(cluster: Cluster, broker: int) -> tuple[dict[int, ReplicaCount], dict[int, ReplicaCount]]:
    """Return what Metadata counts, and what is left of it without the replicas that are added."""
    address, _, port = cluster.addresses.direct(broker).partition(":")
    asked = Broker(Address(address, int(port or KAFKA_PORT)))
    counts = await ask_metadata(asked, ["moves"], replica_counts)
    return counts["moves"], without_added(counts, await added_at(asked))["moves"]


@pytest.mark.parametrize("protocol", ["3.9", "4.3"])
def test_a_partition_that_moves_lacks_nothing(protocol: str) -> None:
    """In KRaft every broker passes the question on to the controller."""
    cluster = trio.run(start_cluster, ClusterPlan(release=release(protocol=protocol), taps=False))
    try:
        cluster.admin.create_topic("moves", {0: [101, 102], 1: [101, 102]})
        leaders = dict.fromkeys((0, 1), cluster.addresses.direct(101))
        fill("moves", leaders, bytes_per_partition=1 << 20, shape=cluster.shape())
        lists = {"leader": "0:101,1:101", "follower": "0:103,1:103"}
        rates = dict.fromkeys(("leader", "follower"), 16 * 1024.0)
        trio.run(lambda: throttle_natively(cluster, "moves", lists=lists, rates=rates, brokers=(101, 103)))
        cluster.admin.reassign("moves", {0: [101, 103], 1: [101, 103]})
        told = [trio.run(told_by, cluster, broker) for broker in (101, 102, 103)]
        assert all(by_metadata == dict.fromkeys((0, 1), ReplicaCount(3, 2)) for by_metadata, _ in told)
        assert all(found == dict.fromkeys((0, 1), ReplicaCount(2, 2)) for _, found in told)
    finally:
        cluster.close()
