"""What is drawn, and what is not."""

from __future__ import annotations

import math
import re

from pipeline.report.buckets import Cell, Grid
from pipeline.report.heat_map import lag_map, share_map
from pipeline.report.outlier import End, Outlier, Point, Side
from pipeline.report.plots import broken, outlier_plot
from pipeline.units import Units

FIRST = 1_795_250_400
MB = 1_000_000
SPOKEN = (*range(20), *range(920, 940))
"""Two recordings fifteen silent minutes apart."""


def lines_of(svg: str, colour: str) -> int:
    """How many unbroken lines of that colour there are: each begins with a move."""
    drawn = [path for path in re.findall(r"<path[^>]*>", svg) if f"stroke: var({colour})" in path]
    return sum(len(re.findall(r"M ", path)) for path in drawn)


def side(*, rates: bool = False, lags: bool = False, **values: object) -> Side:
    points = tuple(Point(FIRST + at, 5 * MB if rates else None, None, 9.0 * MB if lags else None) for at in SPOKEN)
    return Side("leader", points, (), None)._replace(**values)


def drawn(one: Side) -> str:
    return outlier_plot(Outlier(101, (one,), 0, ()), Units.DECIMAL, 1)


def test_a_lag_is_not_drawn_through_silence() -> None:
    assert lines_of(drawn(side(lags=True)), "--leader") - lines_of(drawn(side()), "--leader") == 2


def test_neither_is_a_rate() -> None:
    """One line more is the legend's."""
    assert lines_of(drawn(side(rates=True)), "--leader") - lines_of(drawn(side()), "--leader") == 2


def test_points_that_stand_for_minutes_are_joined_while_there_is_one_in_each() -> None:
    points = [Point(FIRST + 120 * at, 1, None, None) for at in (0, 1, 2, 5)]
    _, found = broken(points, 120)
    assert found == [0, 1, 2, None, 3]


def test_a_change_of_quota_is_marked_and_an_unlimited_one_is_no_height() -> None:
    quotas = ((FIRST, 5.0 * MB), (FIRST + 10, 8.0 * MB), (FIRST + 15, math.inf))
    assert lines_of(drawn(side(rates=True, quotas=quotas)), "--limit") == 2
    assert lines_of(drawn(side(rates=True, quotas=quotas[:1])), "--limit") == 0


def test_a_lag_that_shrinks_has_a_projection_and_one_that_nobody_knows_of_has_none() -> None:
    ending = End(FIRST + 939, 9.0 * MB, 60.0, 50.0, 80.0)
    unknown = End(FIRST + 939, 9.0 * MB, None, None, None)
    plain = drawn(side(lags=True))
    assert drawn(side(lags=True, end=ending)).count("--leader-band") == plain.count("--leader-band") + 1
    assert drawn(side(lags=True, end=unknown)).count("--leader-band") == plain.count("--leader-band")


def test_a_square_says_what_it_is_and_one_over_its_bound_has_a_frame() -> None:
    """Two roles in three columns; nobody spoke in one, and names from a journal are escaped."""
    cells = {
        (101, "leader", 0): Cell(0.5, 1.2, broken=False, lag_bytes=4e6),
        (101, "leader", 2): Cell(0.9, 2.0, broken=True, lag_bytes=0.0),
        (102, "<b>", 1): Cell(None, None, broken=False, lag_bytes=2e6),
    }
    grid = Grid(((101, "leader"), (102, "<b>")), 2, FIRST, 60, 3, cells, 4e6)
    shares, lags = share_map(grid), lag_map(grid, Units.DECIMAL)
    assert shares.count("<rect ") == lags.count("<rect ") == 3
    assert shares.count('class="broken"') == 1
    assert lags.count('class="broken"') == 0
    assert "101 leader, 08:42:00: 90% of its quota, the worst second 2.00 x, over its bound" in shares
    assert "101 leader, 08:40:00: 4 MB behind" in lags
    assert "fill-opacity:0.53" in shares
    assert "<b>" not in shares + lags
