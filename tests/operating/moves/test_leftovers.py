from __future__ import annotations

import tomllib
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operating.moves.leftovers import leftovers_in_file
from proxy.errors import ConfigurationError
from proxy.quotas import effective, parse_quotas
from proxy.roles import Role
from reassignment import TopicPartition, move_map, moving, quotas_toml, throttle

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)
PROPOSED = {A: (101, 104), B: (102, 104)}
LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LEADER_LIST = "leader.replication.throttled.replicas"
FOLLOWER_LIST = "follower.replication.throttled.replicas"
OURS = f"""\
# Always: nobody sends faster than this.
[brokers.default]
{LEADER_RATE} = "500MiB/s"
[topics."*"]
{LEADER_LIST} = "*"
"""
MOVE = f"""\
[brokers.101]
{LEADER_RATE} = 5 # for Tuesday
[brokers.104]
{FOLLOWER_RATE} = 7
until = 2026-12-01T00:00:00Z
[topics.orders]
{FOLLOWER_LIST} = "0:104,1:104"
"""


def found(text: str) -> list[str]:
    return [str(left.place) for left in leftovers_in_file(text, PROPOSED, NOW, source="q.toml").leftovers]


def test_what_plan_wrote_is_found_and_removed() -> None:
    findings = leftovers_in_file(MOVE, PROPOSED, NOW, source="q.toml")
    assert [(str(left.place), left.becomes) for left in findings.leftovers] == [
        (f"topics.orders.{FOLLOWER_LIST}", None),
        (f"brokers.101.{LEADER_RATE}", None),
        (f"brokers.104.{FOLLOWER_RATE}", None),
        ("brokers.104.until", None),
    ]
    assert tomllib.loads(findings.text) == {}
    assert findings.notes == ()


def test_what_stands_for_other_reasons_stays_and_is_noted() -> None:
    """`*` selects 101 as leader: its rate is still of use."""
    findings = leftovers_in_file(OURS + MOVE, PROPOSED, NOW, source="q.toml")
    assert f"brokers.101.{LEADER_RATE}" not in {str(left.place) for left in findings.leftovers}
    assert findings.text.startswith(OURS)
    assert findings.notes[0].startswith("q.toml: broker 101 throttles 2 of these partitions as leader by a list that")


def test_entries_of_other_partitions_stay() -> None:
    text = f'[brokers.104]\n{FOLLOWER_RATE} = 7\n[topics.orders]\n{FOLLOWER_LIST} = "0:104, 5:104,7:103" # two moves\n'
    (left,) = leftovers_in_file(text, PROPOSED, NOW, source="q.toml").leftovers
    assert (str(left.place), left.becomes) == (f"topics.orders.{FOLLOWER_LIST}", "5:104,7:103")
    assert str(left).endswith('(others stay: "5:104,7:103")')
    # 104 still throttles 5, so its rate stays.
    clean = leftovers_in_file(text, PROPOSED, NOW, source="q.toml").text
    assert clean == text.replace('"0:104, 5:104,7:103"', '"5:104,7:103"')


@pytest.mark.parametrize(
    "text",
    [
        OURS,
        "# nothing\n",
        f'[topics.clicks]\n{LEADER_LIST} = "0:101"\n',
        f'[topics.orders]\n{LEADER_LIST} = "*"\n',
        f'[topics."ord*"]\n{LEADER_LIST} = "0:101"\n',
        # A broker that has nothing to do with the move.
        f"[brokers.109]\n{LEADER_RATE} = 5\n",
    ],
)
def test_what_is_no_moves_is_not_touched(text: str) -> None:
    findings = leftovers_in_file(text, PROPOSED, NOW, source="q.toml")
    assert (findings.leftovers, findings.text) == ((), text)


