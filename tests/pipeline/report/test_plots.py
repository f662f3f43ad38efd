"""What is drawn, and what is not."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import ZipFile

import pytest
from pyspark.sql import Row

from pipeline.model.broker_pairs import Pair
from pipeline.model.duration_curve import FACTORS
from pipeline.model.pace import End
from pipeline.questions.answer import moment
from pipeline.report.buckets import Cell, Columns, Grid, whole_step
from pipeline.report.drawing import figure
from pipeline.report.facts import Curve
from pipeline.report.outlier import LagEnd, Outlier, Point, Side, sides, thinned
from pipeline.report.overviews import curve_plot, moves_plot, share_map
from pipeline.report.page import lag_at_the_end
from pipeline.report.plots import broken, outlier_plot
from pipeline.units import Units

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pipeline.report.drawing import Spec

ROOT = Path(__file__).parents[3]
FIRST = 1_795_250_400
MB = 1_000_000
MIB = 1 << 20
SPOKEN = (*range(20), *range(920, 940))
"""Two recordings fifteen silent minutes apart."""


def side(*, rates: bool = False, lags: bool = False, **values: object) -> Side:
    points = tuple(Point(FIRST + at, 5 * MB if rates else None, None, 9.0 * MB if lags else None) for at in SPOKEN)
    return Side("leader", points, (), None)._replace(**values)


def layers(spec: Spec, kind: str) -> Iterator[Spec]:
    """All layers with marks of that kind, of all its plots."""
    for view in spec.get("vconcat", [spec]):
        yield from (layer for layer in view["layer"] if layer["mark"]["type"] == kind)


def drawn(one: Side, units: Units = Units.DECIMAL) -> Spec:
    found = outlier_plot(Outlier(101, (one,), 0, ()), units, 1)
    assert found is not None
    return found


def lines(one: Side) -> list[list[dict[str, Any]]]:
    """The values of each line, in the order of its layers."""
    return [layer["data"]["values"] for layer in layers(drawn(one), "line")]


@pytest.mark.parametrize("one", [side(lags=True), side(rates=True)], ids=["lag", "rate"])
def test_no_line_is_drawn_through_silence(one: Side) -> None:
    (values,) = lines(one)
    assert [row["at"] for row in values if row["value"] is None] == [1000 * (FIRST + 20)]
    assert len(values) == len(SPOKEN) + 1
    (layer,) = layers(drawn(one), "line")
    assert layer["mark"]["invalid"] == "break-paths-show-domains"


def test_points_that_stand_for_minutes_are_joined_while_there_is_one_in_each() -> None:
    points = [Point(FIRST + 120 * at, 1, None, None) for at in (0, 1, 2, 5)]
    found = [point for _, point in broken(points, 120)]
    assert found == [*points[:3], None, points[3], points[3]]


def test_a_point_alone_is_seen_for_as_long_as_it_stands_for() -> None:
    """Three hours in which something moved, in a month in which nothing else did."""
    points = [Point(FIRST + at, 1, None, None) for at in (0, 86_400, 97_200)]
    found = broken(points, 10_800)
    assert [at - FIRST for at, _ in found] == [0, 10_800, 10_801, 86_400, 97_200]
    assert [point for _, point in found] == [points[0], points[0], None, *points[1:]]


def test_each_change_of_a_night_and_a_day_is_in_the_line_of_the_quota_alone() -> None:
    quotas = tuple((FIRST + 30 * at, (5.0 + at % 2) * MB) for at in range(20))
    spec = drawn(side(rates=True, quotas=quotas))
    assert {layer["name"] for layer in layers(spec, "rule")} == {"at_rate"}
    assert len(lines(side(rates=True, quotas=quotas))[1]) == 21


def test_a_change_of_quota_is_marked_and_an_unlimited_one_is_no_height() -> None:
    quotas = ((FIRST, 5.0 * MB), (FIRST + 10, 8.0 * MB), (FIRST + 15, math.inf))
    spec = drawn(side(rates=True, quotas=quotas))
    marked = [row["told"] for layer in layers(spec, "rule") for row in layer["data"].get("values", ()) if "told" in row]
    assert marked == ["5 MB/s → 8 MB/s", "8 MB/s → unlimited"]
    _, limits = lines(side(rates=True, quotas=quotas))
    assert [row["value"] for row in limits] == [5 * MB, 8 * MB, None, None]
    assert {layer["name"] for layer in layers(drawn(side(rates=True, quotas=quotas[:1])), "rule")} == {"at_rate"}


def bucket(at: int, **values: object) -> Row:
    """A minute as leader, in which 5 MB/s moved."""
    said = {"role": "leader", "bucket": at, "bytes": 300 * MB, "worst_bytes": 5 * MB, "lag": None, "lag_bytes": None}
    return Row(**{**said, "most_lag_bytes": None, "last_second": at + 59, "broker": 101, **values})


def test_a_quota_that_was_over_before_the_first_point_leaves_the_axis_alone() -> None:
    """Quotas are read from the beginning of the tables."""
    changes = ((FIRST - 600, 1000.0 * MB), (FIRST - 60, 8.0 * MB), (FIRST + 60, 9.0 * MB))
    quotas = [Row(role="leader", since=since, limit=limit) for since, limit in changes]
    (one,) = sides([bucket(FIRST + 60 * at) for at in range(5)], quotas, {})
    assert one.quotas == changes[1:]
    _, limits = lines(one)
    assert [row["value"] for row in limits] == [8 * MB, 9 * MB, 9 * MB]


def test_of_quotas_that_ended_before_anything_moved_the_last_one_is_drawn() -> None:
    """The first points have a lag alone."""
    quotas = ((FIRST, 1000.0 * MB), (FIRST + 1, 8.0 * MB))
    silent = side(rates=True).points[2:]
    assert [row["value"] for row in lines(side(quotas=quotas, points=silent))[1]] == [8 * MB, 8 * MB]


def test_of_very_many_quotas_the_largest_and_the_last_between_two_points_are_drawn() -> None:
    many = [(FIRST + at, 5.0 * MB + at % 7) for at in range(3000)]
    assert thinned(many[:1000], [FIRST]) == many[:1000]
    found = thinned(many, [FIRST, FIRST + 1500])
    assert found == [(FIRST + 6, 5.0 * MB + 6), many[1499], (FIRST + 1504, 5.0 * MB + 6), many[2999]]


@pytest.mark.parametrize(("left", "shown"), [(0.0, [3e6, 9e6]), (2e6, [3e6, 2e6])])
def test_a_lag_that_comes_and_goes_within_a_bucket_is_seen(left: float, shown: list[float]) -> None:
    """Where it is still there at the end, the line ends where it stood last."""
    rows = [
        Row(
            role="leader", bucket=at, bytes=1, worst_bytes=2, lag=int(lag), lag_bytes=lag, most_lag_bytes=most,
            last_second=at, broker=101,
        )
        for at, lag, most in ((0, 0.0, 3e6), (10_800, left, 9e6))
    ]  # fmt: skip
    (one,) = sides(rows, [], {})
    assert [point.lag_bytes for point in one.points] == shown
    assert (one.end is not None) == (left > 0)


def test_a_lag_that_shrinks_has_a_projection_and_one_that_nobody_knows_of_has_none() -> None:
    ending = LagEnd(FIRST + 939, 9.0 * MB, End(60.0, 50.0, 80.0))
    unknown = LagEnd(FIRST + 939, 9.0 * MB, End(None, None, None))
    (band,) = layers(drawn(side(lags=True, end=ending)), "area")
    rows = band["data"]["values"]
    assert (rows[0]["value"], rows[0]["to"]) == (9 * MB, 9 * MB)
    assert (rows[-1]["value"], rows[-1]["to"]) == (0, 0)
    assert all(row["value"] <= row["to"] for row in rows)
    assert len(lines(side(lags=True, end=ending))) == 2
    assert not list(layers(drawn(side(lags=True, end=unknown)), "area"))


def test_a_lag_of_an_unknown_size_is_not_drawn_as_none() -> None:
    """The page said "0 B behind", beside a flat line; now its list has the messages."""
    ending = LagEnd(FIRST + 939, None, End(None, None, None), 999_900)
    assert not list(layers(drawn(side(rates=True, end=ending)), "area"))
    assert outlier_plot(Outlier(101, (side(end=ending),), 0, ()), Units.DECIMAL, 1) is None
    assert lag_at_the_end(ending, Units.DECIMAL) == "999,900 messages, in bytes not known,"
    assert lag_at_the_end(ending._replace(lag_bytes=9e6), Units.DECIMAL) == "9 MB"


def test_a_pointer_is_told_in_the_units_of_the_quotas_and_both_plots_move_together() -> None:
    quotas = ((FIRST, 4.0 * MIB), (FIRST + 930, 8.0 * MIB))
    spec = drawn(side(rates=True, lags=True, quotas=quotas), Units.BINARY)
    told = [layer for layer in layers(spec, "rule") if "name" in layer]
    assert [layer["name"] for layer in told] == spec["params"][0]["views"] == ["at_rate", "at_lag"]
    assert [layer["data"] for layer in told] == [{"name": "told"}] * 2
    rows = spec["datasets"]["told"]
    assert len(rows) == len(SPOKEN)
    assert (rows[0]["leader"], rows[0]["leader_behind"]) == ("4.77 MiB/s of 4 MiB/s", "8.58 MiB")
    assert rows[-1]["leader"] == "4.77 MiB/s of 8 MiB/s"
    axis = next(layers(spec, "line"))["encoding"]["y"]["axis"]
    assert axis["values"] == [0, 2 * MIB, 4 * MIB, 6 * MIB, 8 * MIB]
    assert axis["labelExpr"].startswith('({"0": "0 B/s", "2097152": "2 MiB/s"')


@pytest.mark.parametrize(
    ("one", "views"), [(side(lags=True), ["at_lag"]), (side(rates=True), ["at_rate"])], ids=["lag", "rate"]
)
def test_where_nothing_moved_or_nobody_was_behind_the_other_plot_stands_alone(one: Side, views: list[str]) -> None:
    """Vega-Lite fails at a plot without a line: `report` ended in a traceback."""
    spec = drawn(one)
    assert [param.get("views") for param in spec["params"]] == [views] * 2
    assert len(spec["vconcat"]) == 1
    assert 'role="img"' in figure(spec, "one of two")


def test_where_there_is_nothing_to_draw_nothing_is_drawn() -> None:
    assert outlier_plot(Outlier(101, (side(),), 0, ()), Units.DECIMAL, 1) is None


def test_bars_are_as_long_as_the_moves_and_as_dark_as_they_ended() -> None:
    pairs = (
        Pair("101", "102", 4, 1, 8 * MIB, FIRST, FIRST + 100, 0.5), Pair("103", "102", 1, 1, 0, FIRST, FIRST, 0.0)
    )  # fmt: skip
    rows = moves_plot(pairs, Units.BINARY)["data"]["values"]
    assert [(row["at"], row["done"], row["to"]) for row in rows] == [
        (1000 * FIRST, 1000 * (FIRST + 75), 1000 * (FIRST + 100)),
        (1000 * FIRST, 1000 * FIRST, 1000 * (FIRST + 1)),
    ]
    assert [row["told"] for row in rows] == ["101 → 102: 3 of 4 ended, 8 MiB", "103 → 102: 0 of 1 ended, 0 B"]


def test_the_curve_has_what_was_recorded_on_it_and_nothing_of_what_never_ends() -> None:
    curve = Curve(((1.0 * MIB, math.inf), (2.0 * MIB, 40.0), (4.0 * MIB, 20.0)), (2.0 * MIB, 41.0), 4.0 * MIB)
    spec = curve_plot(curve, Units.BINARY)
    (line,), (point,) = layers(spec, "line"), layers(spec, "point")
    assert [row["took"] for row in spec["datasets"][line["data"]["name"]]] == ["40 s", "20 s"]
    assert [(row["quota"], row["value"]) for row in point["data"]["values"]] == [(2 * MIB, 41)]
    assert line["encoding"]["y"]["axis"]["values"] == [20, 30]


@pytest.mark.parametrize("highest", [2.0 * MIB, 5_452_595.2, 1e6 / 3, 4.6e6 + 1 / 3])
def test_the_axis_of_the_quota_has_its_numbers_whatever_the_quota(highest: float) -> None:
    """After a change the quota is a mean with many digits: the axis' names were looked up by fewer of them."""
    points = tuple((highest * factor, 100.0 / factor) for factor in FACTORS)
    still = figure(curve_plot(Curve(points, None, None), Units.DECIMAL), "what if").partition("<script")[0]
    shown = [Units.DECIMAL.rate(quota) for quota, _ in points][::2]
    assert sum(f">{rate}</text>" in still for rate in shown) >= 4


