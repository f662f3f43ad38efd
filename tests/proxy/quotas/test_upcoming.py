"""What is told to be ahead is what `effective` says when the time has come."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.quotas.reading import parse_quotas
from proxy.quotas.rules import changes_ahead, effective

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def told(file: str, broker_id: int = 1, most: int = 4) -> list[tuple[datetime, float, float]]:
    ahead = changes_ahead(parse_quotas(file.encode()), broker_id, NOW)
    return [
        (change.at, change.before.leader.bytes_per_second, change.after.leader.bytes_per_second)
        for change in islice(ahead, most)
    ]


ENDING = f"""
[brokers.default]
leader.replication.throttled.rate = 10
until = {NOW + 2 * HOUR}
[brokers.1]
leader.replication.throttled.rate = 30
until = {NOW + HOUR}
"""


def test_each_end_is_a_change() -> None:
    assert told(ENDING) == [(NOW + HOUR, 30, 10), (NOW + 2 * HOUR, 10, math.inf)]


def test_what_changes_nothing_is_no_change() -> None:
    assert told(ENDING.replace("= 30", "= 10")) == [(NOW + 2 * HOUR, 10, math.inf)]
    assert told(ENDING, broker_id=2) == [(NOW + 2 * HOUR, 10, math.inf)]


def test_without_an_end_nothing_is_ahead() -> None:
    assert told("# nothing") == []


@st.composite
def files(draw: st.DrawFn) -> str:
    """Sections of a few brokers that end within a day or two."""
    lines = []
    for name in draw(st.lists(st.sampled_from(["default", "1", "2"]), unique=True)):
        lines += [f"[brokers.{name}]", f"leader.replication.throttled.rate = {draw(st.integers(1, 3))}"]
        if draw(st.booleans()):
            lines.append(f"until = {(NOW + draw(st.integers(-5, 40)) * HOUR).isoformat()}")
    return "\n".join(lines) or "# nothing"


@settings(max_examples=50)
@given(files())
def test_every_change_is_told_and_no_other(file: str) -> None:
    """Looked at hour by hour for two days."""
    quota_file = parse_quotas(file.encode())
    hourly = [(NOW + n * HOUR, effective(quota_file, 1, NOW + n * HOUR)) for n in range(48)]
    seen = [
        (at, before.leader.bytes_per_second, after.leader.bytes_per_second)
        for (_, before), (at, after) in pairwise(hourly)
        if not after.means_the_same_as(before)
    ]
    ahead = [change for change in told(file, most=96) if change[0] < NOW + 48 * HOUR]
    assert ahead == seen
    for (at, quotas), (later, _) in pairwise(hourly):
        assert quotas.next_change is None or quotas.next_change > at
        if quotas.next_change is None or quotas.next_change > later:
            assert quotas.means_the_same_as(effective(quota_file, 1, later))
