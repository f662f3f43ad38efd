"""Drawings of what moved, and of how long it takes by the quota, in Vega-Lite.

Pure: values in, a drawing out; knows nothing of where they come from. Invariant: what was recorded is beside what a
model says, and each colour is the page's own, by name.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..questions.answer import moment
from ..units import Units, duration
from .axes import QUOTA, TOLD, clock, labels, nearest, pointed_at, zoom

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..model.broker_pairs import Pair
    from .drawing import Spec
    from .facts import Curve

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
