"""When the way changes: after so long without an answer, and back when the sidecar says that it is ready.

In virtual time: a sidecar that answers, is dead or stands still, the questions that are put to it, and a guard that
waits for the answers as `guarding` does.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, NamedTuple

import pytest

from operating.guard.decision import LOOK_SECONDS, READY_ANYWAY_SECONDS, Answer, Guard, Way

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NONE, ALIVE, READY = Answer.NONE, Answer.ALIVE, Answer.READY
TIMEOUT_SECONDS = 1.0
BEFORE = 5.0
"""Everything is well until then, in the cases below."""
SLACK = 1e-6


class Change(NamedTuple):
    at: float
    way: Way


class Says(NamedTuple):
    """What a sidecar answers to a question, and after how many seconds."""

    answer: Answer
    seconds: float


WELL, STARTING, REFUSED, HANGS = Says(READY, 0.01), Says(ALIVE, 0.01), Says(NONE, 0.001), Says(NONE, TIMEOUT_SECONDS)


def answers(says: Callable[[float], Says]) -> Iterator[tuple[Answer, float]]:
    """As `Questions` has them: with when they came."""
    asked = 0.0
    while True:
        answer, seconds = says(asked)
        yield answer, asked + seconds
        asked += max(LOOK_SECONDS, seconds)


def watched(
    says: Callable[[float], Says],
    *,
    after: float,
    lead: float = 0.0,
    until: float = 60.0,
    stands_still: float = math.inf,
) -> list[Change]:
    """The changes of a guard, whose machine may stand still for a minute."""
    guard, found, now = Guard(after, 0.0, lead_seconds=lead), [], 0.0
    coming = answers(says)
    answer, comes = next(coming)
    while now < until:
        waits_until = now + guard.patience_seconds(now)
        if comes <= waits_until:
            now, taken = max(now, comes), answer
            answer, comes = next(coming)
        else:
            now, taken = waits_until, None
        if now >= stands_still:
            now, stands_still = now + 60.0, math.inf
        if guard.process_answer(taken, now):
            found.append(Change(now, guard.way))
    return found


@pytest.mark.parametrize("dead", [REFUSED, HANGS, Says(NONE, 0.7)], ids=["killed", "stands still", "says half"])
@pytest.mark.parametrize(("after", "lead"), [(0.5, 0.0), (1.0, 0.2), (2.5, 0.1), (3.0, 0.0), (3.0, 0.3), (30.0, 9.0)])
def test_the_way_around_is_in_force_no_later_than_after_the_time_that_was_asked_for(
    dead: Says, after: float, lead: float
) -> None:
    """At whatever moment between two questions it dies."""
    for phase in range(20):
        dies = BEFORE + phase * LOOK_SECONDS / 20
        (change,) = watched(lambda asked, dies=dies: dead if asked >= dies else WELL, after=after, lead=lead)
        last = max(at for answer, at in itertools.islice(answers(lambda _: WELL), 200) if at <= dies + WELL.seconds)
        assert change.way is Way.AROUND
        assert change.at + lead == pytest.approx(last + after, abs=SLACK)


def test_a_slow_packet_filter_leaves_the_sidecar_half_of_the_time() -> None:
    (change,) = watched(lambda asked: WELL if asked < BEFORE else REFUSED, after=2.0, lead=30.0)
    assert BEFORE + 1.0 - LOOK_SECONDS <= change.at <= BEFORE + 1.0


@pytest.mark.parametrize("slow", [0.3, 0.9, 2.9])
def test_a_sidecar_that_answers_late_is_not_led_around(slow: float) -> None:
    assert watched(lambda _: Says(ALIVE, slow), after=3.0) == []


def test_one_answer_is_enough_to_stay() -> None:
    assert watched(lambda asked: Says(ALIVE, 0.1) if asked % 2.8 < LOOK_SECONDS else REFUSED, after=3.0) == []


@pytest.mark.parametrize("stands_still", [BEFORE + LOOK_SECONDS * part / 4 for part in range(8)])
def test_a_guard_whose_machine_stood_still_listens_anew(stands_still: float) -> None:
    assert watched(lambda _: WELL, after=3.0, until=90.0, stands_still=stands_still) == []
    (change,) = watched(
        lambda asked: WELL if asked < BEFORE else REFUSED, after=3.0, until=90.0, stands_still=stands_still
    )
    assert change.at >= BEFORE - LOOK_SECONDS + 60.0 + 3.0 - 2 * LOOK_SECONDS


@pytest.mark.parametrize(
    ("then", "back_after"),
    [
        ([WELL], 0.0),
        ([STARTING] * 4, READY_ANYWAY_SECONDS),  # not ready for good, it relays
        ([STARTING, WELL], 4.0),  # it answers, and does not listen yet
        ([STARTING, REFUSED, STARTING], 8.0 + READY_ANYWAY_SECONDS),
    ],
    ids=["ready", "alive alone", "ready later", "dies again in between"],
)
def test_back_through_the_sidecar(then: list[Says], back_after: float) -> None:
    """`then`: what it says when it is back, each for four seconds, the last for good."""
    back = BEFORE + 7.0

    def says(asked: float) -> Says:
        if asked < back:
            return WELL if asked < BEFORE else REFUSED
        return then[min(int((asked - back) / 4), len(then) - 1)]

    around, through = watched(says, after=3.0)
    assert (around.way, through.way) == (Way.AROUND, Way.THROUGH)
    assert back + back_after <= through.at <= back + back_after + 3 * LOOK_SECONDS


def test_every_death_counts() -> None:
    changes = watched(lambda asked: WELL if asked % 10 < BEFORE else REFUSED, after=3.0)
    assert [change.way for change in changes] == [Way.AROUND, Way.THROUGH] * 5 + [Way.AROUND]
