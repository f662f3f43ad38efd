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
    assert len(rate._windows) <= MOST_CAUSES + 1
    assert rate.admit("another", {}, WINDOW_SECONDS) == 0
    assert len(rate._windows) <= 3
