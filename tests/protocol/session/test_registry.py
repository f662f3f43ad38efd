"""How many sessions there may be, and how long."""

from __future__ import annotations

from protocol.session.registry import FetchSessions
from tests.protocol.session.conversations import Conversation, Entry

NOT_FOUND = 70


def opens(sessions: FetchSessions[Entry], session_id: int, *, partitions: int = 1, now: float = 0.0) -> Conversation:
    follower = Conversation(sessions)
    follower.now = now
    follower.opens("(0, 0) " + " ".join(f"P{i}@0" for i in range(partitions)), session_id)
    return follower


def test_the_one_used_longest_ago_makes_room() -> None:
    sessions = FetchSessions[Entry](most_sessions=2)
    one, two = opens(sessions, 1), opens(sessions, 2)
    one.goes_on("(1, 1)")
    three = opens(sessions, 3)
    assert two.says("(2, 1)") == NOT_FOUND
    assert one.says("(1, 2)") == "(1, 2)"
    assert three.says("(3, 1)") == "(3, 1)"


def test_partitions_are_bounded_over_all_sessions() -> None:
    sessions = FetchSessions[Entry](most_partitions=10)
    one, two = opens(sessions, 1, partitions=5), opens(sessions, 2, partitions=5)
    assert (len(sessions), sessions.partitions) == (2, 10)
    assert two.goes_on("(2, 1) Q@0") == "(2, 1) Q@0"
    assert one.says("(1, 1)") == NOT_FOUND
    assert (len(sessions), sessions.partitions) == (1, 6)


def test_a_single_session_may_be_larger_than_all_together() -> None:
    sessions = FetchSessions[Entry](most_partitions=10)
    assert opens(sessions, 1, partitions=50).goes_on("(1, 1) P1@9") == "(1, 1) P1@9"


def test_one_that_makes_room_with_a_request_under_way_is_refused_next_time() -> None:
    sessions = FetchSessions[Entry](most_sessions=1)
    one = opens(sessions, 1)
    assert one.says("(1, 1)") == "(1, 1)"
    opens(sessions, 2)
    assert one.hears(1, answered="P0") == [True]
    assert one.says("(1, 2)") == NOT_FOUND


def test_an_idle_one_ends() -> None:
    sessions = FetchSessions[Entry](idle_seconds=600)
    one = opens(sessions, 1)
    two = opens(sessions, 2, now=300)
    two.now = 600.5
    assert two.says("(2, 1)") == "(2, 1)"
    assert len(sessions) == 1
    one.now = 600.6
    assert one.says("(1, 1)") == NOT_FOUND


def test_what_is_to_be_closed_is_bounded_too() -> None:
    """Anybody may name sessions that never were."""
    follower = Conversation(FetchSessions[Entry](most_sessions=2))
    for session_id in (1, 2, 3):
        assert follower.says(f"({session_id}, 9)") == NOT_FOUND
    assert [follower.says("(0, 0) A@0") for _ in range(3)] == ["(2, 0) A@0", "(3, 0) A@0", "(0, 0) A@0"]


def test_partitions_are_counted_as_they_come_and_go() -> None:
    sessions = FetchSessions[Entry]()
    one = opens(sessions, 1, partitions=3)
    one.goes_on("(1, 1) Q@0 R@0 -P0")
    assert sessions.partitions == 4
    one.says("(1, 0) A@0")
    assert sessions.partitions == 0
