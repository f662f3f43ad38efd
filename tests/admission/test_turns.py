"""Connections take turns by what they have had."""

from __future__ import annotations

from admission.turns import GRACE_SECONDS, Turns


def test_the_least_served_goes_first() -> None:
    turns = Turns()
    first, second = turns.join(), turns.join()
    turns.ask(first, 0.0)
    turns.ask(second, 0.0)
    first.attained_bytes = 100
    assert turns.ahead_of(first, 0.0) == 1
    assert turns.ahead_of(second, 0.0) == 0
    assert (turns.rank(first, 0.0), turns.rank(second, 0.0)) == (1, 0)


def test_one_that_is_away_is_waited_for_only_around_the_time_it_is_due() -> None:
    turns = Turns()
    here, away = turns.join(), turns.join()
    turns.ask(here, 0.0)
    turns.ask(away, 0.0)
    here.attained_bytes = 100
    away.due = 10.0
    assert turns.ahead_of(here, 10.0 - 2 * GRACE_SECONDS) == 0
    assert turns.ahead_of(here, 10.0) == 1
    assert turns.ahead_of(here, 10.0 + 0.9 * GRACE_SECONDS) == 1
    assert turns.ahead_of(here, 10.0 + 2 * GRACE_SECONDS) == 0


def test_a_newcomer_starts_level_and_cannot_claim_the_past() -> None:
    turns = Turns()
    old, new = turns.join(), turns.join()
    turns.ask(old, 0.0)
    old.attained_bytes = 5000
    turns.ask(new, 0.0)
    assert new.attained_bytes == 5000
    assert turns.ahead_of(old, 0.0) == 0


def test_who_leaves_or_wants_nothing_is_in_nobodys_way() -> None:
    turns = Turns()
    here, sated, gone = turns.join(), turns.join(), turns.join()
    for claim in (here, sated, gone):
        turns.ask(claim, 0.0)
    here.attained_bytes = 100
    sated.wants = False
    turns.leave(gone)
    assert turns.ahead_of(here, 0.0) == 0
