"""Plots as inline SVG, drawn by matplotlib in stand-in colours that the page's own take the place of.

Knows values, not where they come from. Invariant: no colour of a plot is fixed: each is a variable of the page, so that
the same drawing serves light, dark and print.
"""

from __future__ import annotations

import io
import math
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    class Timed(Protocol):
        @property
        def time(self) -> int: ...

    from .facts import LagPoint, Series

INK, MUTED, GRID, RATE, PEAK, LIMIT, BAND = (f"#0{n}0{n}0{n}" for n in range(1, 8))
VARIABLES = {
    INK: "--ink", MUTED: "--muted", GRID: "--grid", RATE: "--rate", PEAK: "--peak", LIMIT: "--limit", BAND: "--band",
}  # fmt: skip
BOUNDS = {"leader": PEAK, "follower": RATE, "independent": LIMIT, "no quota": MUTED}
STYLE: Any = {
    "svg.fonttype": "none", "font.family": "sans-serif", "font.size": 9, "axes.edgecolor": GRID,
    "axes.labelcolor": MUTED, "text.color": INK, "xtick.color": MUTED, "ytick.color": MUTED, "axes.grid": True,
    "grid.color": GRID, "grid.linewidth": 0.6, "axes.spines.top": False, "axes.spines.right": False,
    "legend.frameon": False, "figure.facecolor": "none", "axes.facecolor": "none",
}  # fmt: skip
SILENT_SECONDS = 30
"""A replica that is behind speaks every second, and a role that moves bytes in every second in which it does."""
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def size(value: float) -> str:
    """Bytes as people say them: ``4.2 MB``."""
    if not math.isfinite(value):
        return "unlimited"
    power = min(int(math.log10(value) // 3), len(_UNITS) - 1) if value >= 1 else 0
    return f"{value / 1000**power:.3g} {_UNITS[power]}"


def broken(
    points: Sequence[Timed], seconds_per_point: int, *, silent_seconds: int = SILENT_SECONDS
) -> tuple[list[datetime], list[int | None]]:
    """Where to draw points: their moments and indices, with a moment that has none between two that have silence
    between them, so that a line does not go through what nobody saw."""
    moments: list[datetime] = []
    drawn: list[int | None] = []
    before: int | None = None
    for index, point in enumerate(points):
        if before is not None and point.time - before > max(silent_seconds, 2 * seconds_per_point):
            moments.append(_moment(before + seconds_per_point))
            drawn.append(None)
        moments.append(_moment(point.time))
        drawn.append(index)
        before = point.time
    return moments, drawn


def rate_plot(series: Series, seconds_per_point: int) -> str:
    """The rate of one broker's role against its quota; the band reaches to the worst second of each point."""
    with mpl.rc_context({**STYLE, "svg.hashsalt": f"rate {series.broker} {series.role}"}):
        figure, axes = _figure(2.1)
        times, drawn = broken(series.points, seconds_per_point)
        points = [None if index is None else series.points[index] for index in drawn]
        mean = [math.nan if point is None else point.mean for point in points]
        axes.plot(times, mean, color=RATE, linewidth=1.4, label="rate")
        if seconds_per_point > 1:
            most = [math.nan if point is None else point.most for point in points]
            axes.fill_between(times, mean, most, color=BAND, label="worst second")
        limits = [math.nan if point is None or point.limit is None else point.limit for point in points]
        if any(map(math.isfinite, limits)):
            axes.step(times, limits, where="post", color=LIMIT, linewidth=1.2, linestyle="--", label="quota")
        highest = max([p.most for p in series.points] + [limit for limit in limits if math.isfinite(limit)])
        axes.set_ylim(0, 1.15 * max(highest, 1.0))
        axes.yaxis.set_major_formatter(lambda value, _: f"{size(value)}/s")
        figure.legend(loc="outside upper right", ncols=3)
        return _svg(figure, f"Rate of broker {series.broker} as {series.role} against its quota")


def lag_plot(broker: int, role: str, points: Sequence[LagPoint], seconds_per_point: int) -> str:
    """SumReplicaLag over time, broken where nobody spoke."""
    with mpl.rc_context({**STYLE, "svg.hashsalt": f"lag {broker} {role}"}):
        figure, axes = _figure(1.8)
        times, drawn = broken(points, seconds_per_point)
        lags = [math.nan if index is None else points[index].lag for index in drawn]
        axes.fill_between(times, lags, color=BAND)
        axes.plot(times, lags, color=RATE, linewidth=1.4)
        axes.set_ylim(0, 1.15 * max([point.lag for point in points] + [1.0]))
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.set_ylabel("messages")
        return _svg(figure, f"Messages that replicas of broker {broker} as {role} are behind")


def moves_plot(rows: Sequence[Any]) -> str:
    """When each replica was behind, coloured by what bound it."""
    shown = sorted(rows, key=lambda row: (row.began, row.seconds))
    with mpl.rc_context({**STYLE, "svg.hashsalt": "moves"}):
        figure, axes = _figure(0.6 + 0.24 * max(len(shown), 2))
        for position, row in enumerate(shown):
            start, end = _moment(row.began), _moment(row.began + row.seconds)
            axes.plot([start, end], [position] * 2, color=BOUNDS[row.bound], linewidth=6, solid_capstyle="butt")
        names = [f"{row.topic}-{row.partition}  {row.source}→{row.destination}" for row in shown]
        axes.set_yticks(range(len(shown)), names)
        axes.set_ylim(len(shown) - 0.5, -0.5)
        axes.grid(visible=False, axis="y")
        return _svg(figure, "When each replica was behind")


def share_plot(topics: Sequence[tuple[str, int]]) -> str:
    """Bytes per topic."""
    with mpl.rc_context({**STYLE, "svg.hashsalt": "topics"}):
        figure, axes = _figure(0.6 + 0.26 * max(len(topics), 2))
        axes.barh(range(len(topics)), [moved for _, moved in topics], color=RATE, height=0.6)
        axes.set_yticks(range(len(topics)), [name for name, _ in topics])
        axes.invert_yaxis()
        axes.xaxis.set_major_formatter(lambda value, _: size(value))
        axes.grid(visible=False, axis="y")
        return _svg(figure, "Bytes per topic")


def _figure(height_inches: float) -> tuple[Figure, Any]:
    figure = Figure(figsize=(5.2, height_inches), layout="constrained")
    return figure, figure.subplots()


def _moment(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _svg(figure: Figure, title: str) -> str:
    """The drawing alone, named for those who cannot see it, as wide as the page is."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'<svg [^>]*?viewBox="([^"]+)"[^>]*>', rf'<svg viewBox="\1" role="img" aria-label="{title}">', text)
    for colour, variable in VARIABLES.items():
        text = text.replace(colour, f"var({variable})")
    return text
