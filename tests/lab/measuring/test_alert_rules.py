"""Minutes become seconds, and nothing else changes."""

from __future__ import annotations

import pytest

from lab.measuring.alert_rules import hurried, seconds_of


@pytest.mark.parametrize(("duration", "seconds"), [("30s", 30), ("10m", 600), ("1h", 3600), ("1d", 86400)])
def test_durations(duration: str, seconds: float) -> None:
    assert seconds_of(duration) == seconds


def test_ranges_and_waits_are_shortened_within_bounds() -> None:
    rules = "expr: rate(a[5m]) > 10 and last_over_time(b[1d])\nfor: 1h\nfor: 2m\nfor: 5m\nexpr: a unless a offset 15m\n"
    assert hurried(rules) == (
        "expr: rate(a[4000ms]) > 10 and last_over_time(b[5000ms])\nfor: 3000ms\nfor: 1000ms\nfor: 2500ms\n"
        "expr: a unless a offset 5000ms\n"
    )


def test_what_is_no_duration_stays() -> None:
    rules = "# for: ever\nexpr: x:rate5m{a='5m'} - time() < 1800\ndescription: for 10m or so\n"
    assert hurried(rules) == rules
