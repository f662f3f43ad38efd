"""Brokers by time as a grid of coloured squares, each of which says what it is when pointed at.

Pure. Colour is one hue, as strong as the value: of the share of the quota, and of the lag over the largest one. What
was over its bound has a frame, so that it is seen without colours, too.
"""

from __future__ import annotations

import html
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..units import Units
    from .buckets import Cell, Grid

LABEL_WIDTH = 96
WIDTH = 768
"""Of all columns: the same however many there are, so that words have the same size on every page."""
CELL_HEIGHT = 14
TICKS = 6
TICK_WIDTH = 66
FOOT_HEIGHT = 22
UNKNOWN_SIZE = "behind, by how many bytes is not known"


def share_map(grid: Grid) -> str:
    """Draw how much of its quota each role used, over the most of all if none used all of it."""

    def strength(cell: Cell) -> float:
        if cell.share is None:
            return 1.0 if cell.bytes else 0.0
        return cell.share / (grid.most_share or 1.0)

    def says(cell: Cell) -> str:
        if cell.bytes and cell.share is None:
            return f"bytes moved under a quota of 0{', over its bound' if cell.broken else ''}"
        if cell.share is None:
            return "nothing moved under a quota"
        worst = "" if cell.worst is None else f", the worst second {cell.worst:.2f} x"
        return f"{cell.share:.0%} of its quota{worst}{', over its bound' if cell.broken else ''}"

    return _drawn(grid, strength, says, "--share", "Share of the quota that each broker used")


def lag_map(grid: Grid, units: Units) -> str:
    """Draw how far behind each role was, over the most of all."""

    def strength(cell: Cell) -> float:
        if cell.lag_bytes is None:
            return 1.0
        return cell.lag_bytes / grid.most_lag_bytes if grid.most_lag_bytes else 0.0

    def says(cell: Cell) -> str:
        return UNKNOWN_SIZE if cell.lag_bytes is None else f"{units.size(cell.lag_bytes)} behind"

    return _drawn(grid, strength, says, "--lag", "How far behind each was")


def _drawn(grid: Grid, strength: Callable[[Cell], float], says: Callable[[Cell], str], colour: str, title: str) -> str:
    height = CELL_HEIGHT * len(grid.rows)
    width = LABEL_WIDTH + WIDTH
    size = f'viewBox="0 0 {width} {height + FOOT_HEIGHT}"'
    parts = [f'<svg class="heat" {size} role="img" aria-label="{title}"><g style="fill:var({colour})">']
    for place, (broker, role) in enumerate(grid.rows):
        top = place * CELL_HEIGHT
        name = html.escape(f"{broker} {role}")
        parts.append(f'<g transform="translate(0,{top})"><text class="row" x="{LABEL_WIDTH - 6}" y="11">{name}</text>')
        for column in range(grid.columns):
            cell = grid.cells.get((broker, role, column))
            if cell is not None:
                framed = cell.broken and colour == "--share"
                parts.append(
                    _square(
                        grid, column, strength(cell), f"{name}, {_clock(grid, column)}: {says(cell)}", framed=framed
                    )
                )
        parts.append("</g>")
    parts.append("</g>")
    every = max(-(-grid.columns // TICKS), 1)
    for column in range(0, grid.columns, every):
        left = LABEL_WIDTH + column * WIDTH / grid.columns
        if left + TICK_WIDTH <= width:
            parts.append(f'<text x="{left:.1f}" y="{height + 15}">{_clock(grid, column)}</text>')
    return "".join([*parts, "</svg>"])


def _square(grid: Grid, column: int, strength: float, says: str, *, framed: bool) -> str:
    frame = ' class="broken"' if framed else ""
    shown = min(max(strength, 0.0), 1.0)
    each = WIDTH / grid.columns
    return (
        f'<rect x="{LABEL_WIDTH + column * each:.1f}" width="{each - 1:.1f}" height="{CELL_HEIGHT - 1}"{frame}'
        f' fill-opacity="{0.06 + 0.94 * shown:.2f}"><title>{says}</title></rect>'
    )


def _clock(grid: Grid, column: int) -> str:
    at = datetime.fromtimestamp(grid.began + column * grid.seconds_per_column, UTC)
    return f"{at:%m-%d %H:%M}" if grid.seconds_per_column >= 600 else f"{at:%H:%M:%S}"