def test_whole_days_on_an_axis_are_short_enough_for_its_labels() -> None:
    hour = 3600.0
    curve = Curve(((1.0 * MIB, 200 * hour), (2.0 * MIB, 24 * hour), (4.0 * MIB, 0.5 * hour)), None, None)
    (line,) = layers(curve_plot(curve, Units.BINARY), "line")
    shown = json.loads(line["encoding"]["y"]["axis"]["labelExpr"].partition("(")[2].partition(")[")[0])
    assert list(shown.values()) == ["30 min", "2 h", "10 h", "2 d"]


def test_what_moved_for_an_hour_of_a_long_square_is_seen_all_the_same() -> None:
    cells = {(101, "leader", 0): Cell(0.05, 1.0, False), (101, "leader", 1): Cell(0.1, 1.0, False)}
    grid = Grid(((101, "leader"),), 1, Columns(FIRST, 43_200, 2), cells)
    rows = share_map(grid)["data"]["values"]
    assert [row["strength"] for row in rows] == [0.5, 1.0]
    assert rows[0]["says"] == "5% of its quota, the worst second 1.00 x"


@pytest.mark.parametrize(("least", "step"), [(1, 1), (18, 20), (8956, 10_800), (86_400, 86_400), (86_401, 172_800)])
def test_steps_of_time_are_those_in_which_people_count(least: int, step: int) -> None:
    assert whole_step(least) == step


