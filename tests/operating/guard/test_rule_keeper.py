"""A change that iptables refuses: how soon it is tried again, and how many lines that costs."""

from __future__ import annotations

from itertools import pairwise

from operating.guard.decision import LOOK_SECONDS
from operating.guard.rule_keeper import MAX_PAUSE_SECONDS, TELL_SECONDS, Refusals
from operating.guard.rules import Rules

DAY_SECONDS = 24 * 3600.0


def test_a_refused_change_is_tried_again_ever_more_seldom_down_to_every_five_seconds() -> None:
    tried, _ = _refused_for(60.0)
    pauses = [round(after - before, 3) for before, after in pairwise(tried)]
    assert pauses[:6] == [0.2, 0.4, 0.8, 1.6, 3.2, MAX_PAUSE_SECONDS]
    assert all(MAX_PAUSE_SECONDS <= pause <= MAX_PAUSE_SECONDS + LOOK_SECONDS for pause in pauses[6:])


def test_a_refusal_is_told_when_it_begins_and_once_a_minute() -> None:
    _, told = _refused_for(DAY_SECONDS)
    assert told[0] == 0.0
    pauses = [after - before for before, after in pairwise(told)]
    assert min(pauses) >= TELL_SECONDS
    assert max(pauses) <= TELL_SECONDS + MAX_PAUSE_SECONDS


def test_another_change_is_tried_at_once_and_is_the_same_refusal() -> None:
    refusals = Refusals()
    for now in (0.0, 0.25, 0.75, 1.75):
        assert refusals.may_try(Rules.AROUND, now)
        refusals.refused(Rules.AROUND, now)
    assert not refusals.may_try(Rules.AROUND, 2.0)
    assert refusals.may_try(Rules.BACK, 2.0)
    assert not refusals.refused(Rules.BACK, 2.0)
    assert refusals.may_try(Rules.BACK, 2.25)


def test_the_end_tells_how_often_it_was_refused_and_for_how_long() -> None:
    refusals = Refusals()
    assert refusals.taken(0.0) is None
    refusals.refused(Rules.AROUND, 10.0)
    refusals.refused(Rules.AROUND, 10.2)
    assert refusals.last
    assert refusals.taken(11.0) == (2, 1.0)
    assert not refusals.last
    assert refusals.taken(12.0) is None
    assert refusals.refused(Rules.AROUND, 13.0)


def _refused_for(seconds: float) -> tuple[list[float], list[float]]:
    """Look as often as the guard does; return when the change was tried, and when a refusal was to be told."""
    refusals = Refusals()
    tried, told = [], []
    for look in range(round(seconds / LOOK_SECONDS)):
        now = look * LOOK_SECONDS
        if refusals.may_try(Rules.AROUND, now):
            tried.append(now)
            if refusals.refused(Rules.AROUND, now):
                told.append(now)
    return tried, told
