"""A broker's rates and lags, as a drawing in Vega-Lite.

Pure: values in, a drawing out; knows nothing of where they come from. Invariant: no line goes through what nobody saw,
and each colour is the page's own, by name.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..questions.answer import moment
from .axes import QUOTA, TOLD, amounts, clock, nearest, pointed_at, zoom

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..units import Units
    from .drawing import Spec
    from .outlier import LagEnd, Outlier, Point, Side

WIDTHS = {"leader": 2.6, "follower": 1.3}
"""The widths of lines, in pixels: where both lines are the same, both are seen."""
TREND, CHANGED = [2, 3], [2, 4]
"""Kinds of line, in pixels drawn and left out."""
SILENT_SECONDS = 30
"""The time without a line after which nothing is known: a replica that is behind has news every second, and so has a
role that moves bytes."""
AHEAD = 0.5
"""A share of the recorded time: a projection is drawn no further into the future."""
NOBODY = "-"
"""The word where nothing was recorded, as in the tables that are printed."""
BEYOND = 1.1
"""How far a projection is drawn, as a multiple of the time to the latest end that the pace allows."""
MAX_CHANGES = 12
"""The most changes of a role's quota that are marked."""
ROOM = 1.05
"""The room above the highest value."""
AHEAD_POINTS = 40
AT_RATE, AT_LAG = "at_rate", "at_lag"
"""Layers that a pointer is nearest to, or that it moves."""


def broken(points: Sequence[Point], seconds_per_point: int) -> list[tuple[int, Point | None]]:
    """Return the seconds at which to draw points.

    Where two points have a silence between them, a second without a point comes in between, so that the line does not
    go through what nobody saw. A single point is drawn twice, over the time that it stands for: one point alone makes
    no line.
    """
    drawn: list[tuple[int, Point | None]] = []
    most = max(SILENT_SECONDS, 2 * seconds_per_point)
    for index, point in enumerate(points):
        drawn.append((point.time, point))
        begins = index == 0 or point.time - points[index - 1].time > most
        ends = index + 1 == len(points) or points[index + 1].time - point.time > most
        end = point.time + seconds_per_point
        if begins and ends:
            drawn.append((end, point))
        if ends and index + 1 < len(points):
            drawn.append((end + begins, None))
    return drawn


def outlier_plot(one: Outlier, units: Units, seconds_per_point: int) -> Spec | None:
    """Draw a broker's rates against its quotas, and below them its lags, as leader and as follower: each if there is
    something of it, because Vega-Lite fails at a plot without a line. None: there is neither."""
    points = [point for side in one.sides for point in side.points]
    first = min((point.time for point in points), default=0)
    last = max((point.time for point in points), default=0) + seconds_per_point
    reach = max((_ahead(side) for side in one.sides), default=0.0)
    across = clock((first, max(last, reach)))
    rate = amounts("value", ROOM * _most_rate(one, seconds_per_point, last), units, units.rate)
    lag = amounts("value", ROOM * max((point.lag_bytes or 0.0 for point in points), default=0.0), units, units.size)
    rates = [layer for side in one.sides for layer in _rate(side, seconds_per_point, last, across, rate)]
    lags = [layer for side in one.sides for layer in _lag(side, seconds_per_point, across, lag)]
    rows, titles = _told(one, units, seconds_per_point)
    changes = [layer for side in one.sides for layer in _changes(side, first, last, units, across)]
    views = [
        (AT_RATE, {"title": "rate", "height": 190, "layer": [*rates, pointed_at(AT_RATE, titles, across), *changes]}),
        (AT_LAG, {"title": "behind", "height": 120, "layer": [*lags, pointed_at(AT_LAG, titles, across)]}),
    ]
    drawn = [view for view, lines in zip(views, (rates, lags), strict=True) if lines]
    if not drawn:
        return None
    names = [name for name, _ in drawn]
    return {
        "params": [zoom(*names), *map(nearest, names)],
        "datasets": {TOLD: rows},
        "spacing": 6,
        "vconcat": [view for _, view in drawn],
    }


def _line(values: list[dict[str, object]], side: Side, across: Spec, up: Spec, **mark: object) -> Spec:
    style = {"type": "line", "color": f"var(--{side.role})", "strokeWidth": WIDTHS[side.role], "clip": True, **mark}
    return {
        "data": {"values": values},
        "mark": {**style, "invalid": "break-paths-show-domains"},
        "encoding": {"x": across, "y": up},
    }


def _band(values: list[dict[str, object]], side: Side, across: Spec, up: Spec) -> Spec:
    """Draw the area between `value` and `to`."""
    mark = {"type": "area", "color": f"var(--{side.role}-band)", "clip": True, "invalid": "break-paths-show-domains"}
    return {"data": {"values": values}, "mark": mark, "encoding": {"x": across, "y": up, "y2": {"field": "to"}}}


def _rate(side: Side, seconds_per_point: int, last: int, across: Spec, up: Spec) -> list[Spec]:
    moving = [point for point in side.points if point.bytes is not None]
    if not moving:
        return []
    values: list[dict[str, object]] = []
    for second, point in broken(moving, seconds_per_point):
        mean = None if point is None else (point.bytes or 0) / seconds_per_point
        worst = None if point is None else (mean if point.worst is None else point.worst)
        values.append({"at": 1000 * second, "value": mean, "to": worst})
    layers = [_band(values, side, across, up)] if seconds_per_point > 1 else []
    layers.append(_line(values, side, across, up))
    # Of those that were over before anything moved, the last one is drawn.
    held = {max(since, moving[0].time): limit for since, limit in side.quotas if since <= last}
    quotas = list(held.items())
    if any(math.isfinite(limit) for _, limit in quotas):
        steps = [*quotas, (last, quotas[-1][1])]
        told: list[dict[str, object]] = [
            {"at": 1000 * at, "value": limit if math.isfinite(limit) else None} for at, limit in steps
        ]
        layers.append(_line(told, side, across, up, interpolate="step-after", strokeDash=QUOTA))
    return layers


