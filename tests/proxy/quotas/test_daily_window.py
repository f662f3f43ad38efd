"""Windows on clocks that jump: tables worked out by hand, then against a model that only looks at the clock, minute by
minute."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from proxy.quotas.daily_window import EVERY_DAY, DailyWindow, first_moment

BERLIN = ZoneInfo("Europe/Berlin")
MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def window(begins: str, ends: str, zone: ZoneInfo | None = BERLIN, days: frozenset[int] = EVERY_DAY) -> DailyWindow:
    return DailyWindow(time.fromisoformat(begins), time.fromisoformat(ends), zone or UTC, days)


# Berlin: 2026-03-29 02:00 -> 03:00 at 01:00 UTC; 2026-10-25 03:00 -> 02:00 at 01:00 UTC. Lord Howe moves by 30 minutes.
@pytest.mark.parametrize(
    ("shown", "zone", "moment"),
    [
        ("2026-03-29T01:59", "Europe/Berlin", "2026-03-29T00:59"),
        ("2026-03-29T02:00", "Europe/Berlin", "2026-03-29T01:00"),  # skipped: when the clock jumps
        ("2026-03-29T02:30", "Europe/Berlin", "2026-03-29T01:00"),
        ("2026-03-29T03:00", "Europe/Berlin", "2026-03-29T01:00"),
        ("2026-03-29T03:30", "Europe/Berlin", "2026-03-29T01:30"),
        ("2026-10-25T02:30", "Europe/Berlin", "2026-10-25T00:30"),  # shown twice: the first time
        ("2026-10-25T03:00", "Europe/Berlin", "2026-10-25T02:00"),
        ("2026-10-04T02:15", "Australia/Lord_Howe", "2026-10-03T15:30"),
        ("2011-12-30T12:00", "Pacific/Apia", "2011-12-30T10:00"),  # a day that never was
        ("2026-06-01T12:00", "UTC", "2026-06-01T12:00"),
    ],
)
def test_a_time_is_the_first_moment_at_which_the_clock_shows_it_or_later(shown: str, zone: str, moment: str) -> None:
    assert first_moment(datetime.fromisoformat(shown), ZoneInfo(zone)) == at(moment)


@pytest.mark.parametrize(
    ("held", "stretch"),
    [
        (window("09:00", "17:00"), ("2026-06-01T07:00", "2026-06-01T15:00")),
        (window("22:00", "06:00"), ("2026-06-01T20:00", "2026-06-02T04:00")),  # over midnight
        (window("22:00", "06:00", days=frozenset({0})), ("2026-06-01T20:00", "2026-06-02T04:00")),  # Monday's night
        (window("22:00", "00:00"), ("2026-06-01T20:00", "2026-06-01T22:00")),
        (window("00:00", "00:00", days=frozenset({5, 6})), ("2026-06-05T22:00", "2026-06-07T22:00")),  # a weekend
        (window("22:00", "06:00", None), ("2026-06-01T22:00", "2026-06-02T06:00")),
    ],
)
def test_a_window_opens_and_closes(held: DailyWindow, stretch: tuple[str, str]) -> None:
    opens, closes = map(at, stretch)
    assert held.next_change(at("2026-06-01T06:30")) == opens
    assert not held.holds(opens - MINUTE)
    assert held.holds(opens)
    assert held.next_change(opens) == closes
    assert held.holds(closes - MINUTE)
    assert not held.holds(closes)


@pytest.mark.parametrize(
    ("held", "day", "stretch"),
    [
        (window("02:30", "04:00"), "2026-03-29", ("01:00", "02:00")),  # begins in the gap
        (window("01:00", "02:30"), "2026-03-29", ("00:00", "01:00")),  # ends in the gap
        (window("02:10", "02:50"), "2026-03-29", None),  # all of it is skipped
        (window("01:00", "04:00"), "2026-03-29", ("00:00", "02:00")),  # two hours long
        (window("02:30", "04:00"), "2026-10-25", ("00:30", "03:00")),  # begins when 02:30 is first shown
        (window("01:00", "02:30"), "2026-10-25", ("-1:00", "00:30")),  # ends when it is first shown
        (window("02:10", "02:50"), "2026-10-25", ("00:10", "00:50")),  # once, not twice
        (window("01:00", "04:00"), "2026-10-25", ("-1:00", "03:00")),  # four hours long
    ],
)
def test_where_the_clock_jumps(held: DailyWindow, day: str, stretch: tuple[str, str] | None) -> None:
    midnight = at(day)
    held_minutes = [m for m in range(-120, 600) if held.holds(midnight + m * MINUTE)]
    if stretch is None:
        assert held_minutes == []
        return
    first, last = (int(t.split(":")[0]) * 60 + int(t.split(":")[1]) for t in stretch)
    assert held_minutes == list(range(first, last))


@pytest.mark.parametrize("held", [DailyWindow(), window("00:00", "00:00")])
def test_always_never_changes(held: DailyWindow) -> None:
    assert held.holds(at("2026-06-01T05:00"))
    assert held.next_change(at("2026-06-01T05:00")) is None


# The model: what does the clock show, minute by minute? It knows neither fold nor gap.


@cache
def clock(zone: str, around: date) -> list[tuple[datetime, datetime]]:
    """Every minute of 13 days and what the clock then shows."""
    start = datetime.combine(around, time(), UTC) - 4 * DAY
    moments = (start + MINUTE * n for n in range(13 * 24 * 60))
    return [(moment, moment.astimezone(ZoneInfo(zone)).replace(tzinfo=None, fold=0)) for moment in moments]


def minutes_held(held: DailyWindow, zone: str, around: date) -> set[datetime]:
    """A window of each day is what lies between the first minute that shows its beginning or later and the first that
    shows its end or later."""
    shown = clock(zone, around)
    found: set[datetime] = set()
    for day in (around + DAY * n for n in range(-3, 5)):
        if day.weekday() not in held.days:
            continue
        ends_on = day if held.begins < held.ends else day + DAY
        begin, end = datetime.combine(day, held.begins), datetime.combine(ends_on, held.ends)
        first = next(n for n, (_, wall) in enumerate(shown) if wall >= begin)
        last = next(n for n, (_, wall) in enumerate(shown) if wall >= end)
        found |= {moment for moment, _ in shown[first:last]}
    return found


ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "Asia/Kathmandu",
         "Antarctica/Troll", "America/Sao_Paulo", "Pacific/Apia", "UTC")  # fmt: skip
JUMPS = (date(2026, 3, 29), date(2026, 10, 25), date(2026, 3, 8), date(2026, 11, 1), date(2026, 4, 5),
         date(2026, 10, 4), date(2018, 11, 4), date(2011, 12, 30), date(2026, 2, 15), date(2026, 3, 22))  # fmt: skip
TIMES = st.builds(time, st.integers(0, 23), st.sampled_from([0, 1, 15, 30, 59]))


@settings(max_examples=60)
@given(
    zone=st.sampled_from(ZONES),
    around=st.one_of(st.sampled_from(JUMPS), st.dates(date(2020, 1, 1), date(2035, 1, 1))),
    begins=TIMES,
    ends=TIMES,
    days=st.frozensets(st.integers(0, 6), min_size=1),
)
@example(zone="Pacific/Apia", around=date(2011, 12, 30), begins=time(12), ends=time(13), days=frozenset({4}))
@example(zone="America/Sao_Paulo", around=date(2018, 11, 4), begins=time(), ends=time(1), days=EVERY_DAY)
def test_it_holds_as_the_clock_shows_minute_by_minute(
    zone: str, around: date, begins: time, ends: time, days: frozenset[int]
) -> None:
    held = DailyWindow(begins, ends, ZoneInfo(zone), days)
    expected = minutes_held(held, zone, around)
    start = datetime.combine(around, time(), UTC) - DAY
    minutes = [start + MINUTE * n for n in range(3 * 24 * 60)]
    changes = [m for before, m in pairwise(minutes) if (before in expected) != (m in expected)]
    # `holds` where it can go wrong and here and there; `next_change` from one change to the next.
    for moment in {*minutes[::60], *changes, *(change - MINUTE for change in changes)}:
        assert held.holds(moment) == (moment in expected), moment
    now, found = minutes[0], []
    while (change := held.next_change(now)) is not None and change <= minutes[-1]:
        found.append(change)
        now = change
    assert found == changes
