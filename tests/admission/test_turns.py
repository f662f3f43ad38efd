"""Connections take turns by what they have had."""

from __future__ import annotations

import math

from admission.budget import StrictBudget
from admission.fetcher import GRACE_SECONDS, Fetcher
from admission.turns import Claim, Turns, Want

UNLIMITED = StrictBudget(bytes_per_second=math.inf, gate_seconds=0.1, burst_seconds=0.25, now=0.0)


def join(turns: Turns) -> Claim:
    claim = Claim(UNLIMITED, Fetcher())
    turns.join(claim)
    return claim


def test_the_least_served_goes_first() -> None:
    turns = Turns()
    first, second = join(turns), join(turns)
    turns.ask(first, 0.0)
    turns.ask(second, 0.0)
    first.attained_service = 100
    assert turns.ahead_of(first, 0.0) == 1
    assert turns.ahead_of(second, 0.0) == 0
    assert (turns.rank(first, 0.0), turns.rank(second, 0.0)) == (1, 0)


def test_one_that_is_away_is_waited_for_only_around_the_time_it_is_due() -> None:
    turns = Turns()
    here, away = join(turns), join(turns)
    turns.ask(here, 0.0)
    turns.ask(away, 0.0)
    here.attained_service = 100
    away.fetcher.due = 10.0
    assert turns.ahead_of(here, 10.0 - 2 * GRACE_SECONDS) == 0
    assert turns.ahead_of(here, 10.0) == 1
    assert turns.ahead_of(here, 10.0 + 0.9 * GRACE_SECONDS) == 1
    assert turns.ahead_of(here, 10.0 + 2 * GRACE_SECONDS) == 0


def test_a_newcomer_starts_level_and_cannot_claim_the_past() -> None:
    turns = Turns()
    old, new = join(turns), join(turns)
    turns.ask(old, 0.0)
    old.attained_service = 5000
    turns.ask(new, 0.0)
    assert new.attained_service == 5000
    assert turns.ahead_of(old, 0.0) == 0


def test_who_leaves_or_wants_nothing_is_in_nobodys_way() -> None:
    turns = Turns()
    here, sated, gone = join(turns), join(turns), join(turns)
    for claim in (here, sated, gone):
        turns.ask(claim, 0.0)
    here.attained_service = 100
    sated.want = Want.NOTHING
    turns.leave(gone)
    assert turns.ahead_of(here, 0.0) == 0


def test_a_released_turn_is_nobodys_wait_and_keeps_its_service() -> None:
    turns = Turns()
    here, elsewhere = join(turns), join(turns)
    turns.ask(here, 0.0)
    turns.ask(elsewhere, 0.0)
    elsewhere.fetcher.ask(0.0)
    here.attained_service = 100
    assert (turns.ahead_of(here, 0.0), turns.kept_from(here, 1.0, 0.0)) == (1, 99.95)
    elsewhere.release_turn(0.0)
    assert (turns.ahead_of(here, 0.0), turns.kept_from(here, 1.0, 0.0)) == (0, 0)
    turns.ask(elsewhere, 0.0)
    assert turns.ahead_of(here, 0.0) == 1


def test_the_least_priority_has_a_twentieth_and_those_of_one_priority_have_equal_parts() -> None:
    """A byte of one of two connections of the greater priority weighs 2/19 of one of the single lesser one."""
    turns = Turns()
    claims = [join(turns) for _ in range(3)]
    for claim, priority in zip(claims, (1, 1, 0), strict=True):
        claim.fetcher.priority = priority
        turns.ask(claim, 0.0)
    turns.look_again()
    for claim in claims:
        turns.serve(claim, 19.0)
    assert [round(claim.attained_service, 6) for claim in claims] == [2, 2, 19]