def _most_rate(one: Outlier, seconds_per_point: int, last: int) -> float:
    """Draw means, worst seconds, and the quotas that held meanwhile."""
    found = [0.0]
    for side in one.sides:
        for point in side.points:
            found += [(point.bytes or 0) / seconds_per_point, point.worst or 0.0]
        found += [limit for since, limit in side.quotas if since <= last and math.isfinite(limit)]
    return max(found)


def _changes(side: Side, first: int, last: int, units: Units, across: Spec) -> list[Spec]:
    """Draw a line where each quota changed, with what it was and became; none where they would be too many to tell
    apart: the quota's own line has all of them."""
    values = [
        {"at": 1000 * since, "time": moment(since), "told": f"{units.rate(before)} → {units.rate(limit)}"}
        for (_, before), (since, limit) in zip(side.quotas, side.quotas[1:], strict=False)
        if first < since <= last
    ]
    if not 0 < len(values) <= MAX_CHANGES:
        return []
    tooltip = [{"field": "time", "title": "at"}, {"field": "told", "title": f"quota as {side.role}"}]
    mark = {"type": "rule", "color": "var(--limit)", "strokeDash": CHANGED, "strokeWidth": 1.4, "clip": True}
    return [{"data": {"values": values}, "mark": mark, "encoding": {"x": across, "tooltip": tooltip}}]


def _lag(side: Side, seconds_per_point: int, across: Spec, up: Spec) -> list[Spec]:
    spoken = [point for point in side.points if point.lag_bytes is not None]
    if not spoken:
        return []
    values: list[dict[str, object]] = [
        {"at": 1000 * second, "value": None if point is None else point.lag_bytes}
        for second, point in broken(spoken, seconds_per_point)
    ]
    layers = [_line(values, side, across, up)]
    ahead = _ahead(side)
    if side.end is not None and side.end.lag_bytes is not None and ahead:
        layers += _projected(side.end, side.end.lag_bytes, ahead - side.end.time, side, across, up)
    return layers


def _ahead(side: Side) -> float:
    """Return until when its lag is projected; 0: it is not."""
    spoken = [point for point in side.points if point.lag_bytes is not None]
    if side.end is None or side.end.lag_bytes is None or not spoken:
        return 0.0
    seconds, low, high, *_ = side.end.end
    if seconds is None and low is None:
        return 0.0
    recorded = (spoken[-1].time - spoken[0].time) * AHEAD
    latest = seconds if side.end.end.by_quotas else high
    return side.end.time + min(recorded, math.inf if latest is None else latest * BEYOND)


def _projected(end: LagEnd, lag_bytes: float, seconds: float, side: Side, across: Spec, up: Spec) -> list[Spec]:
    """Draw the lag's way to nothing at its pace, between the ends of the interval; flat where it never ends."""

    def left(eta: float | None, ahead: float) -> float:
        return lag_bytes * max(1 - ahead / eta, 0.0) if eta else lag_bytes

    steps = [seconds * step / AHEAD_POINTS for step in range(AHEAD_POINTS + 1)]
    told = end.end
    straight: list[dict[str, object]] = [
        {"at": 1000 * (end.time + ahead), "value": left(told.seconds, ahead)} for ahead in steps
    ]
    line = _line(straight, side, across, up, strokeDash=TREND)
    if told.by_quotas:
        return [line]
    band: list[dict[str, object]] = [
        {"at": 1000 * (end.time + ahead), "value": left(told.low, ahead), "to": left(told.high, ahead)}
        for ahead in steps
    ]
    return [_band(band, side, across, up), line]


def _told(one: Outlier, units: Units, seconds_per_point: int) -> tuple[list[dict[str, object]], dict[str, str]]:
    """Return what a pointer is told at each moment: a row for each, and what its columns are called."""
    rows: dict[int, dict[str, object]] = {}
    titles = {"time": "at"}
    for side in one.sides:
        titles |= {side.role: f"as {side.role}", f"{side.role}_behind": f"behind as {side.role}"}
        for point in side.points:
            row = rows.setdefault(point.time, {"at": 1000 * point.time, "time": moment(point.time)})
            row[side.role] = _rate_told(point, side, units, seconds_per_point)
            row[f"{side.role}_behind"] = NOBODY if point.lag_bytes is None else units.size(point.lag_bytes)
    for row in rows.values():
        row.update({column: NOBODY for column in titles if column not in row})
    return [rows[time] for time in sorted(rows)], titles


def _rate_told(point: Point, side: Side, units: Units, seconds_per_point: int) -> str:
    if point.bytes is None:
        return NOBODY
    limit = next((limit for since, limit in reversed(side.quotas) if since <= point.time), math.inf)
    worst = ""
    if seconds_per_point > 1 and point.worst is not None:
        worst = f", at most {units.rate(point.worst)}"
    return f"{units.rate(point.bytes / seconds_per_point)}{worst} of {units.rate(limit)}"
