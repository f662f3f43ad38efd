from __future__ import annotations

import math
from datetime import UTC, datetime

import pytest

from operating.moves.in_force import WrittenFile, in_force
from operating.moves.planning import Ground, Wanted, plan_move
from proxy.quotas import parse_quotas
from reassignment import PartitionMove, Size, TopicPartition, quotas_toml, throttle

MB = 1_000_000
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
ORDERS, OTHERS = TopicPartition("orders", 0), TopicPartition("orders", 1)
MOVES = {ORDERS: PartitionMove((101,), (104,)), OTHERS: PartitionMove((102,), (101,))}
LEADER_RATE, FOLLOWER_RATE = "leader.replication.throttled.rate", "follower.replication.throttled.rate"
PLANNED = "inside the planned 4.77 MiB/s (5000000 B/s), "
UNKNOWN = ": which brokers are of it is not known here, and with one of them the move takes longer"


def rates(section: str, rate: str, key: str = LEADER_RATE) -> str:
    return f"[{section}]\n{key} = {rate}\n"


def at(time: str, section: str) -> str:
    return f'[[schedules]]\nfrom = "{time}"\nto = "11:00"\n' + rates(f"schedules.{section}", '"1MB/s"')


@pytest.mark.parametrize(
    ("beside", "size_bytes", "seconds", "warnings"),
    [
        ("", 25 * MB, 5, []),
        (rates("peers.104", '"500kB/s"'), 25 * MB, 50, ["101 as leader: {}peer 104 has 488.28 KiB/s (500000 B/s)"]),
        (rates("peers.102", '"500kB/s"', FOLLOWER_RATE), 25 * MB, 50,
         ["101 as follower: {}peer 102 has 488.28 KiB/s (500000 B/s)"]),
        (rates('topics."ord*"', '"2.5MB/s"'), 25 * MB, 10,
         ["101 as leader: {}topic ord* has 2.38 MiB/s (2500000 B/s)",
          "102 as leader: {}topic ord* has 2.38 MiB/s (2500000 B/s)"]),
        (rates("peers.104", "0"), 25 * MB, math.inf, ["101 as leader: {}peer 104 has 0 B/s"]),
        # One that is not below the planned rate, and those that do not concern the move: 101 sends nothing to 102.
        (rates("peers.104", '"6MB/s"') + rates("peers.102", "1") + rates("topics.clicks", "1"), 25 * MB, 5, []),
        (rates('racks."eu-1b"', '"1MB/s"'), 25 * MB, 5,
         ["101 as leader: {}rack eu-1b has 976.56 KiB/s (1000000 B/s)" + UNKNOWN,
          "102 as leader: {}rack eu-1b has 976.56 KiB/s (1000000 B/s)" + UNKNOWN]),
        (rates('racks."eu-1b"', '"6MB/s"'), 25 * MB, 5, []),
        # By a schedule: 1500 MB until then, and 1500 at a fifth of the rate; or none before the move is done.
        (at("12:05", "peers.104"), 3000 * MB, 1800,
         ["101 as leader: {}peer 104 has 976.56 KiB/s (1000000 B/s) from 2026-11-21T12:05:00Z"]),
        (at("12:05", "peers.104"), 1000 * MB, 200, []),
        # The role's own rate is the lower one, and is told by itself.
        (at("12:05", "brokers.101") + rates("peers.104", '"2MB/s"'), 25 * MB, 12.5,
         ["101 as leader: {}peer 104 has 1.91 MiB/s (2000000 B/s)"]),
    ],
)  # fmt: skip
def test_rates_inside_the_planned_one_are_told_and_counted(
    beside: str, size_bytes: float, seconds: float, warnings: list[str]
) -> None:
    """Each of two partitions takes 5 s at 5 MB/s: one from 101 to 104, one from 102 to 101."""
    ground = Ground(MOVES, {ORDERS: Size(101, size_bytes), OTHERS: Size(102, size_bytes)}, inflow={})
    plan = plan_move(ground, Wanted(5 * MB))
    content = (quotas_toml(throttle(MOVES, plan.rates), comment="") + beside).encode()
    written = WrittenFile("quotas.toml", content, parse_quotas(content))
    found = in_force(plan, dict.fromkeys((101, 102, 104), written), NOW)
    assert found.total_seconds == pytest.approx(seconds)
    assert list(found.warnings) == [f"quotas.toml: broker {each.format(PLANNED)}" for each in warnings]
