"""Simulated bottlenecks: a rate that does not hurt converges within 30 s, gives way within 3 s, does not swing by more
than a tenth, and uses at least 85 % of what a clairvoyant would."""

from __future__ import annotations

import math

import pytest

from proxy.quotas.rate_source import Deadline, RateSource
from proxy.rates.choice import HeldBy
from proxy.rates.signals import Reading, Signal

from .bottleneck import BEGINNING, MIB, Bottleneck

CONVERGED, GIVES_WAY, SWING, USAGE = 30, 3, 0.1, 0.85
SEEDS = range(5)


def swing(rates: list[float]) -> float:
    """The furthest from the mean, as a share of it."""
    mean = sum(rates) / len(rates)
    return max(abs(rate - mean) for rate in rates) / mean


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("count", [1, 10])
def test_steady_producers(count: int, seed: int) -> None:
    found = Bottleneck(lambda _: 200 * MIB, count=count, seed=seed).run(300)
    assert found.usage(CONVERGED, CONVERGED + 60) >= USAGE
    assert found.usage(CONVERGED, 300) >= USAGE
    assert swing(found.totals[CONVERGED:]) <= SWING
    assert max(found.shares[CONVERGED:]) <= 1


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("count", [1, 10])
def test_producers_who_triple_have_their_share_within_three_seconds(count: int, seed: int) -> None:
    """From 200 to 600 of 1000 MiB/s: what is asked for is more than there is until catch-up gives way."""
    step, back = 100, 200
    found = Bottleneck(lambda second: 600 * MIB if step <= second < back else 200 * MIB, count=count, seed=seed).run(
        300
    )
    assert max(found.shares[step + GIVES_WAY : back]) <= 1
    assert found.usage(step + CONVERGED, back) >= USAGE
    assert found.usage(back + CONVERGED, 300) >= USAGE


@pytest.mark.parametrize("seed", SEEDS)
def test_a_ramp_of_producers_is_followed(seed: int) -> None:
    """4 MiB/s more each second for two minutes."""
    found = Bottleneck(lambda second: (200 + 4 * min(max(second - 60, 0), 120)) * MIB, seed=seed).run(300)
    assert found.usage(CONVERGED, 240) >= USAGE
    assert max(found.shares[CONVERGED:]) <= 1.05


def test_a_days_curve_of_producers_is_followed() -> None:
    """A day in an hour: 150 to 650 MiB/s and back."""
    found = Bottleneck(lambda second: (400 + 250 * math.sin(2 * math.pi * second / 3600)) * MIB).run(3600)
    assert found.usage(CONVERGED, 3600) >= USAGE
    assert sum(share > 1 for share in found.shares[CONVERGED:]) == 0


def test_a_link_that_becomes_slower_is_noticed() -> None:
    found = Bottleneck(lambda _: 100 * MIB, lambda second: (1000 if second < 100 else 400) * MIB).run(200)
    assert max(found.shares[100 + GIVES_WAY :]) <= 1.05
    assert found.usage(130, 200) >= USAGE


@pytest.mark.parametrize("seed", SEEDS)
def test_a_signal_that_lies_that_all_is_well_does_not_count_against_the_others(seed: int) -> None:
    lie = lambda now, _: [Reading("p99", 0.0, now, "a p99 of 0")]  # noqa: E731
    found = Bottleneck(lambda _: 200 * MIB, seed=seed, more=lie).run(200)
    assert swing(found.totals[CONVERGED:]) <= SWING
    assert max(found.shares[CONVERGED:]) <= 1


def test_a_signal_that_lies_that_all_is_bad_holds_the_least() -> None:
    lie = lambda now, _: [Reading("p99", 50.0, now, "a p99 of 5 s")]  # noqa: E731
    found = Bottleneck(lambda _: 200 * MIB, more=lie).run(60)
    assert found.totals[-1] == 10 * MIB
    assert found.sidecars[0].chosen[-1].signal == "p99"


def test_a_signal_that_is_late_is_waited_for() -> None:
    """Its value is new every fifteen seconds, and half of that old: one step for each."""

    def late(now: float, share: float) -> list[Reading]:
        seen = now // 15 * 15 - 7
        return [Reading("p99", share / 2, seen, "a p99 of long ago")]

    found = Bottleneck(lambda _: 200 * MIB, more=late).run(150)
    raised = sum(after > before for before, after in zip(found.totals, found.totals[1:], strict=False))
    assert raised <= 11
    assert max(found.shares[-30:]) <= 1


def test_a_late_signal_that_is_too_much_lowers_once_for_each_value() -> None:
    late = lambda now, _: [Reading("p99", 2.0 if now >= 60 else 0.0, now // 15 * 15, "a p99")]  # noqa: E731
    found = Bottleneck(lambda _: 100 * MIB, lambda _: 1e6 * MIB, more=late).run(75)
    assert found.totals[62] == pytest.approx(0.86 * found.totals[60])
    assert found.totals[74] == found.totals[62]


def test_a_deadline_is_the_floor() -> None:
    """1e15 bytes in three months need 138 MiB/s with the reserve: that holds, whatever hurts."""
    deadline = Deadline(at=BEGINNING.replace(year=2027, month=1, day=24))
    source = RateSource(5000 * MIB, 10 * MIB, deadline, auto=True)
    found = Bottleneck(lambda _: 950 * MIB, source=source).run(60)
    choice = found.sidecars[0].chosen[-1]
    assert choice.held_by is HeldBy.DEADLINE
    assert choice.signal in (Signal.CATCH_UP_READS, Signal.IN_SYNC_FOLLOWERS)
    assert choice.bytes_per_second == pytest.approx(1e15 / (84 * 86400), rel=0.05)
    free = Bottleneck(lambda _: 100 * MIB, source=source).run(60)
    assert free.totals[-1] > 3 * choice.bytes_per_second
