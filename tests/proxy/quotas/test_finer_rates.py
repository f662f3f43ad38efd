"""Rates of racks, peers and topics: which section says a topic's, when they hold, in which role."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from proxy.quotas.finer_rates import Entity
from proxy.quotas.reading import parse_quotas
from proxy.quotas.rules import RoleQuota, effective
from proxy.roles import Role

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
FILE = f"""
[peers.102]
leader.replication.throttled.rate = "10MiB/s"
[peers.103]
follower.replication.throttled.rate = "1MiB/s"
until = {LATER.isoformat()}
[peers.104]
leader.replication.throttled.rate = "unlimited"
[racks."eu-1b"]
leader.replication.throttled.rate = "20MiB/s"
[racks."eu west.1"]
leader.replication.throttled.rate = "unlimited"
[topics.orders]
leader.replication.throttled.rate = 5000
leader.replication.throttled.replicas = "*"
[topics."clicks-*"]
leader.replication.throttled.rate = 7000
[topics."clicks-old-*"]
leader.replication.throttled.rate = 8000
[topics.clicks-free]
leader.replication.throttled.rate = "unlimited"
[topics.clicks-listed]
leader.replication.throttled.replicas = "*"
"""


def quota(now: datetime = LATER, role: Role = Role.LEADER) -> RoleQuota:
    return effective(parse_quotas(FILE.encode()), 101, now).of(role)


@pytest.mark.parametrize(
    ("topic", "entity"),
    [
        ("orders", Entity("topic", "orders")),
        ("clicks-1", Entity("topic", "clicks-*")),
        ("clicks-listed", Entity("topic", "clicks-*")),  # its own section says no rate
        ("clicks-old-1", Entity("topic", "clicks-old-*")),
        ("clicks-free", None),
        ("payments", None),
    ],
)
def test_the_most_specific_section_with_a_rate_is_a_topics_only_one(topic: str, entity: Entity | None) -> None:
    assert quota().finer.of_topic(topic) == entity


def test_only_what_is_limited_is_a_bound() -> None:
    assert dict(quota().finer.bounds()) == {
        Entity("rack", "eu-1b"): 20 * 2**20,
        Entity("peer", "102"): 10 * 2**20,
        Entity("topic", "orders"): 5000,
        Entity("topic", "clicks-*"): 7000,
        Entity("topic", "clicks-old-*"): 8000,
    }
    assert not quota(role=Role.FOLLOWER).finer


def test_sections_end() -> None:
    assert dict(quota(NOW, Role.FOLLOWER).finer.bounds()) == {Entity("peer", "103"): 2**20}
    quotas = effective(parse_quotas(FILE.encode()), 101, NOW)
    assert quotas.next_change == LATER
    assert quotas.until == {Role.FOLLOWER: LATER}
    assert not quotas.means_the_same_as(effective(parse_quotas(FILE.encode()), 101, LATER))
