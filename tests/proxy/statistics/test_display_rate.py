"""The rate people see."""

from __future__ import annotations

import math

import pytest

from proxy.statistics.display_rate import SILENT_SECONDS, SMOOTHING_SECONDS, DisplayRate, GrowthMeter


def test_steady_traffic_reads_as_its_rate() -> None:
    meter = DisplayRate(0.0)
    for tick in range(1, 301):
        meter.add(100, tick / 10)
    assert meter.per_second(30.0) == pytest.approx(1000, rel=0.03)


def test_it_fades() -> None:
    meter = DisplayRate(0.0)
    meter.add(1000, 0.0)
    assert meter.per_second(SMOOTHING_SECONDS) == pytest.approx(1000 / SMOOTHING_SECONDS / math.e)


def test_what_has_long_ended_is_nothing_at_all() -> None:
    meter = DisplayRate(0.0)
    meter.add(1e9, 0.0)
    assert meter.per_second(SILENT_SECONDS - 0.1) > 0
    assert meter.per_second(SILENT_SECONDS) == 0.0


def test_growth_reads_right_from_its_first_seconds_on() -> None:
    meter = GrowthMeter()
    meter.add(0, 100.0)
    for tick in range(1, 31):
        meter.add(500, 100.0 + tick)
        if tick >= 2:
            assert meter.per_second(100.0 + tick) == pytest.approx(500, rel=0.35 if tick < 5 else 0.15)


def test_growth_that_is_told_every_five_seconds_is_nearly_steady() -> None:
    """High watermarks of partitions that are left out are heard of every five seconds."""
    meter = GrowthMeter()
    meter.add(0, 0.0)
    found = []
    for tick in range(1, 121):
        meter.add(5000 if tick % 5 == 0 else 0, float(tick))
        found.append(meter.per_second(float(tick)))
    assert min(found[30:]) > 700
    assert max(found[30:]) < 1300


def test_growth_that_ends_fades() -> None:
    meter = GrowthMeter()
    meter.add(0, 0.0)
    meter.add(1000, 1.0)
    assert meter.per_second(61.0) < 1
    assert GrowthMeter().per_second(5.0) == 0
