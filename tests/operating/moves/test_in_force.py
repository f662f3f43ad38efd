from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from operating.moves.in_force import WrittenFile, in_force
from operating.moves.planning import Ground, Wanted, plan_move
from proxy.quotas import parse_quotas
from proxy.quotas.rate_reading import parse_rate_or_source
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


def told(
    beside: str, *, size_bytes: float = 25 * MB, finish_by: str | None = None, until: str | None = None
) -> tuple[float, list[str]]:
    """The seconds and the warnings of a plan of 5 MB/s that was written beside something else."""
    ground = Ground(MOVES, {ORDERS: Size(101, size_bytes), OTHERS: Size(102, size_bytes)}, inflow={})
    plan = plan_move(ground, Wanted(5 * MB))
    move = replace(throttle(MOVES, plan.rates), finish_by=finish_by)
    content = (quotas_toml(move, comment="", until=until) + beside).encode()
    written = WrittenFile("quotas.toml", content, parse_quotas(content))
    _, source = (None, None) if finish_by is None else parse_rate_or_source({"finish_by": finish_by, "max": 5 * MB})
    deadline = None if source is None else source.deadline
    found = in_force(plan, dict.fromkeys((101, 102, 104), written), NOW, deadline)
    return found.total_seconds, [warning.removeprefix("quotas.toml: ") for warning in found.warnings]


AN_HOUR = "2026-11-21T13:00:00Z"
AT_FOUR = '[[schedules]]\nfrom = "16:00"\nto = "17:00"\n'
ONE, FIVE, TEN = "976.56 KiB/s (1000000 B/s)", "4.77 MiB/s (5000000 B/s)", "9.54 MiB/s (10000000 B/s)"
AT_NIGHT = '[[schedules]]\nfrom = "22:00"\nto = "05:00"\n'
UNSURE = "may not be done by then: it may take until its deadline"
EVERYBODY = ("101 as leader", "101 as follower", "102 as leader", "104 as follower")


@pytest.mark.parametrize(
    ("beside", "finish_by", "until", "warnings"),
    [
        ("", "2027-01-01T00:00:00Z", AN_HOUR,
         [f"broker {who}: from {AN_HOUR} nothing is throttled any more, and the move {UNSURE}" for who in EVERYBODY]),
        (AT_NIGHT + rates("schedules.brokers.101", '"unlimited"'), "06:00", None,
         [f"broker 101 as leader: from 2026-11-21T22:00:00Z nothing is throttled any more, and the move {UNSURE}"]),
        (AT_NIGHT + rates("schedules.brokers.101", '"5MB/s"'), "06:00", None,
         [("broker 101 as leader: from 2026-11-21T22:00:00Z 4.77 MiB/s (5000000 B/s) holds, and the move "
          f"{UNSURE}")]),
        # A lower rate comes first, and does not hide the time in which none holds.
        (AT_NIGHT + rates("schedules.brokers.101", '"unlimited"') + AT_FOUR + rates("schedules.brokers.101", '"1MB/s"'),
         "06:00", None,
         [f"broker 101 as leader: from 2026-11-21T16:00:00Z {ONE} holds, and the move {UNSURE}",
          f"broker 101 as leader: from 2026-11-21T22:00:00Z nothing is throttled any more, and the move {UNSURE}"]),
        (at("12:05", "peers.104"), "06:00", None,
         [f"broker 101 as leader: {PLANNED}peer 104 has 976.56 KiB/s (1000000 B/s) from 2026-11-21T12:05:00Z"]),
        # What lasts until the deadline lasts long enough.
        ("", AN_HOUR, AN_HOUR, []),
        (AT_NIGHT + rates("schedules.brokers.101", '"unlimited"'), "22:00", None, []),
        # Without a deadline it is done in 5 s.
        ("", None, AN_HOUR, []),
        (AT_NIGHT + rates("schedules.brokers.101", '"unlimited"'), None, None, []),
    ],
)  # fmt: skip
def test_a_move_with_a_deadline_takes_all_the_time_it_has(
    beside: str, finish_by: str | None, until: str | None, warnings: list[str]
) -> None:
    seconds, found = told(beside, finish_by=finish_by, until=until)
    assert (seconds, found) == (5, warnings)


def auto(least: str, most: str) -> str:
    return f'{{ auto = true, min = "{least}", max = "{most}" }}'


