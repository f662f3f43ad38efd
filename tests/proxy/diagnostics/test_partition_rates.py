"""The rate of each throttled partition, as KIP-73's PartitionBytesInRate shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy.diagnostics.role_rates import PartitionRate, partition_rates
from tests.proxy.conversation import Conversation, throttle

if TYPE_CHECKING:
    from proxy.throttle.role_throttle import RoleThrottle


def rates(shared: RoleThrottle, now: float) -> list[PartitionRate]:
    steps = partition_rates(shared, now)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return sorted(done.value)


def test_there_is_a_rate_for_each_throttled_partition_also_for_one_that_brings_nothing() -> None:
    shared = throttle()
    talk = Conversation(shared, offsets={("t", 0): 0, ("t", 1): 0})
    talk.meet()
    (link,) = shared.links
    link.replicas.known["t", 1].add(5000, talk.now)
    assert rates(shared, talk.now) == [
        PartitionRate("t", 0, pytest.approx(0.0, abs=1)),
        PartitionRate("t", 1, pytest.approx(1000.0, rel=0.01)),
    ]


def test_two_connections_that_ask_for_a_partition_make_one_rate() -> None:
    shared = throttle()
    for _ in range(2):
        talk = Conversation(shared, offsets={("t", 0): 0})
        talk.meet()
    for link in shared.links:
        link.replicas.known["t", 0].add(5000, talk.now)
    assert rates(shared, talk.now) == [PartitionRate("t", 0, pytest.approx(2000.0, rel=0.01))]


def test_many_partitions_are_looked_at_in_steps() -> None:
    shared = throttle()
    talk = Conversation(shared, offsets={("t", number): 0 for number in range(1000)})
    talk.meet()
    steps = partition_rates(shared, talk.now)
    assert sum(1 for _ in steps) >= 20


def test_what_nobody_asks_for_has_no_rate() -> None:
    assert rates(throttle(), 0.0) == []
