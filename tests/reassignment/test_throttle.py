from __future__ import annotations

import tomllib
from datetime import UTC, datetime

from proxy.quotas import parse_quotas
from proxy.roles import Role
from reassignment import PartitionMove, TopicPartition, quotas_toml, throttle

MOVES = {
    TopicPartition("orders", 0): PartitionMove((101, 102), (104,)),
    TopicPartition("orders", 1): PartitionMove((102, 101), (104,)),
    TopicPartition("pay.ments", 0): PartitionMove((101,), (105,)),
    TopicPartition("still", 0): PartitionMove((101, 102), ()),
}
THROTTLE = throttle(
    MOVES,
    {(101, "leader"): 1024, (102, "leader"): 1024, (104, "follower"): 2048, (105, "follower"): 4096},
)
WRITTEN = """\
# Move of Tuesday.
#
# Take it back when it is done.

[brokers.101]
leader.replication.throttled.rate = 1024

[brokers.102]
leader.replication.throttled.rate = 1024

[brokers.104]
follower.replication.throttled.rate = 2048

[brokers.105]
follower.replication.throttled.rate = 4096

[topics.orders]
leader.replication.throttled.replicas = "0:101,0:102,1:101,1:102"
follower.replication.throttled.replicas = "0:104,1:104"

[topics."pay.ments"]
leader.replication.throttled.replicas = "0:101"
follower.replication.throttled.replicas = "0:105"
"""


def test_a_throttle_is_a_quotas_file() -> None:
    assert quotas_toml(THROTTLE, comment="Move of Tuesday.\n\nTake it back when it is done.") == WRITTEN


def test_the_sidecar_reads_what_was_meant() -> None:
    found = parse_quotas(WRITTEN.encode())
    assert {broker: dict(section.rates) for broker, section in found.brokers.items()} == {
        101: {Role.LEADER: 1024}, 102: {Role.LEADER: 1024}, 104: {Role.FOLLOWER: 2048}, 105: {Role.FOLLOWER: 4096},
    }  # fmt: skip
    assert found.topics["pay.ments"].replicas[Role.FOLLOWER].entries == ((0, 105),)


def test_one_broker_reads_what_concerns_it() -> None:
    assert tomllib.loads(quotas_toml(THROTTLE.of_broker(104), comment="")) == {
        "brokers": {"104": {"follower": {"replication": {"throttled": {"rate": 2048}}}}},
        "topics": {"orders": {"follower": {"replication": {"throttled": {"replicas": "0:104,1:104"}}}}},
    }


def test_every_section_may_end_by_itself() -> None:
    until = datetime(2026, 12, 1, 6, tzinfo=UTC)
    found = parse_quotas(quotas_toml(THROTTLE, comment="", until=until).encode())
    assert {section.until for section in found.sections()} == {until}
    assert quotas_toml(THROTTLE, comment="", until="2026-12-01T06:00:00Z").count("until = 2026-12-01T06:00:00Z") == 6
