"""Drawings of all brokers and links by time, of what moved, and of how long it takes by the quota, in Vega-Lite.

Pure: values in, a drawing out; knows nothing of where they come from. Invariant: what was recorded is beside what a
model says, and each colour is the page's own, by name; what was over its bound has a frame, so that it is seen without
colours, too.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ..questions.answer import moment
from ..units import Units, duration
from .axes import QUOTA, TOLD, clock, labels, nearest, pointed_at, zoom

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..model.broker_pairs import Pair
    from .buckets import Cell, Columns, Grid, LinkGrid
    from .drawing import Spec
    from .facts import Curve

MAP_LEFT = 96
"""Pixels for the names of a map's rows."""
MAP_ROW = 14
SQUARE = 0.94
"""The part of its column that a square takes."""
AT_QUOTA, BARS = "at_quota", "bars"
"""Layers that a pointer is nearest to, or that it moves."""
ROW_HEIGHT = 38
BAR_HEIGHT = 0.34
"""The height of a row's bar, below its words."""
MOVE_TITLES = {
    "pair": "from → to", "ended": "moves", "bytes": "bytes", "began": "began", "took": "time",
    "pace": "held by a quota",
}  # fmt: skip
DURATIONS = [
    *(1, 2, 5, 10, 20, 30), *(60 * each for each in (1, 2, 5, 10, 20, 30)), *(3600 * each for each in (1, 2, 5, 10)),
    *(86400 * each for each in (1, 2, 5, 10, 20, 50, 100, 200)),
]  # fmt: skip
"""Seconds that an axis may be divided by."""
MAX_DURATIONS = 7


def share_map(grid: Grid) -> Spec:
    """Draw how much of its quota each role used, over the most of all if none used all of it."""
    most = grid.most_share or 1.0
    squares = {key: (_strength(cell, most), _share(cell), cell.broken) for key, cell in grid.cells.items()}
    return _map(grid.columns, {key: f"{key[0]} {key[1]}" for key in grid.rows}, squares, "var(--share)")


def _strength(cell: Cell, most: float) -> float:
    return min(cell.share / most, 1.0) if cell.share is not None else 1.0 if cell.bytes else 0.0


def _share(cell: Cell) -> str:
    over = ", over its bound" if cell.broken else ""
    if cell.share is None:
        return f"bytes moved under a quota of 0{over}" if cell.bytes else "nothing moved under a quota"
    worst = "" if cell.worst is None else f", the worst second {cell.worst:.2f} x"
    return f"{cell.share:.0%} of its quota{worst}{over}"


def link_map(grid: LinkGrid) -> Spec:
    """Draw how many replicas of each link were behind, over the most of all."""
    squares = {key: (number / grid.most, f"{number:.3g} replicas behind", False) for key, number in grid.cells.items()}
    return _map(grid.columns, {key: f"{key[0]} → {key[1]}" for key in grid.rows}, squares, "var(--lag)")


def _map(
    columns: Columns, names: Mapping[Any, str], squares: Mapping[Any, tuple[float, str, bool]], colour: str
) -> Spec:
    """Draw rows of squares, each with the strength of its colour, what it says, and whether it has a frame."""
    wide, ends = columns.seconds_per_column, columns.began + columns.columns * columns.seconds_per_column
    values = []
    for (*key, column), (strength, says, framed) in squares.items():
        at = columns.began + column * wide
        values.append({"row": names[tuple(key)], "at": 1000 * at, "to": 1000 * (at + wide * SQUARE), "when": moment(at),
                       "strength": strength, "says": says, "framed": framed})  # fmt: skip
    encoding: Spec = {
        "x": clock(), "x2": {"field": "to"},
        "y": {"field": "row", "type": "nominal", "title": None,
              "scale": {"domain": [*names.values()], "paddingInner": 0.08},
              "axis": {"minExtent": MAP_LEFT, "maxExtent": MAP_LEFT, "labelLimit": MAP_LEFT, "labelFontSize": 10,
                       "labelOverlap": False}},
        "fillOpacity": {"field": "strength", "type": "quantitative", "scale": {"domain": [0, 1], "range": [0.06, 1]},
                        "legend": None},
        "stroke": {"condition": {"test": "datum.framed", "value": "var(--bad)"}, "value": None},
        "tooltip": [{"field": "row", "title": "who"}, {"field": "when", "title": "from"},
                    {"field": "says", "title": "what"}],
    }  # fmt: skip
    mark = {"type": "rect", "color": colour, "strokeWidth": 1.6}
    # The axis reaches as far as the columns do, also where nothing is in the first or the last of them.
    corners = {"data": {"values": [{"at": 1000 * columns.began}, {"at": 1000 * ends}]},
               "mark": {"type": "point", "opacity": 0}, "encoding": {"x": clock()}}  # fmt: skip
    layers = [{"mark": mark, "encoding": encoding}, corners]
    return {"data": {"values": values}, "height": MAP_ROW * len(names), "layer": layers}


