"""What passes, by what the quota can do about it."""

from __future__ import annotations

import pytest

from proxy.diagnostics.role_rates import WINDOW_SECONDS, RoleRateMeter, RoleRates
from proxy.statistics.counters import RoleStatistics


def test_nothing_is_known_before_there_are_two_samples() -> None:
    rates = RoleRateMeter()
    assert rates.measure() == RoleRates()
    rates.sample(RoleStatistics(relayed_response_bytes=10**9), 0.0)
    assert rates.measure() == RoleRates()


def test_what_is_neither_behind_nor_in_sync_is_other() -> None:
    rates, counted = RoleRateMeter(), RoleStatistics(relayed_response_bytes=5000)
    rates.sample(counted, 0.0)
    counted.throttled_bytes_catching_up += 400
    counted.throttled_bytes_in_sync += 100
    counted.relayed_response_bytes += 2000
    rates.sample(counted, 2.0)
    assert rates.measure() == RoleRates(catching_up=200.0, in_sync=50.0, other=750.0)


def test_only_the_window_counts() -> None:
    rates, counted = RoleRateMeter(), RoleStatistics()
    for second in range(100):
        counted.relayed_response_bytes += 1_000_000 if second < 50 else 11
        rates.sample(counted, float(second))
    assert rates.measure().other == pytest.approx(11.0)
    rates.sample(counted, 100.0 + WINDOW_SECONDS)  # a pause: there are always two
    assert rates.measure().other == 0.0


def test_entries_that_are_read_before_they_are_sent_make_no_negative_rate() -> None:
    rates, counted = RoleRateMeter(), RoleStatistics()
    rates.sample(counted, 0.0)
    counted.throttled_bytes_catching_up += 1000
    rates.sample(counted, 1.0)
    assert rates.measure() == RoleRates(1000.0, 0.0, 0.0)
