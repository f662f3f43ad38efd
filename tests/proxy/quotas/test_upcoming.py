"""What is told to be ahead is what `effective` says when the time has come."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.quotas.reading import parse_quotas
from proxy.quotas.rules import effective
from proxy.quotas.upcoming import changes_ahead

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
NIGHTS = """
[brokers.default]
leader.replication.throttled.rate = 10
[[schedules]]
from = 22:00:00
to = 06:00:00
timezone = "Europe/Berlin"
days = ["sun", "mon"]
[schedules.brokers.default]
leader.replication.throttled.rate = 30
"""


def told(file: str, broker_id: int = 1, most: int = 4) -> list[tuple[datetime, float, float]]:
    ahead = changes_ahead(parse_quotas(file.encode()), broker_id, NOW)
    return [
        (change.at, change.before.leader.bytes_per_second, change.after.leader.bytes_per_second)
        for change in islice(ahead, most)
    ]


def test_a_week_of_nights() -> None:
    assert told(NIGHTS) == [
        (datetime(2026, 11, 1, 21, tzinfo=UTC), 10, 30),  # a Sunday
        (datetime(2026, 11, 2, 5, tzinfo=UTC), 30, 10),
        (datetime(2026, 11, 2, 21, tzinfo=UTC), 10, 30),
        (datetime(2026, 11, 3, 5, tzinfo=UTC), 30, 10),
    ]


def test_what_changes_nothing_is_no_change() -> None:
    assert told(NIGHTS.replace("= 30", "= 10")) == []
    assert told(NIGHTS.replace("[schedules.brokers.default]", "[schedules.brokers.7]")) == []
    own = NIGHTS + "[brokers.1]\nleader.replication.throttled.rate = 5\n"
    assert told(own) == []
    assert len(told(own, broker_id=2)) == 4


def test_without_an_end_nothing_is_ahead() -> None:
    assert told("# nothing") == []


@st.composite
def files(draw: st.DrawFn) -> str:
    """Hourly schedules and untils of a few brokers, within a day or two."""
    hour = st.integers(0, 23)
    lines = []
    for name in draw(st.lists(st.sampled_from(["default", "1", "2"]), unique=True)):
        lines += [f"[brokers.{name}]", f"leader.replication.throttled.rate = {draw(st.integers(1, 3))}"]
        if draw(st.booleans()):
            lines.append(f"until = {(NOW + draw(st.integers(-5, 40)) * HOUR).isoformat()}")
    for _ in range(draw(st.integers(0, 3))):
        begins, ends = draw(hour), draw(hour)
        lines.append("[[schedules]]")
        if begins != ends:
            lines += [f'from = "{begins:02}:00"', f'to = "{ends:02}:00"']
        if begins == ends or draw(st.booleans()):
            lines.append(f"until = {(NOW + draw(st.integers(-5, 40)) * HOUR).isoformat()}")
        section = draw(st.sampled_from(["default", "1"]))
        lines += [f"[schedules.brokers.{section}]", f"leader.replication.throttled.rate = {draw(st.integers(1, 3))}"]
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
