from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.measuring.figures import (
    Answer,
    Asked,
    Event,
    deviation,
    events,
    fetch_versions,
    fetches_per_second,
    figures,
    seconds_bins,
    within,
    worst_window,
)

SAMPLES = [
    Asked(1.0, 101, 102, 3),
    Answer(1.5, 101, 102, 3, (("orders", 0, 100), ("orders", 1, 20), ("other", 0, 7))),
    Asked(1.6, 101, 103, 3),
    Answer(1.7, 101, 103, 3, (("orders", 0, 50),)),
    Asked(2.0, 104, 102, 5),
    Answer(2.1, 104, 102, 5, (("orders", 2, 9),)),
    Answer(2.2, 104, 102, 5, ()),
]


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ({}, [Event(1.5, 120), Event(1.7, 50), Event(2.1, 9)]),
        ({"follower": 102}, [Event(1.5, 120), Event(2.1, 9)]),
        ({"leader": 101}, [Event(1.5, 120), Event(1.7, 50)]),
        ({"leader": 104, "follower": 103}, []),
    ],
)
def test_events_are_the_record_bytes_of_one_topic(ends: dict[str, int], expected: list[Event]) -> None:
    assert events(SAMPLES, topic="orders", **ends) == expected


def test_figures_by_hand() -> None:
    # Bins from the first byte (t=11): [40+60, 0, 50, 10]; the middle two are 0 and 50: deviation 25.
    found = [Event(11.0, 40), Event(11.9, 60), Event(13.0, 50), Event(14.5, 10)]
    seen = figures(found, start=10.0)
    assert seen.total_bytes == 160
    assert seen.duration_seconds == 4.5
    assert seen.mean == pytest.approx(160 / 4.5)
    assert seen.worst_second == 100
    assert seen.worst_window == pytest.approx(160 / 11)
    assert seen.first_second == 100
    assert seen.deviation == 25


@pytest.mark.parametrize(
    ("found", "seconds", "worst"),
    [
        ([], 1.0, 0),
        ([Event(0.0, 5)], 1.0, 5),
        # Across the boundary of two grid seconds: a tumbling window would see 10.
        ([Event(0.9, 10), Event(1.1, 10)], 1.0, 20),
        # Exactly one second apart is not the same second.
        ([Event(0.0, 10), Event(1.0, 10)], 1.0, 10),
        ([Event(0.0, 1), Event(5.0, 2), Event(10.0, 4), Event(12.0, 8)], 11.0, 14),
    ],
)
def test_worst_window(found: list[Event], seconds: float, worst: int) -> None:
    assert worst_window(found, seconds) == worst


@given(
    st.lists(st.tuples(st.integers(0, 200), st.integers(1, 1000)), max_size=40),
    st.integers(1, 50),
)
def test_worst_window_is_what_trying_every_window_finds(pairs: list[tuple[int, int]], seconds: int) -> None:
    found = sorted(Event(float(t), size) for t, size in pairs)
    every = [sum(e.size_bytes for e in within(found, start.t, start.t + seconds)) for start in found]
    assert worst_window(found, float(seconds)) == max(every, default=0)


def test_silent_seconds_count_as_zero() -> None:
    assert seconds_bins([Event(0.5, 1), Event(3.6, 2)]) == [1, 0, 0, 2]
    assert seconds_bins([]) == []


def test_a_short_move_has_no_deviation() -> None:
    assert deviation([Event(0.0, 5), Event(1.0, 6), Event(2.0, 7)]) == 0.0


def test_fetches_per_second_counts_requests_of_the_half_open_range() -> None:
    assert fetches_per_second(SAMPLES, start=1.0, end=2.0) == 2.0
    assert fetches_per_second(SAMPLES, start=1.0, end=3.0, follower=102) == 1.0
    assert fetches_per_second(SAMPLES, start=2.0, end=2.0) == 0.0


def test_fetch_versions_are_counted_by_requests() -> None:
    assert fetch_versions(SAMPLES) == {3: 2, 5: 1}


@pytest.mark.parametrize("found", [[], [Event(1.0, 5)]])
def test_figures_need_events_after_the_start(found: list[Event]) -> None:
    with pytest.raises(ValueError, match="at least one event"):
        figures(found, start=2.0)
