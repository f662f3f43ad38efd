"""Kafka's own numbers (ReplicationQuotaManagerTest), digit for digit, and what follows from them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.simple_rate import SimpleRate


def test_should_exceed_quota_then_return_back_below_bound_as_time_passes() -> None:
    rate = SimpleRate(samples=10, sample_seconds=1.0)
    quota = 100
    assert not rate.measure(0.0) > quota  # the first check starts the clock

    rate.record(1, 1.5)
    assert not rate.measure(1.5) > quota
    rate.record(149, 1.5)  # 150 B in 1.5 s = 100 B/s: not above
    assert not rate.measure(1.5) > quota
    rate.record(1, 1.5)
    assert rate.measure(1.5) == 151 / 1.5
    assert rate.measure(1.5) > quota

    assert rate.measure(2.0) == pytest.approx(151 / 2, abs=0.1)
    assert not rate.measure(2.0) > quota

    rate.record(99, 2.5)
    assert rate.measure(2.5) == 250 / 2.5
    assert not rate.measure(2.5) > quota
    rate.record(1, 2.5)
    assert rate.measure(2.5) == 251 / 2.5
    assert rate.measure(2.5) > quota

    assert rate.measure(4.5) == 251 / 4.5
    assert not rate.measure(4.5) > quota


def test_an_idle_window_restarts() -> None:
    rate = SimpleRate()
    rate.record(1000, 0.0)
    assert rate.measure(11.0) == 0
    rate.record(500, 12.0)
    assert rate.measure(12.0) == 500 / 1.0  # the purged samples began at 11 s: one second ago


@pytest.mark.parametrize(
    ("recorded", "quota", "now", "expected"),
    [
        ([(0.0, 100)], 100, 0.0, 0.0),  # 100 B over the least window of 1 s is not above 100
        ([(0.0, 200)], 100, 0.0, 2.0),  # 200 B need 2 s
        ([(0.0, 5000)], 100, 0.0, 11.0),  # 50 s by the rate, but the sample leaves the window after 11
        ([(0.0, 5000)], 0, 3.0, 8.0),  # nothing is ever within 0 B/s but an empty window
    ],
)
def test_seconds_until(recorded: list[tuple[float, int]], quota: int, now: float, expected: float) -> None:
    rate = SimpleRate()
    for at, value in recorded:
        rate.record(value, at)
    assert rate.seconds_until(quota, now) == pytest.approx(expected)


@given(
    events=st.lists(st.tuples(st.floats(0, 3), st.integers(1, 10_000_000)), min_size=1, max_size=60),
    quota=st.integers(1, 10_000_000),
)
def test_after_seconds_until_the_rate_is_within_the_quota(events: list[tuple[float, int]], quota: int) -> None:
    rate, now = SimpleRate(), 0.0
    for pause, value in events:
        now += pause
        rate.record(value, now)
    wait = rate.seconds_until(quota, now)
    assert 0 <= wait <= 12
    assert rate.measure(now + wait + 1e-6) <= quota * (1 + 1e-6)


@given(events=st.lists(st.tuples(st.floats(0, 5), st.integers(0, 1000)), max_size=60))
def test_the_window_is_never_shorter_than_a_sample_nor_longer_than_all(
    events: list[tuple[float, int]],
) -> None:
    rate, now, total = SimpleRate(), 0.0, 0
    for pause, value in events:
        now += pause
        rate.record(value, now)
        total += value
    assert 0 <= rate.measure(now) <= total
