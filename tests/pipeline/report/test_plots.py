"""What is drawn, and what is not."""

from __future__ import annotations

import re

from pipeline.report.facts import LagPoint, Point, Series
from pipeline.report.plots import broken, lag_plot, rate_plot

FIRST = 1_795_250_400


def lines_of(svg: str, colour: str) -> int:
    """How many lines of that colour a path has: each begins with a move."""
    drawn = [path for path in re.findall(r"<path[^>]*>", svg) if f"stroke: var({colour})" in path]
    return sum(len(re.findall(r"M ", path)) for path in drawn)


def test_a_lag_is_not_drawn_through_silence() -> None:
    """Two recordings fifteen silent minutes apart, of which the first ends behind."""
    points = [LagPoint(FIRST + at, 1000.0, None) for at in (*range(20), *range(920, 940))]
    assert lines_of(lag_plot(101, "leader", points, 1), "--rate") == 2
    assert lines_of(lag_plot(101, "leader", points[:20], 1), "--rate") == 1


def test_neither_is_a_rate() -> None:
    """One line more is the legend's."""
    points = tuple(Point(FIRST + at, 5.0, 6.0, 10.0) for at in (*range(20), *range(920, 940)))
    assert lines_of(rate_plot(Series(101, "leader", points), 1), "--rate") == 2 + 1


def test_points_that_stand_for_minutes_are_joined_while_there_is_one_in_each() -> None:
    points = [LagPoint(FIRST + 120 * at, 1.0, None) for at in (0, 1, 2, 5)]
    _, drawn = broken(points, 120)
    assert drawn == [0, 1, 2, None, 3]