@pytest.mark.parametrize(
    "rate",
    [
        f'{LEADER_RATE} = "5MiB/s"',
        f"{FOLLOWER_RATE} = 0",
        f'{LEADER_RATE} = "5MiB/s"\nuntil = 2026-12-01T00:00:00Z',
    ],
)
@pytest.mark.parametrize("topic", ["orders", '"ord*"', '"*"'])
def test_a_rate_of_a_topic_is_no_list_and_stays(topic: str, rate: str) -> None:
    own = f"[topics.{topic}]\n{rate}\n"
    assert leftovers_in_file(own, PROPOSED, NOW, source="q.toml") == ((), own, ())
    in_a_schedule = schedule(f"topics.{topic}", LEADER_RATE, 5, AT_NIGHT)
    assert found(MOVE + in_a_schedule) == found(MOVE)
    beside_a_list = MOVE + f"{LEADER_RATE} = 5\n"
    assert found(beside_a_list) == found(MOVE)
    assert (
        f"[topics.orders]\n{LEADER_RATE} = 5\n" in leftovers_in_file(beside_a_list, PROPOSED, NOW, source="q.toml").text
    )


def test_a_rate_that_was_forgotten_alone_is_found() -> None:
    """Somebody took out the lists by hand."""
    assert found(f"[brokers.104]\n{FOLLOWER_RATE} = 7\n") == [f"brokers.104.{FOLLOWER_RATE}"]


def test_a_broker_that_was_only_a_source_is_known_by_the_list() -> None:
    """103 gave its replica away: the reassignment no longer names it."""
    text = f'[brokers.103]\n{LEADER_RATE} = 5\n[topics.orders]\n{LEADER_LIST} = "0:103,0:101"\n'
    assert found(text) == [f"topics.orders.{LEADER_LIST}", f"brokers.103.{LEADER_RATE}"]


def schedule(section: str, key: str, value: object, when: str = "until = 2026-11-22T12:00:00Z") -> str:
    return f"\n[[schedules]]\n{when}\n[schedules.{section}]\n{key} = {value}\n"


AT_NIGHT = 'from = "22:00"\nto = "06:00"'
OVER = "until = 2026-11-20T12:00:00Z"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        # `set --for` while it moved.
        (MOVE + schedule("brokers.101", LEADER_RATE, 9), [f"schedules[0].brokers.101.{LEADER_RATE}"]),
        (MOVE + schedule("brokers.101", LEADER_RATE, 9, OVER), ["schedules[0].until"]),
        (MOVE + schedule("brokers.default", LEADER_RATE, 9), [f"schedules[0].brokers.default.{LEADER_RATE}"]),
        (MOVE + schedule("topics.orders", LEADER_LIST, '"0:101,7:101"'),
         [f"schedules[0].topics.orders.{LEADER_LIST}"]),
        (MOVE + schedule("topics.orders", FOLLOWER_LIST, '"0:104"', AT_NIGHT),
         [f"schedules[0].topics.orders.{FOLLOWER_LIST}"]),
        (MOVE + schedule("brokers.101", LEADER_RATE, 9) + schedule("brokers.104", FOLLOWER_RATE, 9),
         [f"schedules[0].brokers.101.{LEADER_RATE}", f"schedules[1].brokers.104.{FOLLOWER_RATE}"]),
        # Not the move's: of another broker, of a time of day, for something else.
        (MOVE + schedule("brokers.109", LEADER_RATE, 9), []),
        (MOVE + schedule("brokers.109", LEADER_RATE, 9, OVER), []),
        (MOVE + schedule("brokers.101", LEADER_RATE, 9, AT_NIGHT), []),
        (MOVE + schedule("topics.clicks", LEADER_LIST, '"0:101"') + schedule("brokers.101", LEADER_RATE, 9), []),
        # The default's, by which a broker is throttled that only stands in a list.
        *((f"[brokers.default]\n{LEADER_RATE} = 50\n[topics.{topic}]\n{LEADER_LIST} = '0:107'\n" + MOVE
           + schedule("brokers.default", LEADER_RATE, 5), [])
          for topic in ("payments", '"pay*"')),
        (MOVE + schedule("brokers.default", LEADER_RATE, 9)
         + schedule("topics.payments", LEADER_LIST, '"0:107"', AT_NIGHT), []),
        # That broker does so as a leader, and not as a follower.
        (MOVE + f"[topics.payments]\n{LEADER_LIST} = '0:107'\n" + schedule("brokers.default", FOLLOWER_RATE, 9),
         [f"schedules[0].brokers.default.{FOLLOWER_RATE}"]),
        # What `set mode.enforce false --for` made ends by itself, and throttles nobody.
        (MOVE + schedule("mode", "enforce", "false"), []),
    ],
)  # fmt: skip
def test_what_was_set_for_a_time_is_left_behind_as_well(text: str, left: list[str]) -> None:
    places = found(text)
    assert [place for place in places if place.startswith("schedules")] == left
    clean = leftovers_in_file(text, PROPOSED, NOW, source="q.toml").text
    assert found(clean) == []
    assert ("schedules" in tomllib.loads(clean)) is (not left or "7:101" in text)


