"""The parts that the page's plots share: a clock below, bytes at the left, what a pointer is told, and zoom.

Pure: parts of a drawing in Vega-Lite. Invariant: bytes are labelled by `Units`, never by the drawing's own arithmetic.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ..units import Units
    from .drawing import Spec

TICKS = 5
TOLD = "told"
QUOTA = [6, 3]
"""The line of a quota, in pixels drawn and left out."""
CLOCK = (
    "utcFormat(datum.value, utcseconds(datum.value) ? '%H:%M:%S'"
    " : utchours(datum.value) || utcminutes(datum.value) ? '%H:%M' : '%b %d')"
)
"""The label of a tick: seconds only where there are any, a day at midnight."""
WHEEL = "wheel![event.ctrlKey || event.metaKey]"
"""The condition of zooming. Without a key a wheel goes on through the page; two fingers on a touchpad come as a wheel
with Ctrl."""


def clock(between: tuple[float, float] | None = None) -> Spec:
    """Return the axis of time.

    between: its ends, in seconds since 1970. None: the axis ends where what is drawn ends. Marks with a beginning and
    an end need this: for them Vega-Lite would read the ends in two ways and warn.
    """
    ends = {} if between is None else {"domain": [1000 * at for at in between]}
    return {
        "field": "at", "type": "temporal", "scale": {"type": "utc", "nice": False, **ends},
        "axis": {"title": None, "labelExpr": CLOCK, "tickCount": 8},
    }  # fmt: skip


def amounts(field: str, most: float, units: Units, shown: Callable[[float], str]) -> Spec:
    """Return the axis of bytes from 0 to `most`, divided by whole units."""
    step = units.step(most / TICKS)
    values = [round(step * place) for place in range(int(most / step) + 1)]
    return {
        "field": field, "type": "quantitative", "scale": {"domain": [0, max(most, 1.0)], "nice": False},
        "axis": {"title": None, "values": values, "labelExpr": labels(values, shown)},
    }  # fmt: skip


def labels(values: Iterable[float], shown: Callable[[float], str]) -> str:
    """Return an expression that names exactly these values of an axis."""
    # JSON's keys are the shortest digits that are the same number, in Python as in a browser.
    names = {value: shown(value) for value in map(_number, values)}
    return f"({json.dumps(names, ensure_ascii=False)})[datum.value] || ''"


def _number(value: float) -> float:
    """Return a whole number without the `.0` that a browser would not write."""
    return int(value) if float(value).is_integer() else value


def pointed_at(name: str, titles: Mapping[str, str], across: Spec) -> Spec:
    """Return a layer: a line at the nearest of the rows `TOLD`, and what is told of it there. The drawing needs
    `nearest` of this name, and those rows among its `datasets`.

    titles: of the columns that are told, in their order.
    """
    return {
        "name": name,
        "data": {"name": TOLD},
        "mark": {"type": "rule", "color": "var(--muted)", "strokeWidth": 1},
        "encoding": {
            "x": across,
            "opacity": {"condition": {"param": f"{name}_nearest", "empty": False, "value": 0.8}, "value": 0},
            "tooltip": [{"field": field, "type": "nominal", "title": title} for field, title in titles.items()],
        },
    }


def nearest(name: str) -> Spec:
    """Return which row of that layer a pointer is at."""
    select = {"type": "point", "on": "pointerover", "clear": "pointerout", "nearest": True, "encodings": ["x"]}
    return {"name": f"{name}_nearest", "select": select, "views": [name]}


def zoom(*layers: str) -> Spec:
    """Let wheel and pointer move the axis of time of all these layers' plots together."""
    return {
        "name": "zoom",
        "select": {"type": "interval", "encodings": ["x"], "zoom": WHEEL},
        "bind": "scales",
        "views": list(layers),
    }
