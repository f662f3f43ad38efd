"""The controller's rules, one at a time."""

from __future__ import annotations

import pytest

from proxy.quotas.rate_source import RateSource
from proxy.rates.auto_rate import AutoRate, Verdict
from proxy.rates.signals import Reading

MIB = 1024.0 * 1024.0
SOURCE = RateSource(800 * MIB, 10 * MIB, auto=True)


class Looks:
    """A look a second, after a first one at which nothing went through yet."""

    def __init__(self, held: float = 100 * MIB) -> None:
        self.rate, self.held, self.now = AutoRate(), held, 0.0
        self.rate.choose(SOURCE, [], held, used=0.0, now=0.0)

    def look(
        self,
        pressure: float | None,
        *,
        used: float = 1.0,
        beside: float = 0.0,
        seen_ago: float = 0.0,
        after: float = 1.0,
    ) -> Verdict:
        """`used`: of the rate; `beside`: MiB/s."""
        self.now += after
        readings = [] if pressure is None else [Reading("a", pressure, self.now - seen_ago, "a wait")]
        found = self.rate.choose(SOURCE, readings, self.held, used=used * self.held, beside=beside * MIB, now=self.now)
        self.held = found.bytes_per_second
        return found

    def rates(self, *pressures: float) -> list[float]:
        return [round(self.look(pressure).bytes_per_second / MIB, 1) for pressure in pressures]


def test_before_anything_was_too_much_it_is_raised_fast_up_to_the_most() -> None:
    looks = Looks()
    assert looks.rates(0, 0) == [400, 800]
    assert looks.look(0) == Verdict(800 * MIB, None, "nothing hurts")


def test_the_first_raise_is_up_to_what_producers_write_if_that_is_more() -> None:
    assert Looks().look(0, beside=700).bytes_per_second == 700 * MIB


@pytest.mark.parametrize(("pressure", "rate"), [(1.5, 89.5), (2, 86), (4, 72), (100, 50)])
def test_what_hurts_much_lowers_it_at_once(pressure: float, rate: float) -> None:
    found = Looks().look(pressure)
    assert (found.bytes_per_second, found.signal) == (pytest.approx(rate * MIB), "a")
    assert found.words == "lowered: a wait is too much"


def test_what_hurts_a_little_has_to_say_so_twice() -> None:
    assert Looks().rates(1.2, 1.2, 1.4, 1.4) == [100, 91.6, 91.6, 82.6]
    assert Looks().rates(1.2, 0.9, 1.2) == [100, 100, 100]


@pytest.mark.parametrize(("used", "rate"), [(0.8, 0.8 * 86), (0.5, 43), (0.1, 43), (1.3, 86)])
def test_it_is_lowered_from_what_went_through(used: float, rate: float) -> None:
    """A link that is full lets less through than the rate allows: a tenth less than the rate would change nothing."""
    assert Looks().look(2, used=used).bytes_per_second == pytest.approx(rate * MIB)


def test_if_less_goes_through_twice_the_rate_is_a_little_less_than_that() -> None:
    looks = Looks()
    once = looks.look(0, used=0.8)
    assert once == Verdict(100 * MIB, None, "less than the rate passes; checked again", is_full=True)
    twice = looks.look(0, used=0.75)
    assert twice == Verdict(pytest.approx(76 * MIB), None, "the link carries no more", is_full=True)
    assert looks.rates(0, 0, 0, 0, 0, 0) == [79.8, 85.8, 95.4, 111.5, 139.8, 192.8]
    assert looks.look(0, used=0.92).bytes_per_second > looks.held / 2  # no more than is measured exactly


def test_a_second_in_which_a_machine_stood_still_changes_nothing() -> None:
    looks = Looks()
    looks.look(0, used=0.8)
    looks.look(0, used=0.8)
    rates = looks.rates(0, 0, 0)
    assert looks.look(0, used=0.3).bytes_per_second / MIB == pytest.approx(rates[-1], abs=0.1)
    assert looks.look(0).bytes_per_second / MIB > rates[-1]


def test_after_a_burst_of_producers_it_is_back_within_three_looks() -> None:
    """100 MiB/s go through in all, and producers write 30, 60 and 30 of them."""
    looks = Looks()
    for _ in range(2):
        looks.look(0, used=0.7, beside=30)
    assert looks.held == pytest.approx(66.5 * MIB)
    for _ in range(2):
        looks.look(0, used=0.6, beside=60)
    assert looks.held == pytest.approx(0.95 * 0.6 * 66.5 * MIB)
    back = [looks.look(0, beside=30).bytes_per_second / MIB for _ in range(3)]
    assert back == pytest.approx([51.4, 58.2, 61.5], abs=0.1)


def test_between_two_looks_what_went_through_says_nothing() -> None:
    looks = Looks()
    looks.look(0.7)
    assert looks.look(2, used=0.1, after=0.1).bytes_per_second == pytest.approx(86 * MIB)


def test_it_never_goes_below_the_least() -> None:
    assert Looks(12 * MIB).rates(9, 9, 9) == [10, 10, 10]
    assert Looks(10 * MIB).look(0, used=0.1) == Verdict(10 * MIB, None, "at the minimum, and less is used")


def test_what_hurts_at_the_least_rate_says_nothing_of_a_higher_one() -> None:
    looks = Looks(10 * MIB)
    for _ in range(20):
        found = looks.look(2)
    assert found.words == "a wait is too much, and no lower rate is allowed"
    assert looks.rates(0, 0, 0)[-1] == 640


def test_a_high_value_that_was_judged_hides_no_new_one_of_another_signal() -> None:
    rate, held = AutoRate(), 100 * MIB
    rate.choose(SOURCE, [], held, used=0.0, now=-1.0)
    for now in range(4):
        readings = [Reading("old", 2.0, 0.0, "an old wait"), Reading("new", 1.9, float(now), "a wait")]
        found = rate.choose(SOURCE, readings, held, used=held, now=float(now))
        held = found.bytes_per_second
        assert found.signal == ("new" if now else "old")
    assert held == pytest.approx(100 * MIB * 0.86 * 0.867**3)


def test_between_calm_and_too_much_it_stays() -> None:
    found = Looks().look(0.9)
    assert (found.bytes_per_second, found.signal) == (100 * MIB, "a")


def test_after_it_hurt_it_goes_half_of_the_way_back_and_then_in_small_steps() -> None:
    assert Looks().rates(9, 0, 0, 0, 0, 0) == [50, 72.5, 83.8, 89.4, 93.8, 100.9]


def test_it_is_not_raised_before_its_signals_have_new_values() -> None:
    looks = Looks()
    assert looks.look(0).bytes_per_second == 400 * MIB
    stale = looks.look(0, seen_ago=2)
    assert (stale.bytes_per_second, stale.signal) == (400 * MIB, "a")
    assert looks.look(0).bytes_per_second == 800 * MIB


def test_without_signals_it_is_not_raised() -> None:
    assert Looks().look(None).bytes_per_second == 100 * MIB
