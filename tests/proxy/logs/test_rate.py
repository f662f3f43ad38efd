from __future__ import annotations

from proxy.logs.rate import MOST_CAUSES, MOST_LINES, WINDOW_SECONDS, LogRate


def test_of_one_cause_so_many_lines_pass_and_the_next_one_says_how_many_did_not() -> None:
    rate = LogRate()
    closed = {"cause": "malformed_frame", "role": "leader"}
    admitted = [rate.admit("connection_closed", {**closed, "peer": peer}, 0.0) for peer in range(MOST_LINES + 7)]
    assert admitted == [0] * MOST_LINES + [None] * 7
    assert rate.admit("connection_closed", {**closed, "role": "follower"}, 0.0) == 0
    assert rate.admit("connection_closed", closed, WINDOW_SECONDS - 0.1) is None
    assert rate.admit("connection_closed", closed, WINDOW_SECONDS) == 8
    assert rate.admit("connection_closed", closed, WINDOW_SECONDS) == 0


def test_made_up_causes_are_one_cause_beyond_a_bound() -> None:
    rate = LogRate(most_lines=1)
    for number in range(MOST_CAUSES):
        assert rate.admit("made_up", {"cause": number}, 0.0) == 0
    assert [rate.admit("made_up", {"cause": -number}, 0.0) for number in range(1, 4)] == [0, None, None]
    assert remembered(rate) <= MOST_CAUSES + 1
    assert rate.admit("made_up", {"cause": -4}, WINDOW_SECONDS) == 2
    assert remembered(rate) <= 3


def test_made_up_causes_of_one_event_silence_no_other_event() -> None:
    """They shared a window with every cause that was new, so that whoever made some up kept a real one out."""
    rate = LogRate(most_lines=1)
    for number in range(3 * MOST_CAUSES):
        rate.admit("made_up", {"cause": number}, 0.0)
    assert rate.admit("real", {"cause": "disk"}, 1.0) == 0
    assert rate.admit("real", {"cause": "network"}, 1.0) == 0


def test_causes_that_never_come_again_are_forgotten_and_what_was_suppressed_of_them_is_said() -> None:
    """A cause with a suppressed line was remembered for ever: after enough of them all new ones shared a window."""
    rate = LogRate(most_lines=1)
    for number in range(MOST_CAUSES):
        rate.admit("made_up", {"cause": number}, 0.0)
        assert rate.admit("made_up", {"cause": number}, 0.0) is None
    assert rate.admit("made_up", {"cause": "real"}, WINDOW_SECONDS) == MOST_CAUSES
    assert rate.admit("made_up", {"cause": "another"}, WINDOW_SECONDS) == 0
    assert remembered(rate) == 2


def remembered(rate: LogRate) -> int:
    return sum(len(event.windows) for event in rate._events.values())