FOR_A_YEAR = "[[schedules]]\nuntil = 2027-12-01T06:00:00Z\n"
FIRST = (
    "schedules[0].brokers.101 goes first; throttle-sidecar set leader.replication.throttled.rate --broker 101 --end"
    " --quotas quotas.toml ends it"
)
BY_THE_LEAST = f"{FIRST}; the time is by the least that it may be"
AUTO = "what does not hurt, from {} to {}"
NEEDED = "what is needed to end by 06:00:00 UTC, from 64.00 KiB/s (65536 B/s) to"


@pytest.mark.parametrize(
    ("beside", "finish_by", "seconds", "warnings"),
    [
        # The most is the planned rate, below it, above it; or what is sure is as much as was planned.
        (FOR_A_YEAR + rates("schedules.brokers.101", auto("1MB/s", "5MB/s")), None, 25,
         [f"{AUTO.format(ONE, FIVE)} holds, not {FIVE}: {BY_THE_LEAST}"]),
        (FOR_A_YEAR + rates("schedules.brokers.101", auto("1MB/s", "10MB/s")), None, 25,
         [f"{AUTO.format(ONE, TEN)} holds, not {FIVE}: {BY_THE_LEAST}"]),
        (FOR_A_YEAR + rates("schedules.brokers.101", auto("5MB/s", "10MB/s")), None, 5,
         [f"{AUTO.format(FIVE, TEN)} holds, not {FIVE}: {BY_THE_LEAST}"]),
        (FOR_A_YEAR + rates("schedules.brokers.101", '"5MB/s"'), "06:00", 5,
         [f"{FIVE} holds, not {NEEDED} {FIVE}: {FIRST}"]),
        # The same deadline, in another section.
        (FOR_A_YEAR + rates("schedules.brokers.101", '{ finish_by = "06:00", max = "5MB/s" }'), "06:00", 5, []),
    ],
)  # fmt: skip
def test_a_rate_that_sets_itself_promises_its_least(
    beside: str, finish_by: str | None, seconds: float, warnings: list[str]
) -> None:
    found = told(beside, finish_by=finish_by)
    assert found == (seconds, [f"broker 101 as leader: {each}" for each in warnings])


def test_a_rate_that_will_set_itself_is_told_from_when() -> None:
    """Until then 1500 MB at 5 MB/s, the other 1500 MB at no less than 1 MB/s."""
    later = '[[schedules]]\nfrom = "12:05"\nto = "11:00"\n' + rates("schedules.brokers.101", auto("1MB/s", "5MB/s"))
    assert told(later, size_bytes=3000 * MB) == (1800, [
        (f"broker 101 as leader: from 2026-11-21T12:05:00Z {AUTO.format(ONE, FIVE)} holds, and the move may not be done"
         " by then"),
    ])  # fmt: skip


@pytest.mark.parametrize(
    ("mode", "path", "until", "does_it"),
    [
        ("[mode]\nenforce = false\n", "mode", "", "mode.enforce true"),
        ("[mode]\nenforce = false\nuntil = 2027-12-01T06:00:00+05:00\n", "mode", " until 2027-12-01T01:00:00Z",
         "mode.enforce true"),
        ("[[schedules]]\nuntil = 2027-12-01T06:00:00+05:00\n[schedules.mode]\nenforce = false\n", "schedules[0].mode",
         " until 2027-12-01T01:00:00Z", "mode.enforce true"),
        # A schedule by the clock comes again: only what ends with it goes before it.
        ('[[schedules]]\nfrom = "10:00"\nto = "14:00"\ntimezone = "Europe/Berlin"\n[schedules.mode]\nenforce = false\n',
         "schedules[0].mode", " until 2026-11-21T13:00:00Z", "--until 2026-11-21T13:00:00+00:00 mode.enforce true"),
        ('[[schedules]]\ndays = ["mon-sun"]\n[schedules.mode]\nenforce = false\n', "schedules[0].mode", "", None),
    ],
)  # fmt: skip
def test_what_is_only_observed_is_told_with_its_end_and_what_ends_it(
    mode: str, path: str, until: str, does_it: str | None
) -> None:
    seconds, (warning,) = told(mode)
    assert math.isnan(seconds)
    command = "no command changes that: edit it by hand"
    if does_it is not None:
        command = f"throttle-sidecar set {does_it} --quotas quotas.toml"
    assert warning == f"{path}.enforce is false{until}: nothing is throttled, only observed: {command}"
