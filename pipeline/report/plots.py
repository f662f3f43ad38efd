"""Plots as inline SVG, drawn by matplotlib in stand-in colours that the page's own take the place of.

Knows values, not where they come from. Invariant: no colour and no font of a plot is fixed: each is the page's, so that
the same drawing serves light, dark and print. Names from the wire are never read as mathematics.
"""

from __future__ import annotations

import html
import io
import math
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.dates import ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MultipleLocator

from ..units import Units, duration

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    from ..waves import Pair
    from .facts import Curve
    from .outlier import End, Outlier, Side

    class Timed(Protocol):
        @property
        def time(self) -> int: ...


INK, MUTED, GRID, LEADER, FOLLOWER, LIMIT, LEADER_BAND, FOLLOWER_BAND, BAR = (f"#0{n}0{n}0{n}" for n in range(1, 10))
VARIABLES = {
    INK: "--ink", MUTED: "--muted", GRID: "--grid", LEADER: "--leader", FOLLOWER: "--follower", LIMIT: "--limit",
    LEADER_BAND: "--leader-band", FOLLOWER_BAND: "--follower-band", BAR: "--bar",
}  # fmt: skip
COLOURS = {"leader": (LEADER, LEADER_BAND), "follower": (FOLLOWER, FOLLOWER_BAND)}
STYLE: Any = {
    "svg.fonttype": "none", "font.family": "sans-serif", "font.size": 9, "axes.edgecolor": GRID,
    "axes.labelcolor": MUTED, "text.color": INK, "xtick.color": MUTED, "ytick.color": MUTED, "axes.grid": True,
    "grid.color": GRID, "grid.linewidth": 0.6, "axes.spines.top": False, "axes.spines.right": False,
    "legend.frameon": False, "figure.facecolor": "none", "axes.facecolor": "none", "text.parse_math": False,
}  # fmt: skip
QUOTA, TREND = (0, (4, 2)), (0, (1, 1.5))
SILENT_SECONDS = 30
"""A replica that is behind speaks every second, and a role that moves bytes in every second in which it does."""
TICKS = 5
AHEAD = 0.5
"""Of what is recorded: no projection is drawn further into the future."""


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


def outlier_plot(one: Outlier, units: Units, seconds_per_point: int) -> str:
    """A broker's rates against its quotas, and below them what it is behind, as leader and as follower."""
    with mpl.rc_context({**STYLE, "svg.hashsalt": f"outlier {one.broker}"}):
        figure = Figure(figsize=(7.6, 4.2), layout=ConstrainedLayoutEngine(hspace=0.06))
        rates, lags = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
        for side in one.sides:
            _draw_rate(rates, side, seconds_per_point)
            _draw_lag(lags, side, seconds_per_point)
        for axes, shown in ((rates, units.rate), (lags, units.size)):
            axes.set_ylim(bottom=0)
            axes.yaxis.set_major_locator(MultipleLocator(units.step(axes.get_ylim()[1] / TICKS)))
            axes.yaxis.set_major_formatter(lambda value, _, shown=shown: shown(value))
        rates.set_ylabel("rate")
        lags.set_ylabel("behind")
        _share_clock(lags)
        figure.legend(handles=_keys(one, seconds_per_point), loc="outside upper left", ncols=5)
        return _svg(figure, f"Rates, quotas and lag of broker {one.broker} as leader and as follower")


def _keys(one: Outlier, seconds_per_point: int) -> list[Any]:
    """The legend: colours are roles, kinds of line mean the same in both."""
    keys: list[Any] = [Line2D([], [], color=COLOURS[side.role][0], label=f"as {side.role}") for side in one.sides]
    keys.append(Line2D([], [], color=MUTED, linewidth=1.1, linestyle=QUOTA, label="quota"))
    if seconds_per_point > 1:
        keys.append(Patch(color=GRID, label="up to the worst second"))
    keys.append(Line2D([], [], color=MUTED, linewidth=1.0, linestyle=TREND, label="by the trend"))
    return keys


def _share_clock(axes: Any) -> None:
    formatter: Any = ConciseDateFormatter
    axes.xaxis.set_major_formatter(formatter(axes.xaxis.get_major_locator(), tz=UTC, show_offset=False))


def _draw_rate(axes: Any, side: Side, seconds_per_point: int) -> None:
    colour, band = COLOURS[side.role]
    moving = [point for point in side.points if point.bytes is not None]
    times, drawn = broken(moving, seconds_per_point)
    mean = [math.nan if index is None else (moving[index].bytes or 0) / seconds_per_point for index in drawn]
    axes.plot(times, mean, color=colour, linewidth=1.3)
    if seconds_per_point > 1:
        worst = [math.nan if index is None else moving[index].worst or math.nan for index in drawn]
        axes.fill_between(times, mean, worst, color=band, linewidth=0)
    quotas = [(since, limit) for since, limit in side.quotas if math.isfinite(limit)]
    if not (moving and quotas):
        return
    last = moving[-1].time + seconds_per_point
    steps = [(_moment(max(since, moving[0].time)), limit) for since, limit in side.quotas if since <= last]
    steps.append((_moment(last), steps[-1][1]))
    heights = [limit if math.isfinite(limit) else math.nan for _, limit in steps]
    axes.step([at for at, _ in steps], heights, where="post", color=colour, linewidth=1.1, linestyle=QUOTA)
    for since, _ in side.quotas[1:]:
        if moving[0].time < since <= last:
            axes.axvline(_moment(since), color=LIMIT, linewidth=0.9, linestyle=(0, (1, 2)))


