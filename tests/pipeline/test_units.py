from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.units import Units, duration

MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("quotas", "shown"),
    [
        ([4 * MIB], "4 MiB/s"),
        ([4_000_000], "4 MB/s"),
        ([1024], "1 KiB/s"),
        ([1000], "1 kB/s"),
        ([52_428_800, 20 * MIB], "50 MiB/s"),
        ([1.5 * MIB], "1.5 MiB/s"),
        ([math.inf, 300 * 1024], "unlimited"),
        ([999.9], "1 kB/s"),
        ([123_456_789], "123 MB/s"),
        ([0.0], "0 B/s"),
    ],
)
def test_quotas_are_told_as_they_were_written(quotas: list[float], shown: str) -> None:
    assert Units.of(quotas).rate(quotas[0]) == shown


@pytest.mark.parametrize(
    ("units", "value", "rounded"),
    [
        (Units.BINARY, 4.01 * MIB, 4.1 * MIB),
        (Units.BINARY, 4.0 * MIB, 4.0 * MIB),
        (Units.DECIMAL, 123_456.0, 130_000.0),
        (Units.DECIMAL, 0.0, 0.0),
        (Units.BINARY, 0.9999 * MIB, MIB),
        (Units.DECIMAL, 999_950.0, 1_000_000.0),
        (Units.BINARY, 7.2, 8.0),
    ],
)
def test_what_is_to_be_written_has_two_digits(units: Units, value: float, rounded: float) -> None:
    assert units.rounded_up(value) == pytest.approx(rounded)


@pytest.mark.parametrize(
    ("units", "value", "step"),
    [
        (Units.BINARY, 3.2 * MIB, 5 * MIB),
        (Units.BINARY, 600 * 1024.0, MIB),
        (Units.DECIMAL, 600_000.0, 1_000_000.0),
        (Units.DECIMAL, 1.0, 1.0),
        (Units.DECIMAL, 0.0, 1.0),
    ],
)
def test_an_axis_is_divided_by_whole_units(units: Units, value: float, step: float) -> None:
    assert units.step(value) == pytest.approx(step)


@given(st.sampled_from(Units), st.floats(1, 1e18))
def test_every_size_is_short_and_right(units: Units, value: float) -> None:
    number, unit = units.size(value).split()
    names = ["B", "kB", "MB", "GB", "TB", "PB", "EB"]
    power = names.index(unit.replace("i", "").replace("K", "k"))
    assert float(number) * units.value**power == pytest.approx(value, rel=0.01)
    assert len(number) <= 4
    assert units.rounded_up(value) >= value * 0.999999


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(12.4, "12 s"), (200, "3 min 20 s"), (3720, "1 h 02 min"), (59.6, "1 min 00 s"), (180_000, "2 d 2 h")],
)
def test_durations(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown
