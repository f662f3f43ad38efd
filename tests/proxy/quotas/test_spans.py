"""Spans of time, as they are written and told."""

from __future__ import annotations

from datetime import timedelta

import pytest

from proxy.errors import InvalidValueError
from proxy.quotas.units import format_span, parse_span


@pytest.mark.parametrize(
    ("text", "hours"), [("2h", 2), ("90m", 1.5), ("1d12h", 36), ("3600s", 1), (" 366d ", 366 * 24), ("1h30m", 1.5)]
)
def test_a_span_is_days_hours_minutes_and_seconds(text: str, hours: float) -> None:
    span = parse_span(text)
    assert span == timedelta(hours=hours)
    assert parse_span(format_span(span)) == span


@pytest.mark.parametrize("value", ["", "2", "h", "0s", "367d", "1w", "2h!", "2 h", "-1h", "1m2h", 7200, None, "٢h"])
def test_anything_else_is_refused_with_what_was_found(value: object) -> None:
    with pytest.raises(InvalidValueError, match="expected a time like 2h, 90m or 1d12h"):
        parse_span(value)
