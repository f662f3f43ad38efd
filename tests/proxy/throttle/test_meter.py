"""The rate people see."""

from __future__ import annotations

import math

import pytest

from proxy.throttle.meter import SILENT_SECONDS, SMOOTHING_SECONDS, Meter


def test_steady_traffic_reads_as_its_rate() -> None:
    meter = Meter(0.0)
    for tick in range(1, 301):
        meter.add(100, tick / 10)
    assert meter.per_second(30.0) == pytest.approx(1000, rel=0.03)


def test_it_fades() -> None:
    meter = Meter(0.0)
    meter.add(1000, 0.0)
    assert meter.per_second(SMOOTHING_SECONDS) == pytest.approx(1000 / SMOOTHING_SECONDS / math.e)


def test_what_has_long_ended_is_nothing_at_all() -> None:
    meter = Meter(0.0)
    meter.add(1e9, 0.0)
    assert meter.per_second(SILENT_SECONDS - 0.1) > 0
    assert meter.per_second(SILENT_SECONDS) == 0.0
