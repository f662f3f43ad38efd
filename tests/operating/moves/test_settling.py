"""A plan's throttle holds as it was asked for, and everything else of the file for as long as it did before."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operating.moves.leftovers import leftovers_in_file
from operating.moves.settling import settled
from proxy.errors import ConfigurationError
from proxy.quotas import effective, parse_quotas, whole_file
from proxy.quotas.rules import governing
from proxy.roles import Role
from reassignment import Throttle, TopicPartition

if TYPE_CHECKING:
    from reassignment import RoleName

MIB = 1 << 20
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
SOON, END, LATER = (NOW + timedelta(hours=hours) for hours in (2, 6, 30))
LEADER, FOLLOWER = "leader.replication.throttled.rate", "follower.replication.throttled.rate"
LEADER_LIST, FOLLOWER_LIST = (key.replace("rate", "replicas") for key in (LEADER, FOLLOWER))
HOUR = timedelta(hours=1)
RATES: dict[tuple[int, RoleName], int] = {(101, "leader"): 50 * MIB, (103, "follower"): 50 * MIB}
MOVE = Throttle(RATES, {"leader": {"orders": ((0, 101),)}, "follower": {"orders": ((0, 103),)}})
PROPOSED = {TopicPartition("orders", 0): (102, 103)}
CUR = {TopicPartition("orders", 0): (101, 102)}
NOTHING = float("inf")


def own(key: str, value: str, until: datetime | None = None, section: str = "brokers.101") -> str:
    ends = "" if until is None else f"until = {until:%Y-%m-%dT%H:%M:%SZ}\n"
    return f"[{section}]\n{key} = {value}\n{ends}"


def schedule(section: str, key: str, value: str, when: str) -> str:
    return f"[[schedules]]\n{when}\n[schedules.{section}]\n{key} = {value}\n"


def ending(until: datetime) -> str:
    return f"until = {until:%Y-%m-%dT%H:%M:%SZ}"


def settle(file: str, until: datetime | None, *, now: datetime = NOW, move: Throttle = MOVE) -> str:
    text, _ = settled(file.encode(), move, now, until=until, source="q.toml")
    parse_quotas(text)
    return text.decode()


def mib(text: str, role: Role, at: datetime, broker: int = 101) -> float:
    return effective(parse_quotas(text.encode()), broker, at).of(role).bytes_per_second / MIB


@pytest.mark.parametrize(
    ("file", "until", "leader", "follower"),
    [
        # What stands for good beside the plan's value stays for good.
        (own(FOLLOWER, '"80MiB/s"'), None, (50, 50, 50), (80, 80, 80)),
        (own(FOLLOWER, '"80MiB/s"'), END, (50, 50, NOTHING), (80, 80, 80)),
        (own(FOLLOWER, '"80MiB/s"') + own(LEADER, '"70MiB/s"', section="brokers.default"), END,
         (50, 50, 70), (80, 80, 80)),
        # So does what stands in the plan's place.
        (own(LEADER, '"80MiB/s"'), END, (50, 50, 80), (NOTHING, NOTHING, NOTHING)),
        (own(LEADER, '"80MiB/s"'), None, (50, 50, 50), (NOTHING, NOTHING, NOTHING)),
        # What was set for a time stays for that time.
        (own(FOLLOWER, '"1MiB/s"', SOON), None, (50, 50, 50), (1, NOTHING, NOTHING)),
        (own(FOLLOWER, '"1MiB/s"', SOON), END, (50, 50, NOTHING), (1, NOTHING, NOTHING)),
        (own(FOLLOWER, '"1MiB/s"', LATER), END, (50, 50, NOTHING), (1, 1, 1)),
        (own(f'{LEADER} = "9MiB/s"\n{FOLLOWER}', '"1MiB/s"', SOON), None, (50, 50, 50), (1, NOTHING, NOTHING)),
        # The newest word wins in the plan's own place.
        (own(LEADER, '"1MiB/s"', SOON), None, (50, 50, 50), (NOTHING, NOTHING, NOTHING)),
        (own(LEADER, '"1MiB/s"', SOON), END, (50, 50, NOTHING), (NOTHING, NOTHING, NOTHING)),
        # What is over stays over.
        (own(f"{LEADER} = 9\n{FOLLOWER}", "1", NOW), END, (50, 50, NOTHING), (NOTHING, NOTHING, NOTHING)),
        # What ends together stays together.
        (own(FOLLOWER, '"1MiB/s"', END), END, (50, 50, NOTHING), (1, 1, NOTHING)),
        # Schedules that hold already: of another role, and by the clock.
        (own(FOLLOWER, '"1MiB/s"', SOON) + schedule("brokers.101", LEADER, '"2MiB/s"', ending(SOON)), None,
         (2, 50, 50), (1, NOTHING, NOTHING)),
        (own(FOLLOWER, '"80MiB/s"') + schedule("brokers.default", FOLLOWER, '"3MiB/s"', 'days = ["mon-sun"]'), END,
         (50, 50, NOTHING), (80, 80, 80)),
    ],
)  # fmt: skip
def test_what_the_plan_does_not_write_keeps_its_end(
    file: str, until: datetime | None, leader: tuple[float, ...], follower: tuple[float, ...]
) -> None:
    text = settle(file, until)
    times = (NOW, SOON, LATER - timedelta(hours=1))
    assert tuple(mib(text, Role.LEADER, at) for at in times) == leader
    assert tuple(mib(text, Role.FOLLOWER, at) for at in times) == follower


def test_what_ends_later_than_the_plan_holds_again_until_then() -> None:
    """It ended with the plan, and from then on nothing was throttled."""
    file = settle(own(LEADER, '"5MiB/s"', LATER), SOON)
    quotas = parse_quotas(file.encode())
    rates = [effective(quotas, 101, at).leader.bytes_per_second for at in (NOW, SOON + HOUR, LATER + HOUR)]
    assert rates == [50 * MIB, 5 * MIB, NOTHING]


def test_a_list_that_stands_for_good_holds_again_afterwards() -> None:
    text = settle(own(LEADER_LIST, '"5:101"', section="topics.orders"), END)
    listed = [effective(parse_quotas(text.encode()), 101, at).leader.listed() for at in (NOW, LATER)]
    assert listed == [{"orders": "0"}, {"orders": "5"}]


def test_all_that_ends_together_is_one_schedule_and_is_said() -> None:
    file = own(FOLLOWER, '"80MiB/s"') + own(LEADER, "7", section="brokers.103")
    text, lines = settled(file.encode(), MOVE, NOW, until=END, source="q.toml")
    assert text.decode().startswith(file)
    assert text.decode().count("[[schedules]]") == 1
    assert lines == [
        f'q.toml: topics.orders.{LEADER_LIST}: "0:101"',
        f'q.toml: topics.orders.{FOLLOWER_LIST}: "0:103"',
        "q.toml: topics.orders.until: 2026-11-21T18:00:00+00:00",
        "q.toml: schedules[0].until: 2026-11-21T18:00:00+00:00",
        f'q.toml: schedules[0].brokers.101.{LEADER}: "50MiB/s"',
        f'q.toml: schedules[0].brokers.103.{FOLLOWER}: "50MiB/s"',
    ]


def test_the_next_plan_takes_the_place_of_the_last_one() -> None:
    """A script that plans every minute leaves one schedule, not sixty-four, which would be the most."""
    standing = own(FOLLOWER, '"80MiB/s"')
    text = standing
    for minutes in range(70):
        text = settle(text, END + timedelta(minutes=minutes), now=NOW + timedelta(minutes=minutes))
    assert text.count("[[schedules]]") == 1
    assert mib(text, Role.LEADER, END + timedelta(minutes=68)) == 50
    # What holds longer than the plan is somebody else's, and a schedule by the clock is too.
    for other in (schedule("brokers.101", LEADER, "7", ending(LATER)),
                  schedule("brokers.101", LEADER, "7", 'days = ["mon-sun"]'),
                  schedule("brokers.102", LEADER, "7", ending(SOON))):  # fmt: skip
        assert other in settle(standing + other, END)
    gone = schedule("brokers.101", LEADER, "7", ending(SOON))
    beside = gone + f'{FOLLOWER} = "7MiB/s"\n'
    assert gone not in settle(standing + gone, END)
    assert mib(settle(standing + beside, END), Role.FOLLOWER, NOW) == 7


def test_an_end_that_cannot_be_kept_apart_is_refused_with_what_to_do() -> None:
    """In a schedule of its own it would go before the schedule by the clock."""
    file = own(FOLLOWER, '"1MiB/s"', SOON) + schedule("brokers.101", FOLLOWER, '"2MiB/s"', 'days = ["mon-sun"]')
    with pytest.raises(ConfigurationError, match=r"q.toml: brokers.101: holds until 2026-11-21T14:00:00\+00:00, .*"
                       r"schedules\[0\].brokers.101 says it, too: give the plan an end \(--for\)"):  # fmt: skip
        settle(file, None)
    text = settle(file, END)
    assert mib(text, Role.FOLLOWER, NOW) == 2


@pytest.mark.parametrize("until", [None, END])
def test_an_end_that_is_none_is_told_where_it_stands(until: datetime | None) -> None:
    file = own(FOLLOWER, '1\nuntil = "tomorrow"')
    with pytest.raises(ConfigurationError, match=r"q.toml: brokers.101.until: expected a date and time"):
        settle(file, until)


@pytest.mark.parametrize("blank", [b"", b" \n\r\n"])
def test_a_file_that_is_half_written_is_not_taken_for_one_without_quotas(blank: bytes) -> None:
    with pytest.raises(ConfigurationError, match=r"^q.toml: expected TOML, found nothing \(a comment is enough"):
        settled(blank, MOVE, NOW, until=None, source="q.toml")


def test_what_no_sidecar_would_read_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole_file, "MOST_BYTES", 4096)  # of 4 MiB the editor takes seconds
    with pytest.raises(ConfigurationError, match=r"^q.toml: expected at most 4096 bytes, found"):
        settled(b"#" * 4096, MOVE, NOW, until=None, source="q.toml")


_VALUES = st.fixed_dictionaries({}, optional={key: st.integers(1, 9) for key in (LEADER, FOLLOWER)})
_ENDS = st.sampled_from([None, NOW, SOON, END, LATER])
_FILES = st.fixed_dictionaries(
    {section: st.tuples(_VALUES, _ENDS) for section in ("brokers.101", "brokers.103", "brokers.default")}
)


@given(_FILES, st.sampled_from([None, SOON, END]))
def test_whatever_stands_there_only_the_plans_own_is_different(
    file: dict[str, tuple[dict[str, int], datetime | None]], until: datetime | None
) -> None:
    """And verify finds all of it: then the broker throttles nothing."""
    text = "# ours\n"
    for section, (values, ends) in file.items():
        lines = [f"{key} = {value}" for key, value in values.items()] + ([ending(ends)] if ends and values else [])
        text += "\n".join([f"[{section}]", *lines, ""])
    after = settle(text, until)
    for at in (NOW, SOON, END, LATER):
        for broker, role in ((101, Role.LEADER), (101, Role.FOLLOWER), (103, Role.LEADER), (103, Role.FOLLOWER)):
            if (broker, role.value) not in RATES:
                assert mib(after, role, at, broker) == mib(text, role, at, broker)
            elif until is None or at < until:
                assert mib(after, role, at, broker) == 50
    clean = leftovers_in_file(after, PROPOSED | CUR, NOW, source="q.toml").text
    assert governing(parse_quotas(clean.encode()), 103, NOW, Role.FOLLOWER, rate=False, of=("topics", "orders")) is None