def moves_plot(pairs: Sequence[Pair], units: Units) -> Spec:
    """Draw when each pair of brokers had something to move; the darker part is the share of the moves that ended."""
    across = clock()
    up = {"type": "quantitative", "scale": {"domain": [len(pairs), 0], "nice": False}, "axis": None}
    tooltip = [{"field": field, "title": title} for field, title in MOVE_TITLES.items()]

    def bar(colour: str, to: str) -> Spec:
        encoding = {
            "x": across, "x2": {"field": to}, "y": {"field": "top", **up}, "y2": {"field": "foot"}, "tooltip": tooltip
        }  # fmt: skip
        return {"mark": {"type": "rect", "color": colour, "clip": True}, "encoding": encoding}

    words = {
        "mark": {"type": "text", "align": "left", "baseline": "middle", "color": "var(--ink)"},
        "encoding": {"x": {"value": 0}, "y": {"field": "words", **up}, "text": {"field": "told"}},
    }
    return {
        "data": {"values": [_row(row, pair, units) for row, pair in enumerate(pairs)]},
        "height": ROW_HEIGHT * len(pairs),
        "params": [zoom(BARS)],
        "layer": [{"name": BARS, **bar("var(--grid)", "to")}, bar("var(--bar)", "done"), words],
    }


def _row(place: int, pair: Pair, units: Units) -> Spec:
    """Return where its bar and its words are, and what a pointer is told."""
    took = max(pair.ended - pair.began, 1)
    who, ended = f"{pair.source} → {pair.destination}", f"{pair.moves - pair.unfinished} of {pair.moves} ended"
    return {
        "at": 1000 * pair.began, "to": 1000 * (pair.began + took), "top": place + 0.5, "foot": place + 0.5 + BAR_HEIGHT,
        "done": 1000 * (pair.began + took * (1 - pair.unfinished / pair.moves)), "words": place + 0.3,
        "told": f"{who}: {ended}, {units.size(pair.bytes)}", "pair": who, "ended": ended,
        "bytes": units.size(pair.bytes), "began": moment(pair.began), "took": duration(pair.ended - pair.began),
        "pace": f"{pair.share_held:.0%}",
    }  # fmt: skip


def curve_plot(curve: Curve, units: Units) -> Spec:
    """Draw how long it takes by the quota, with the recorded result on it."""
    ends = [(quota, seconds) for quota, seconds in curve.points if math.isfinite(seconds) and seconds > 0]
    values = [
        {"quota": quota, "value": seconds, "rate": units.rate(quota), "took": duration(seconds)}
        for quota, seconds in ends
    ]
    quotas = [quota for quota, _ in curve.points][::2]
    across: Spec = {
        "field": "quota", "type": "quantitative",
        "scale": {"type": "log", "base": 2, "domain": [curve.points[0][0], curve.points[-1][0]], "nice": False},
        "axis": {"title": "the largest quota, all others in proportion", "values": quotas,
                 "labelExpr": labels(quotas, units.rate)},
    }  # fmt: skip
    seen = [seconds for _, seconds in ends] + ([curve.recorded[1]] if curve.recorded else [])
    up = _durations(min(seen), max(seen))
    titles = {"rate": "the largest quota", "took": "by the model"}
    line = {"type": "line", "color": "var(--leader)", "strokeWidth": 1.6}
    layers: list[Spec] = [
        {"data": {"name": TOLD}, "mark": line, "encoding": {"x": across, "y": up}},
        pointed_at(AT_QUOTA, titles, across),
    ]
    if curve.wanted is not None:
        mark = {"type": "rule", "color": "var(--follower)", "strokeDash": QUOTA, "strokeWidth": 1.4}
        wanted = [{"quota": curve.wanted, "rate": units.rate(curve.wanted)}]
        layers.append({"data": {"values": wanted}, "mark": mark,
                       "encoding": {"x": across, "tooltip": [{"field": "rate", "title": "to be set"}]}})  # fmt: skip
    if curve.recorded is not None:
        layers.append(_recorded(*curve.recorded, units, across, up))
    return {
        "height": 230,
        "title": "how long it takes",
        "params": [nearest(AT_QUOTA)],
        "datasets": {TOLD: values},
        "layer": layers,
    }


def _recorded(quota: float, seconds: float, units: Units, across: Spec, up: Spec) -> Spec:
    values = [{"quota": quota, "value": seconds, "rate": units.rate(quota), "took": duration(seconds)}]
    tooltip = [{"field": "rate", "title": "the largest quota"}, {"field": "took", "title": "recorded"}]
    mark = {"type": "point", "filled": True, "size": 90, "opacity": 1, "color": "var(--limit)"}
    return {"data": {"values": values}, "mark": mark, "encoding": {"x": across, "y": up, "tooltip": tooltip}}


def _rounded(seconds: float) -> str:
    """Return an axis' expression for a whole day, or hour, without the hours and minutes that it has not."""
    return duration(seconds).removesuffix(" 0 h").removesuffix(" 00 min").removesuffix(" 00 s")


def _durations(least: float, most: float) -> Spec:
    values = [value for value in DURATIONS if least <= value <= most]
    values = values[:: -(-len(values) // MAX_DURATIONS)] if values else []
    return {
        "field": "value", "type": "quantitative",
        "scale": {"type": "log", "base": 2, "domain": [least / 1.1, most * 1.1], "nice": False},
        "axis": {"title": None, "values": values, "labelExpr": labels(values, _rounded)},
    }  # fmt: skip
