"""The controller's rules, one at a time."""

from __future__ import annotations

import pytest

from proxy.quotas.rate_source import RateSource
from proxy.rates.auto import LEAST_RAISE, RAISE_GROWTH, AutoRate, Verdict
from proxy.rates.signals import Reading

MIB = 1024.0 * 1024.0
SOURCE = RateSource(800 * MIB, 10 * MIB, auto=True)


class Looks:
    """A look a second."""

    def __init__(self, held: float = 100 * MIB) -> None:
        self.rate, self.held, self.now = AutoRate(), held, 0.0

    def look(self, pressure: float | None, *, used: float = 1.0, seen_ago: float = 0.0) -> Verdict:
        self.now += 1
        readings = [] if pressure is None else [Reading("a", pressure, self.now - seen_ago, "a wait")]
        found = self.rate.choose(SOURCE, readings, self.held, used=used * self.held, now=self.now)
        self.held = found.bytes_per_second
        return found


def test_before_anything_has_hurt_it_is_raised_by_half_each_second_up_to_the_most() -> None:
    looks = Looks()
    assert [round(looks.look(0).bytes_per_second / MIB) for _ in range(7)] == [150, 225, 338, 506, 759, 800, 800]
    assert looks.look(0) == Verdict(800 * MIB, None, "nothing hurts")


@pytest.mark.parametrize(("pressure", "rate"), [(1.5, 87.5), (1.9, 59.5), (2, 50), (3, 50), (100, 50)])
def test_what_hurts_much_lowers_it_at_once(pressure: float, rate: float) -> None:
    found = Looks().look(pressure)
    assert (found.bytes_per_second, found.signal) == (pytest.approx(rate * MIB), "a")
    assert found.words == "lowered: a wait is too much"


def test_what_hurts_a_little_has_to_say_so_twice() -> None:
    looks = Looks()
    assert looks.look(1.2).bytes_per_second == 100 * MIB
    assert looks.look(1.2).bytes_per_second == pytest.approx(95 * MIB)
    assert looks.look(1.4).bytes_per_second == pytest.approx(95 * MIB)
    assert looks.look(1.4).bytes_per_second == pytest.approx(95 * 0.92 * MIB)
    looks = Looks()
    assert [looks.look(1.2).bytes_per_second, looks.look(0.9).bytes_per_second, looks.look(1.2).bytes_per_second] == (
        [100 * MIB] * 3
    )


@pytest.mark.parametrize(("used", "rate"), [(0.8, 40), (0.5, 25), (0.1, 25), (1.3, 50)])
def test_it_is_lowered_from_what_went_through(used: float, rate: float) -> None:
    """A link that is full lets less through than the rate allows: a tenth less than the rate would change nothing."""
    looks = Looks()
    assert looks.look(2, used=used).bytes_per_second == pytest.approx(rate * MIB)
    while looks.look(0).words == "raised: nothing hurts":
        assert looks.held <= min(max(0.5, used), 1) * 100 * MIB


def test_it_never_goes_below_the_least() -> None:
    looks = Looks(12 * MIB)
    assert [looks.look(5).bytes_per_second for _ in range(3)] == [10 * MIB] * 3


def test_what_hurts_at_the_least_rate_says_nothing_of_a_higher_one() -> None:
    looks = Looks(12 * MIB)
    looks.look(2)
    for _ in range(20):
        found = looks.look(2)
    assert found.words == "a wait is too much, and no lower rate is allowed"
    rates = [looks.look(0).bytes_per_second / MIB for _ in range(15)]
    assert rates[-1] > 30


def test_a_high_value_that_was_judged_hides_no_new_one_of_another_signal() -> None:
    rate, held = AutoRate(), 100 * MIB
    for now in range(4):
        readings = [Reading("old", 2.0, 0.0, "an old wait"), Reading("new", 1.9, float(now), "a wait")]
        found = rate.choose(SOURCE, readings, held, used=held, now=float(now))
        held = found.bytes_per_second
        assert found.signal == ("new" if now else "old")
    assert held == pytest.approx(100 * MIB * 0.5 * 0.595**3)


def test_between_calm_and_too_much_it_stays() -> None:
    found = Looks().look(0.9)
    assert (found.bytes_per_second, found.signal) == (100 * MIB, "a")


def test_after_it_hurt_it_comes_near_that_rate_and_waits_there() -> None:
    looks = Looks()
    looks.look(2)
    rates = [looks.look(0).bytes_per_second / MIB for _ in range(8)]
    assert rates[:4] == pytest.approx([60, 72, 86.4, 86.4 * (1 + LEAST_RAISE * RAISE_GROWTH**3)], rel=0.01)
    assert max(rates) <= 97
    for _ in range(4):
        looks.look(0)
    assert looks.held > 97 * MIB


def test_what_is_not_used_is_not_raised() -> None:
    looks = Looks()
    assert looks.look(0, used=0.5) == Verdict(100 * MIB, None, "nothing needs more")


def test_it_is_not_raised_before_its_signals_have_new_values() -> None:
    looks = Looks()
    assert looks.look(0).bytes_per_second == 150 * MIB
    stale = looks.look(0, seen_ago=2)
    assert (stale.bytes_per_second, stale.signal) == (150 * MIB, "a")
    assert looks.look(0).bytes_per_second == 225 * MIB


def test_without_signals_it_is_not_raised() -> None:
    assert Looks().look(None).bytes_per_second == 100 * MIB
