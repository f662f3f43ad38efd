"""When the way changes: after so long without an answer, and back when the sidecar says that it is ready."""

from __future__ import annotations

import pytest

from operating.guard.decision import READY_ANYWAY_SECONDS, Answer, Guard, Way

NONE, ALIVE, READY = Answer.NONE, Answer.ALIVE, Answer.READY
LOST = [(1.0, NONE), (2.0, NONE), (3.0, NONE)]


@pytest.mark.parametrize(
    ("answers", "ways"),
    [
        ([(1, READY), (1.2, NONE), (2, NONE), (4.5, NONE)], "around"),
        ([(1, READY), (1.2, NONE), (2, NONE), (3.9, NONE)], "through"),
        ([(1, READY), (60, NONE), (60.2, NONE), (60.4, READY)], "through"),  # its machine stood still
        ([(2.9, NONE), (2.95, ALIVE), (5.9, NONE)], "through"),  # one answer is enough to stay
        ([(0.5, NONE), (2.9, NONE)], "through"),  # it may be starting as the guard is
        ([*LOST, (4, READY)], "around through"),
        ([*LOST, (4, ALIVE), (5, ALIVE)], "around"),  # it answers, and does not listen yet
        ([*LOST, (4, ALIVE), (4 + READY_ANYWAY_SECONDS, ALIVE)], "around through"),  # not ready for good, it relays
        ([*LOST, (4, ALIVE), (8, NONE), (9, ALIVE), (15, ALIVE)], "around"),
        ([*LOST, (4, READY), (6, NONE), (6.9, NONE), (7, NONE)], "around through around"),
    ],
)
def test_the_way(answers: list[tuple[float, Answer]], ways: str) -> None:
    guard, changes = Guard(3.0, now=0.0), []
    for now, answer in answers:
        if guard.take(answer, now):
            changes.append(guard.way.value)
    assert (changes or ["through"]) == ways.split()
    assert guard.changes == (0 if ways == "through" else len(changes))
    assert guard.way is Way(ways.split()[-1])
