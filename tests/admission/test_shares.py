"""What a budget holds is divided among connections: by weight, as far as each can use it, and to whom it is of use."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.budget import StrictBudget
from admission.fetcher import AWAY_SECONDS, Fetcher
from admission.shares import LOOKS_PER_GATE, Claim, Shares, goes_before

UNLIMITED = StrictBudget(bytes_per_second=math.inf, gate_seconds=0.1, burst_seconds=0.25, now=0.0)


def join(shares: Shares, *, priority: int = 0, most: float = math.inf) -> Claim:
    """One that asks at 0."""
    claim = Claim(UNLIMITED, Fetcher())
    claim.wants = True
    claim.fetcher.ask(0.0)
    claim.fetcher.priority, claim.fetcher.path_credit = priority, most
    shares.join(claim)
    return claim


def credits_of(shares: Shares, size: float, *, most: float = math.inf, now: float = 0.0) -> list[float]:
    shares.divide(size, most, now)
    return [round(claim.credit, 6) for claim in shares._claims]


def test_what_comes_in_is_shared_equally_and_what_one_cannot_use_the_others_have() -> None:
    shares = Shares()
    for most in (math.inf, 10.0, math.inf):
        join(shares, most=most)
    assert credits_of(shares, 30.0) == [10, 10, 10]
    assert credits_of(shares, 60.0) == [25, 10, 25]
    assert credits_of(shares, 1000.0, most=40.0) == [40, 10, 40]


def test_what_was_taken_is_taken_from_who_had_it_and_what_nobody_was_granted_from_all() -> None:
    shares = Shares()
    first, _ = join(shares), join(shares)
    credits_of(shares, 20.0)
    first.credit -= 30
    assert credits_of(shares, -10.0) == [-20, 10]
    assert credits_of(shares, -20.0) == [-25, 5]


@pytest.mark.parametrize("why", ["gone", "sated", "brings nothing"])
def test_who_uses_nothing_has_no_part(why: str) -> None:
    shares = Shares()
    here, other = join(shares), join(shares)
    credits_of(shares, 20.0)
    now = 0.0
    if why == "gone":
        now = 2 * AWAY_SECONDS
        here.fetcher.ask(now)
    elif why == "sated":
        other.wants = False
    else:
        other.fetcher.granted(1000, 0.0)
        other.fetcher.brought(1000, 0, 0.0)
    assert shares.count == 2
    assert credits_of(shares, 20.0, now=now) == [20, 0]
    assert shares.count == 1
    assert shares.kept_from(here, 1.0, now) == (0, 0)


def test_what_comes_in_until_another_is_back_is_not_kept_for_it() -> None:
    shares = Shares()
    here, away = join(shares), join(shares)
    credits_of(shares, 200.0)
    away.fetcher.absence_seconds = 0.06
    assert shares.kept_from(here, 1000.0, 0.0) == (0, 40)
    away.elsewhere_until = 0.09  # another of its budgets is shut until then
    assert shares.kept_from(here, 1000.0, 0.0) == (0, 10)


def test_who_has_the_greater_credit_goes_first_and_all_before_one_that_had_more_than_its_part() -> None:
    shares = Shares()
    one, two, urgent = join(shares), join(shares), join(shares, priority=1)
    one.credit, two.credit, urgent.credit = 10, 20, 5
    assert [goes_before(a, b) for a, b in ((one, two), (two, one), (two, urgent), (urgent, two))] == [
        False, True, False, True,
    ]  # fmt: skip
    urgent.credit = -1
    assert goes_before(one, urgent)


def test_equal_credits_go_in_any_order() -> None:
    """Of two, neither waits for the other: they would for ever."""
    shares = Shares()
    one, two = join(shares), join(shares)
    one.credit = two.credit = 10
    assert not goes_before(one, two)
    assert not goes_before(two, one)


def test_the_least_priority_has_a_twentieth_and_those_of_one_priority_have_equal_parts() -> None:
    shares = Shares()
    for priority in (1, 1, 0):
        join(shares, priority=priority)
    shares.look_again()
    assert credits_of(shares, 40.0) == [19, 19, 2]


@given(st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(0, 1e6)), min_size=1, max_size=8), st.floats(-1e6, 1e7))
def test_credits_are_what_there_is_as_far_as_somebody_can_use_it(found: list[tuple[float, float]], size: float) -> None:
    shares = Shares()
    for credit, most in found:
        join(shares, most=most).credit = credit
    shares.divide(size, 5e5, 0.0)
    most = sum(min(most, 5e5) for _, most in found)
    assert sum(claim.credit for claim in shares._claims) == pytest.approx(min(size, most), abs=1.0)


@given(st.lists(st.floats(-1e5, 1e5), min_size=2, max_size=6), st.floats(1, 1e5), st.floats(1, 1e5))
def test_a_turn_is_not_before_enough_has_come_in(found: list[float], missing: float, least: float) -> None:
    shares = Shares()
    claims = [join(shares) for _ in found]
    for claim, credit in zip(claims, found, strict=True):
        claim.credit = credit
    inflow = shares.inflow_until(claims[0], missing, least, math.inf, 0.0)
    assert 0 <= inflow <= max(least - found[0], 0.0) * len(found) * (1 + 1e-9)
    assert inflow >= min(missing, max(least - found[0], 0.0) * len(found)) * (1 - 1e-9)


def test_all_look_so_many_times_in_a_gate_and_none_later_than_its_own_turn() -> None:
    shares = Shares()
    claims = [join(shares) for _ in range(5)]
    gate = 1000.0
    assert [shares.inflow_until_look(each, gate, gate, 0.0) for each in claims] == [4 * gate / LOOKS_PER_GATE] * 5
    claims[0].credit = gate - 50  # its part of 250 more is all that it needs
    assert shares.inflow_until_look(claims[0], gate, gate, 0.0) == 250
    claims[1].fetcher.granted(gate, 0.0)  # it is away
    claims[2].wants = False
    assert shares.inflow_until_look(claims[3], gate, gate, 0.0) == 2 * gate / LOOKS_PER_GATE
    assert shares.inflow_until_look(claims[3], gate, gate, AWAY_SECONDS + 1) <= 0  # nobody asks any more
