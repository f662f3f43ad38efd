"""Bytes per second of every throttled partition of one role, for `[http] partition_rates`: a series per partition, as
KIP-73's PartitionBytesInRate.

There may be 200 000 partitions, so `partition_rates` is a generator that yields every 0.1 ms or so, as `replica_stats`
is. Pure: time is an argument.

Invariant: a partition that two connections ask for, an old one and its successor, has one rate, the sum of both.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from ..throttle.work_in_steps import STEP_ITEMS, parts

if TYPE_CHECKING:
    from collections.abc import Generator

    from protocol.session.requests import PartitionKey

    from ..throttle.role_throttle import RoleThrottle


class PartitionRate(NamedTuple):
    topic: str
    """The topic's name, or its id as Kafka's tools write one until a broker has told the name."""
    partition: int
    bytes_per_second: float


def partition_rates(throttle: RoleThrottle, now: float) -> Generator[None, None, list[PartitionRate]]:
    """Yield now and then, and return a rate for each throttled replica that was asked for lately, in no order."""
    rates: defaultdict[PartitionKey, float] = defaultdict(float)
    for link in tuple(throttle.links):
        for step in parts(link.replicas.counted(now)):
            for replica in step:
                rates[replica.key] += replica.meter.per_second(now)
            yield
    name = throttle.selection.topic_name
    found: list[PartitionRate] = []
    items = iter(rates.items())
    while part := tuple(islice(items, STEP_ITEMS)):
        found += [PartitionRate(name(topic), partition, rate) for (topic, partition), rate in part]
        yield
    return found
