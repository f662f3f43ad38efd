from __future__ import annotations

import tomllib
from datetime import UTC, datetime, timedelta

from proxy.quotas import RoleQuota, effective, parse_quotas
from reassignment import PartitionMove, TopicPartition, quotas_toml, throttle

MOVES = {
    TopicPartition("orders", 0): PartitionMove((101, 102), (104,)),
    TopicPartition("orders", 1): PartitionMove((102, 101), (104,)),
    TopicPartition("pay.ments", 0): PartitionMove((101,), (105,)),
    TopicPartition("still", 0): PartitionMove((101, 102), ()),
}
THROTTLE = throttle(
    MOVES,
    {(101, "leader"): 1024, (102, "leader"): 1024, (104, "follower"): 2048, (105, "follower"): 4097},
)
WRITTEN = """\
# Move of Tuesday.
#
# Take it back when it is done.

[brokers.101]
leader.replication.throttled.rate = "1KiB/s"

[brokers.102]
leader.replication.throttled.rate = "1KiB/s"

[brokers.104]
follower.replication.throttled.rate = "2KiB/s"

[brokers.105]
follower.replication.throttled.rate = 4097

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
    found, now = parse_quotas(WRITTEN.encode()), datetime(2026, 11, 21, tzinfo=UTC)
    leader, follower = effective(found, 102, now).leader, effective(found, 105, now).follower
    assert (leader.bytes_per_second, leader.listed()) == (1024, {"orders": "0,1", "pay.ments": ""})
    assert (follower.bytes_per_second, follower.listed()) == (4097, {"orders": "", "pay.ments": "0"})


def test_one_broker_reads_what_concerns_it() -> None:
    assert tomllib.loads(quotas_toml(THROTTLE.of_broker(104), comment="")) == {
        "brokers": {"104": {"follower": {"replication": {"throttled": {"rate": "2KiB/s"}}}}},
        "topics": {"orders": {"follower": {"replication": {"throttled": {"replicas": "0:104,1:104"}}}}},
    }


def test_every_section_may_end_by_itself() -> None:
    until = datetime(2026, 12, 1, 6, tzinfo=UTC)
    found = parse_quotas(quotas_toml(THROTTLE, comment="", until=until).encode())
    assert not effective(found, 105, until - timedelta(seconds=1)).follower.selects_nothing
    assert effective(found, 105, until).follower == RoleQuota()
    assert quotas_toml(THROTTLE, comment="", until="2026-12-01T06:00:00Z").count("until = 2026-12-01T06:00:00Z") == 6
