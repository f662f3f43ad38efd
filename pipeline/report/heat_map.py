"""Brokers or links by time as a grid of coloured squares, each of which says what it is when pointed at.

Pure. Colour is one hue, as strong as the value: of the share of the quota, and of the replicas behind over the most of
a square. What was over its bound has a frame, so that it is seen without colours, too.
"""

from __future__ import annotations

import html
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .buckets import Cell, Columns, Grid, LinkGrid

LABEL_WIDTH = 96
WIDTH = 768
"""The width of all columns: the same however many there are, so that words have the same size on every page."""
CELL_HEIGHT = 14
TICKS = 6
TICK_WIDTH = 66
FOOT_HEIGHT = 22


class Square(NamedTuple):
    """strength: of its colour, 0 to 1. says: what it is, when pointed at."""

    strength: float
    says: str
    framed: bool = False


def share_map(grid: Grid) -> str:
    """Draw how much of its quota each role used, over the most of all if none used all of it."""
    squares = {key: _share(cell, grid.most_share or 1.0) for key, cell in grid.cells.items()}
    rows = [(f"{broker} {role}", (broker, role)) for broker, role in grid.rows]
    return _drawn(grid.columns, rows, squares, "--share", "Share of the quota that each broker used")


def _share(cell: Cell, most: float) -> Square:
    over = ", over its bound" if cell.broken else ""
    if cell.share is None:
        says = f"bytes moved under a quota of 0{over}" if cell.bytes else "nothing moved under a quota"
        return Square(1.0 if cell.bytes else 0.0, says, cell.broken)
    worst = "" if cell.worst is None else f", the worst second {cell.worst:.2f} x"
    return Square(cell.share / most, f"{cell.share:.0%} of its quota{worst}{over}", cell.broken)


def link_map(grid: LinkGrid) -> str:
    """Draw how many replicas of each link were behind, over the most of all."""
    squares = {key: Square(one / grid.most, f"{one:.3g} replicas behind") for key, one in grid.cells.items()}
    rows = [(f"{source} → {destination}", (source, destination)) for source, destination in grid.rows]
    return _drawn(grid.columns, rows, squares, "--lag", "How many replicas of each link were behind")


def _drawn(
    columns: Columns, rows: Sequence[tuple[str, tuple[object, ...]]], squares: Mapping[Any, Square], colour: str,
    title: str,
) -> str:  # fmt: skip
    """Draw a grid; rows: the name of each, and its key, which together with a column is that of a square."""
    height = CELL_HEIGHT * len(rows)
    width = LABEL_WIDTH + WIDTH
    size = f'viewBox="0 0 {width} {height + FOOT_HEIGHT}"'
    parts = [f'<svg class="heat" {size} role="img" aria-label="{title}"><g style="fill:var({colour})">']
    for place, (name, key) in enumerate(rows):
        top, text = place * CELL_HEIGHT, html.escape(name)
        parts.append(f'<g transform="translate(0,{top})"><text class="row" x="{LABEL_WIDTH - 6}" y="11">{text}</text>')
        for column in range(columns.columns):
            found = squares.get((*key, column))
            if found is not None:
                parts.append(_square(columns, column, f"{text}, {_clock(columns, column)}: {found.says}", found))
        parts.append("</g>")
    parts.append("</g>")
    every = max(-(-columns.columns // TICKS), 1)
    for column in range(0, columns.columns, every):
        left = LABEL_WIDTH + column * WIDTH / columns.columns
        if left + TICK_WIDTH <= width:
            parts.append(f'<text x="{left:.1f}" y="{height + 15}">{_clock(columns, column)}</text>')
    return "".join([*parts, "</svg>"])


def _square(columns: Columns, column: int, says: str, square: Square) -> str:
    frame = ' class="broken"' if square.framed else ""
    shown = min(max(square.strength, 0.0), 1.0)
    each = WIDTH / columns.columns
    return (
        f'<rect x="{LABEL_WIDTH + column * each:.1f}" width="{each - 1:.1f}" height="{CELL_HEIGHT - 1}"{frame}'
        f' fill-opacity="{0.06 + 0.94 * shown:.2f}"><title>{says}</title></rect>'
    )


def _clock(columns: Columns, column: int) -> str:
    at = datetime.fromtimestamp(columns.began + column * columns.seconds_per_column, UTC)
    return f"{at:%m-%d %H:%M}" if columns.seconds_per_column >= 600 else f"{at:%H:%M:%S}"
