"""The broker's own replication quotas, put in force and taken back as `kafka-reassign-partitions --throttle` does.

Knows no sidecar. Invariant: when `throttle_natively` returns, the brokers have applied what was set.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import trio

from ..cluster import admin as keys
from ..errors import LabError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..cluster.cluster import Cluster

_POLL_SECONDS = 0.1
_APPLIED_SECONDS = 10.0
APPLIED = re.compile(
    r"Processing override for entityPath"
    r"|(?:DynamicConfigPublisher broker|BrokerMetadataPublisher) id=\d+\] "
    r"Updating (?:topic|node|broker) \S+ with new configuration"
)
"""The log line by which a broker says that it has heard of changed configs: the first form in ZooKeeper mode, the
others in KRaft, the last of them up to Kafka 3.3."""
_RATES = {"leader": keys.LEADER_RATE, "follower": keys.FOLLOWER_RATE}
_LISTS = {"leader": keys.LEADER_REPLICAS, "follower": keys.FOLLOWER_REPLICAS}


async def throttle_natively(
    cluster: Cluster, topic: str, *, lists: Mapping[str, str], rates: Mapping[str, float], brokers: Sequence[int]
) -> None:
    """Set the lists of throttled replicas, then the rates.

    Args:
        cluster: running.
        topic: whose lists are set.
        lists: role (`leader`, `follower`) -> `partition:broker,…`.
        rates: role -> bytes per second, of each of `brokers`.
        brokers: that throttle.

    Raises:
        LabError: brokers did not apply it in time.
    """
    admin = cluster.admin
    seen = _overrides(cluster, brokers)
    topic_configs = {_LISTS[role]: text for role, text in lists.items()}
    broker_configs = {_RATES[role]: str(int(rate)) for role, rate in rates.items()}
    await trio.to_thread.run_sync(admin.set_topic_configs, topic, topic_configs)
    await trio.to_thread.run_sync(admin.set_broker_configs, brokers, broker_configs)
    # Brokers apply configs when they hear of them. A move that starts before that would not be throttled yet.
    deadline = time.monotonic() + _APPLIED_SECONDS
    while any(now < then + 2 for now, then in zip(_overrides(cluster, brokers), seen, strict=True)):
        if time.monotonic() > deadline:
            raise LabError(f"brokers {brokers} did not apply the throttle within {_APPLIED_SECONDS:g} s")
        await trio.sleep(_POLL_SECONDS)


async def unthrottle_natively(cluster: Cluster, *, brokers: Sequence[int]) -> None:
    """Remove the rates. The lists go with their topic."""
    await trio.to_thread.run_sync(cluster.admin.set_broker_configs, brokers, dict.fromkeys(_RATES.values()))


def _overrides(cluster: Cluster, brokers: Sequence[int]) -> list[int]:
    """Return per broker how many config changes it says it has processed."""
    return [len(cluster.brokers[broker].log_lines(APPLIED)) for broker in brokers]
