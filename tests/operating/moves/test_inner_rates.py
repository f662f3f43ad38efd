from __future__ import annotations

from datetime import UTC, datetime

from operating.moves.inner_rates import Moment, inner_parts, racks_below
from operating.moves.planning import Ground
from proxy.quotas import effective, parse_quotas
from reassignment import PartitionMove, Size, TopicPartition

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
ORDERS, CLICKS = TopicPartition("orders", 0), TopicPartition("clicks", 0)
GROUND = Ground(
    {ORDERS: PartitionMove((101, 102), (103, 104)), CLICKS: PartitionMove((101,), (103,))},
    {ORDERS: Size(101, 600.0), CLICKS: Size(101, 100.0)},
)
RATES = b"""
[brokers.default]
leader.replication.throttled.rate = 50
[peers.103]
leader.replication.throttled.rate = 20
[peers.104]
leader.replication.throttled.rate = 60
[racks.a]
leader.replication.throttled.rate = 10
[racks.b]
leader.replication.throttled.rate = 70
[topics.orders]
leader.replication.throttled.rate = 30
"""


def moments(content: bytes, broker: int) -> list[Moment]:
    return [Moment(0.0, effective(parse_quotas(content), broker, NOW))]


def test_each_part_is_as_large_as_what_its_rate_bounds() -> None:
    found = inner_parts(GROUND, (101, "leader"), moments(RATES, 101))
    assert {part.name: (part.load.move_bytes, part.first.bytes_per_second) for part in found} == {
        "peer 103": (700.0, 20.0),
        "topic orders": (1200.0, 30.0),
    }


def test_who_would_lead_if_the_leader_failed_has_rates_and_sends_nothing() -> None:
    found = inner_parts(GROUND, (102, "leader"), moments(RATES, 102))
    assert {part.name: part.load.move_bytes for part in found} == {"peer 103": 0.0, "topic orders": 0.0}


def test_without_such_rates_there_are_no_parts() -> None:
    assert inner_parts(GROUND, (103, "follower"), moments(RATES, 103)) == ()


def test_racks_are_told_with_the_least_that_they_have() -> None:
    both = [*moments(RATES, 101), *moments(RATES.replace(b"= 10", b"= 5"), 101)]
    assert racks_below("leader", 50.0, both) == {"a": 5.0}
    assert racks_below("follower", 50.0, both) == {}