def _draw_lag(axes: Any, side: Side, seconds_per_point: int) -> None:
    colour, band = COLOURS[side.role]
    spoken = [point for point in side.points if point.lag_bytes is not None]
    if not spoken:
        return
    times, drawn = broken(spoken, seconds_per_point)
    lags = [math.nan if index is None else spoken[index].lag_bytes for index in drawn]
    axes.plot(times, lags, color=colour, linewidth=1.3)
    if side.end is not None:
        _project(axes, side.end, (spoken[-1].time - spoken[0].time) * AHEAD, colour, band)


def _project(axes: Any, end: End, most_seconds: float, colour: str, band: str) -> None:
    """The lag's way to nothing by its trend, between the ends of the interval; flat where it never ends."""
    if end.eta_seconds is None and end.eta_high is None and end.eta_low is None:
        return
    seconds = [most_seconds * step / 40 for step in range(41)]

    def left(eta: float | None) -> list[float]:
        return [end.lag_bytes * max(1 - at / eta, 0.0) if eta else end.lag_bytes for at in seconds]

    times = [_moment(end.time + at) for at in seconds]
    low, high = left(end.eta_low), left(end.eta_high)
    axes.fill_between(times, low, high, color=band, linewidth=0)
    axes.plot(times, left(end.eta_seconds), color=colour, linewidth=1.0, linestyle=TREND)


def moves_plot(pairs: Sequence[Pair], units: Units) -> str:
    """When each pair of brokers had something to move; the darker part is the share of the moves that ended."""
    with mpl.rc_context({**STYLE, "svg.hashsalt": "moves"}):
        figure = Figure(figsize=(7.6, 0.7 + 0.27 * max(len(pairs), 2)), layout="constrained")
        axes: Any = figure.subplots()
        for position, pair in enumerate(pairs):
            ended = 1 - pair.unfinished / pair.moves
            start, end = _moment(pair.began), _moment(pair.ended)
            axes.plot([start, end], [position] * 2, color=GRID, linewidth=9, solid_capstyle="butt")
            if ended:
                until = _moment(pair.began + (pair.ended - pair.began) * ended)
                axes.plot([start, until], [position] * 2, color=BAR, linewidth=9, solid_capstyle="butt")
        names = [f"{pair.source} → {pair.destination}   {pair.moves} of {units.size(pair.bytes)}" for pair in pairs]
        axes.set_yticks(range(len(pairs)), names)
        axes.set_ylim(len(pairs) - 0.5, -0.5)
        axes.grid(visible=False, axis="y")
        _share_clock(axes)
        handles = [Line2D([], [], color=colour, linewidth=6) for colour in (BAR, GRID)]
        figure.legend(handles, ["share of the moves that ended", "not ended"], loc="outside upper left", ncols=2)
        return _svg(figure, "When each pair of brokers had something to move")


def curve_plot(curve: Curve, units: Units) -> str:
    """How long it takes by the quota, with the recorded result on it."""
    with mpl.rc_context({**STYLE, "svg.hashsalt": "curve"}):
        figure = Figure(figsize=(7.6, 2.6), layout="constrained")
        axes: Any = figure.subplots()
        ends = [(quota, seconds) for quota, seconds in curve.points if math.isfinite(seconds) and seconds > 0]
        axes.plot(*zip(*ends, strict=True), color=LEADER, linewidth=1.4, label="by the model")
        if curve.recorded is not None:
            axes.plot(*curve.recorded, color=LIMIT, marker="o", linestyle="none", label="recorded")
        if curve.wanted is not None:
            axes.axvline(curve.wanted, color=FOLLOWER, linewidth=1.1, linestyle=(0, (4, 2)), label="to be set")
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        axes.set_xticks([quota for quota, _ in curve.points][::2])
        axes.minorticks_off()
        axes.xaxis.set_major_formatter(lambda value, _: units.rate(value))
        axes.yaxis.set_major_formatter(lambda value, _: duration(value))
        axes.set_xlabel("the largest quota, all others in proportion")
        figure.legend(loc="outside upper left", ncols=3)
        return _svg(figure, "How long it takes by the quota")


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _svg(figure: Figure, title: str) -> str:
    """The drawing alone, named for those who cannot see it, as wide as the page is, in the page's font."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    named = html.escape(title)
    text = re.sub(r'<svg [^>]*?viewBox="([^"]+)"[^>]*>', rf'<svg viewBox="\1" role="img" aria-label="{named}">', text)
    text = re.sub(r"font: ([0-9.]+px) [^;\"]+", r"font-size: \1", text)
    text = re.sub(r"font-family: [^;\"]+;? ?", "", text)
    for colour, variable in VARIABLES.items():
        text = text.replace(colour, f"var({variable})")
    return text
