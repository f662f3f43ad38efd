"""Simulated moves end between 0.9 and 1.0 of their time, or it is said within 10 s of its being certain that they do
not."""

from __future__ import annotations

import math

import pytest

from proxy.rates.choice import HeldBy

from .moves import GIB, MIB, Move, within

DAY = 86400.0


def wave(second: float) -> float:
    """A day's curve: 2 to 18 MiB/s."""
    return (10 + 8 * math.sin(2 * math.pi * second / DAY)) * MIB


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("seconds", "lag", "producers"),
    [
        (30, 60 * MIB, lambda _: 0.0),
        (60, 600 * MIB, lambda _: 2 * MIB),
        (600, 20 * GIB, lambda _: 5 * MIB),
        (600, 20 * GIB, lambda second: 40 * MIB if second > 300 else 0.0),  # a step
        (600, 20 * GIB, lambda second: second / 600 * 60 * MIB),  # a ramp
        (600, 20 * GIB, lambda second: 60 * MIB if 100 < second < 400 else 5 * MIB),  # up and down again
        (7200, 200 * GIB, lambda _: 10 * MIB),
        (28800, 800 * GIB, wave),
    ],
)
def test_a_move_ends_in_the_last_tenth_of_its_time(seconds: float, lag: float, producers, seed: int) -> None:  # type: ignore[no-untyped-def]
    move = Move(lag, within(seconds), producers, seed=seed).run(seconds)
    assert move.ended is not None, move.lag_bytes
    assert 0.9 <= move.ended / seconds <= 1.0
    assert move.late_at is None


@pytest.mark.parametrize("error", [0.5, 1.5])
def test_messages_that_are_weighed_wrongly_at_first_do_not_make_it_late(error: float) -> None:
    """Old segments have other messages than new ones: the estimate is off for the first half."""
    move = Move(20 * GIB, within(600), size_error=lambda second: error if second < 300 else 1.0).run(600)
    assert move.ended is not None
    assert 0.9 <= move.ended / 600 <= 1.0


def test_the_rate_hardly_moves_while_nothing_changes() -> None:
    """The clairvoyant's rate is the lag over the time: ours is within the reserve of it, and still."""
    rates = Move(60 * GIB, within(1800)).run(1500).rates()[10:]
    assert max(rates) / min(rates) < 1.1
    assert sum(rates) / len(rates) == pytest.approx(60 * GIB / 1800, rel=0.1)


def test_what_cannot_be_done_is_said_within_ten_seconds_and_goes_on_at_the_most() -> None:
    """20 GiB in 60 s are 341 MiB/s, and 100 MiB/s is the most."""
    move = Move(20 * GIB, within(60, most=100 * MIB)).run(240)
    assert move.late_at is not None
    assert move.late_at <= 10
    assert set(move.rates()[1:200]) == {100 * MIB}
    assert move.choices[30][1].needed_bytes_per_second > 300 * MIB
    assert move.ended == pytest.approx(205, rel=0.05)
    assert not move.choices[-1][1].late


def test_producers_who_make_it_impossible_are_noticed_within_ten_seconds() -> None:
    """30 MiB/s would do for 600 s, 60 MiB/s are the most; from second 300 on 50 MiB/s are added, which leaves 10 MiB/s
    for the half that is missing: certain at once."""
    move = Move(17 * GIB, within(600, most=60 * MIB), lambda second: 50 * MIB if second >= 300 else 0.0).run(600)
    assert move.late_at is not None
    assert 300 <= move.late_at <= 310


def test_a_network_that_carries_less_is_noticed_once_the_most_would_not_do_any_more() -> None:
    """20 GiB in 600 s at 20 MiB/s: what is missing needs more than 60 MiB/s from second 426 on."""
    move = Move(20 * GIB, within(600, most=60 * MIB), capacity=20 * MIB).run(600)
    left = [20 * GIB - 20 * MIB * second for second in range(600)]
    certain = next(second for second, lag in enumerate(left) if lag / max(600 - second, 1) > 60 * MIB)
    assert move.late_at is not None
    assert certain - 5 <= move.late_at <= certain + 10


def test_one_that_is_no_longer_late_says_so() -> None:
    move = Move(20 * GIB, within(600, most=50 * MIB), lambda second: 40 * MIB if second < 60 else 0.0).run(600)
    assert move.late_at is not None
    assert not move.choices[300][1].late
    assert move.ended is not None
    assert move.ended <= 600


def test_nothing_behind_is_the_least() -> None:
    move = Move(MIB, within(600, least=MIB)).run(100)
    assert move.choices[-1][1].bytes_per_second == MIB
    assert move.choices[-1][1].held_by is HeldBy.NOTHING_BEHIND