def test_a_drawing_is_seen_without_a_script_and_has_no_colour_of_its_own() -> None:
    """Each of them is drawn by Vega; a name from a journal can end neither the drawing nor its data."""
    pairs = (Pair("</script><b>", "102", 1, 0, 8 * MIB, FIRST, FIRST + 100, 0.5),)
    quotas = ((FIRST, 5.0 * MB), (FIRST + 10, 8.0 * MB))
    ending = LagEnd(FIRST + 939, 9.0 * MB, End(60.0, 50.0, 80.0))
    specs = (
        drawn(side(rates=True, lags=True, quotas=quotas, end=ending)),
        moves_plot(pairs, Units.BINARY),
        curve_plot(Curve(((1.0 * MB, 40.0), (2.0 * MB, 20.0)), (1.0 * MB, 41.0), 2.0 * MB), Units.DECIMAL),
    )
    for spec in specs:
        text = figure(spec, "what <it> is")
        still, _, data = text.partition('<script type="application/json">')
        assert 'role="img" aria-label="what &lt;it&gt; is"' in still
        assert "<b>" not in text
        assert data.count("<") == data.count("</") == 2  # the ends of the script and of the figure
        assert "#" not in still.replace("url(#", "")
        assert "var(--" in still


def test_a_square_says_what_it_is_and_one_over_its_bound_has_a_frame() -> None:
    """Two roles in three columns; nobody spoke in one, and names from a journal are escaped."""
    cells = {
        (101, "leader", 0): Cell(0.5, 1.2, broken=False),
        (101, "leader", 2): Cell(0.9, 2.0, broken=True),
        (102, "<b>", 1): Cell(None, None, broken=False),
    }
    grid = Grid(((101, "leader"), (102, "<b>")), 2, Columns(FIRST, 60, 3), cells)
    spec = share_map(grid)
    told = {(row["row"], row["when"]): (row["says"], row["framed"]) for row in spec["data"]["values"]}
    over = "90% of its quota, the worst second 2.00 x, over its bound"
    assert told == {
        ("101 leader", moment(FIRST)): ("50% of its quota, the worst second 1.20 x", False),
        ("101 leader", moment(FIRST + 120)): (over, True),
        ("102 <b>", moment(FIRST + 60)): ("nothing moved under a quota", False),
    }
    shown = figure(spec, "shares")
    assert shown.partition("<script")[0].count('stroke="var(--bad)"') == 1
    assert "<b>" not in shown


def test_what_the_page_is_made_of_can_be_in_an_archive(tmp_path: Path) -> None:
    """As `--py-files` takes it: a path beside the module is no file then."""
    archive = tmp_path / "code.zip"
    with ZipFile(archive, "w") as made:
        for path in (ROOT / "pipeline").rglob("*"):
            if path.is_file() and path.suffix != ".pyc":
                made.write(path, path.relative_to(ROOT))
    program = (
        "from pipeline.report import drawing, page; print(page.__file__, len(drawing.library())); page._template()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env={**os.environ, "PYTHONPATH": f"{archive}:{ROOT}"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(str(archive))
