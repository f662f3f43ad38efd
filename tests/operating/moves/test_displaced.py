from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from operating.moves.displaced import displaced, dropped
from operating.moves.settling import settled
from proxy.quotas import parse_quotas
from reassignment import Throttle, TopicPartition

if TYPE_CHECKING:
    from reassignment import RoleName

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
LEADER_LIST, FOLLOWER_LIST = (f"{role}.replication.throttled.replicas" for role in ("leader", "follower"))
RATES: dict[tuple[int, RoleName], int] = {(101, "leader"): 5, (103, "follower"): 5}
BECAUSE = (
    ": the exact list of the move goes before it on every broker, and throttles only what it names, for as long as it "
    "stands"
)


def warnings(text: str, *topics: str, until: datetime | None = None) -> list[str]:
    lists: dict[RoleName, Any] = {
        "leader": dict.fromkeys(topics, ((0, 101),)),
        "follower": dict.fromkeys(topics, ((0, 103),)),
    }
    after, _ = settled(text.encode(), Throttle(RATES, lists), NOW, until=until, source="q.toml")
    return list(displaced(parse_quotas(text.encode()), parse_quotas(after), lists, [101, 103], NOW))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f'[topics."*"]\n{FOLLOWER_LIST} = "*"\n', ['topics."*" no longer throttles orders as follower']),
        (f'[topics."*"]\n{FOLLOWER_LIST} = "*"\n{LEADER_LIST} = "*"\n',
         ['topics."*" no longer throttles orders as leader', 'topics."*" no longer throttles orders as follower']),
        (f'[topics."*"]\n{FOLLOWER_LIST} = "*"\n[topics."ord*"]\n{FOLLOWER_LIST} = "*"\n',
         ['topics."ord*" no longer throttles orders as follower']),
        (f'[brokers.default]\n{FOLLOWER_LIST} = "*"\n', ["brokers.default no longer throttles orders as follower"]),
        # Of a broker that takes no part in the move.
        (f'[brokers.105]\n{FOLLOWER_LIST} = "*"\n', ["brokers.105 no longer throttles orders as follower"]),
        (f'[[schedules]]\ndays = ["mon-sun"]\n[schedules.topics."*"]\n{FOLLOWER_LIST} = "*"\n',
         ['topics."*" no longer throttles orders as follower']),
        # What the last move left, an exemption, another topic, and what is over.
        (f'[topics.orders]\n{FOLLOWER_LIST} = "0:103,1:103"\n', []),
        (f'[topics."*"]\n{FOLLOWER_LIST} = "*"\n[topics.orders]\n{FOLLOWER_LIST} = ""\n', []),
        (f'[topics."clicks-*"]\n{FOLLOWER_LIST} = "*"\n', []),
        (f'[topics."*"]\n{FOLLOWER_LIST} = "*"\nuntil = 2026-01-01T00:00:00Z\n', []),
        ("# none\n", []),
    ],
)  # fmt: skip
def test_a_standing_list_that_throttles_less_is_told(text: str, told: list[str]) -> None:
    assert warnings(text, "orders") == [each + BECAUSE for each in told]


def test_many_topics_are_one_warning() -> None:
    text = f'[topics."*"]\n{FOLLOWER_LIST} = "*"\n'
    for count, named in (
        (2, "a-0, a-1"),
        (4, "a-0, a-1, a-2 and 1 more topic"),
        (9, "a-0, a-1, a-2 and 6 more topics"),
    ):
        topics = [f"a-{number}" for number in range(count)]
        assert warnings(text, *topics) == [f'topics."*" no longer throttles {named} as follower{BECAUSE}']


@pytest.mark.parametrize(("until", "end"), [
    (None, "is written in its place, and when verify removes that, it does not come back (with --for it would)"),
    (datetime(2026, 11, 21, 18, tzinfo=UTC),
     "goes before it on every broker, and throttles only what it names, for as long as it stands"),
])  # fmt: skip
def test_a_list_of_the_topics_own_comes_back_only_if_it_was_not_written_over(until: datetime | None, end: str) -> None:
    text = f'[topics.orders]\n{FOLLOWER_LIST} = "*"\n'
    (told,) = warnings(text, "orders", until=until)
    assert told.startswith("the list that topics.orders had before no longer throttles orders as follower: ")
    assert told.endswith(end)


def other_move(listed: str, *, until: str = "") -> str:
    return f'[topics.orders]\n{LEADER_LIST} = "{listed}"\n{until}'


GONE = ", and does so no longer: if another move has them, it is not throttled; plan both together, in one reassignment"


@pytest.mark.parametrize(("text", "told"), [
    # Of a broker that takes no part in this move, and that has no section.
    (other_move("5:107,4:101"), ["4:101, 5:107"]),
    (other_move(",".join(f"{number}:101" for number in range(1, 9))), ["1:101, 2:101, 3:101 and 5 more replicas"]),
    (f'[[schedules]]\ndays = ["mon-sun"]\n[schedules.topics.orders]\n{LEADER_LIST} = "5:101"\n', []),
    # The same list again, and one that is about what moves: of that the newest word counts.
    (other_move("0:101"), []),
    (other_move("0:101,0:102"), []),
    (other_move("5:101", until="until = 2026-01-01T00:00:00Z\n"), []),
    (other_move("*"), []),
    ("# none\n", []),
])  # fmt: skip
def test_replicas_of_another_move_of_the_topic_are_told(text: str, told: list[str]) -> None:
    """Without a word, a move that runs was not throttled any more."""
    lists: dict[RoleName, Any] = {"leader": {"orders": ((0, 101),)}, "follower": {"orders": ((0, 103),)}}
    after, _ = settled(text.encode(), Throttle(RATES, lists), NOW, until=None, source="q.toml")
    moved = {TopicPartition("orders", 0)}
    found = list(dropped(parse_quotas(text.encode()), parse_quotas(after), lists, moved, [101, 103], NOW))
    assert found == [f"topics.orders throttled {each} as leader{GONE}" for each in told]