def test_the_next_plan_is_not_held_by_the_last_moves_rate() -> None:
    clean = leftovers_in_file(MOVE + schedule("brokers.101", LEADER_RATE, 9), PROPOSED, NOW, source="q.toml").text
    quotas = effective(parse_quotas(f"{clean}\n[brokers.101]\n{LEADER_RATE} = 50\n".encode()), 101, NOW)
    assert quotas.leader.bytes_per_second == 50


def test_a_rate_that_throttles_something_else_stays_and_is_noted() -> None:
    """Later catch-up of clicks on 101 would keep to the rate of a move that is over, and nothing said so."""
    findings = leftovers_in_file(MOVE + f'[topics.clicks]\n{LEADER_LIST} = "*"\n', PROPOSED, NOW, source="q")
    assert f"brokers.101.{LEADER_RATE}" not in {str(left.place) for left in findings.leftovers}
    (note,) = findings.notes
    assert note.startswith(
        f"q: brokers.101.{LEADER_RATE} = 5: stays, since lists that are not the move's are throttled by it"
    )
    assert note.endswith(f": set {LEADER_RATE} --broker 101 --remove")


def test_a_rate_by_the_clock_that_throttles_nothing_now_stays_and_is_noted() -> None:
    notes = leftovers_in_file(MOVE + schedule("brokers.101", LEADER_RATE, 9, AT_NIGHT), PROPOSED, NOW, source="q").notes
    assert notes == (
        (
            f"q: schedules[0].brokers.101.{LEADER_RATE} = 9: holds at its times, and goes before what is planned next:"
            " it stays"
        ),
    )


def test_a_file_that_is_not_good_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match=r"q.toml: brokers.x: expected a broker id"):
        leftovers_in_file("[brokers.x]\n", PROPOSED, NOW, source="q.toml")


_REPLICAS = st.lists(st.integers(101, 106), min_size=1, max_size=3, unique=True).map(tuple)
_ASSIGNMENT = st.fixed_dictionaries({TopicPartition(topic, n): _REPLICAS for topic in ("a", "b.c") for n in (0, 1)})


@given(_ASSIGNMENT, _ASSIGNMENT)
def test_of_what_plan_writes_nothing_is_left(
    proposed: dict[TopicPartition, tuple[int, ...]], current: dict[TopicPartition, tuple[int, ...]]
) -> None:
    moves = move_map(proposed, current, {})
    rates = {(b, role): 5 for move in moving(moves).values() for b in (*move.sources, *move.destinations)
             for role in ("leader", "follower")}  # fmt: skip
    text = OURS + quotas_toml(throttle(moves, rates), comment="A move.")
    clean = leftovers_in_file(text, proposed, NOW, source="q.toml").text
    before, after = parse_quotas(OURS.encode()), parse_quotas(clean.encode())
    for broker in range(101, 107):
        assert effective(after, broker, NOW).of(Role.FOLLOWER) == effective(before, broker, NOW).of(Role.FOLLOWER)
        assert not any(effective(after, broker, NOW).of(Role.LEADER).topics.values())
