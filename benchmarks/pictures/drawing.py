"""Draws the pictures as SVG. Pure. Invariant: the same bytes for the same recording, and nothing beyond it."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.console import Console
from rich.text import Text

from lab.moves.move import MIB

from .recording import BIN_SECONDS, COLUMNS, HOWS

if TYPE_CHECKING:
    from collections.abc import Sequence


class Frame(NamedTuple):
    """The place of a chart in its picture, and the values at its edges."""

    left: float
    top: float
    width: float
    height: float
    seconds: float
    most: float

    def x(self, seconds: float) -> float:
        return self.left + self.width * seconds / self.seconds

    def y(self, mebibytes: float) -> float:
        return self.top + self.height * (1 - mebibytes / self.most)

    def steps(self, values: Sequence[float]) -> str:
        """Return the path of an area below bins of these heights."""
        path = f"M{self.x(0):.1f},{self.y(0):.1f}"
        for index, value in enumerate(values):
            path += f"V{self.y(value):.1f}H{self.x((index + 1) * BIN_SECONDS):.1f}"
        return f"{path}V{self.y(0):.1f}Z"


STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#57606a}.title{font-weight:600;fill:#24292f}"
    ".axis{stroke:#d0d7de}.quota{stroke:#cf222e;stroke-dasharray:5 3}.of-quota{fill:#cf222e}"
)
COLOURS = ("#8c959f", "#1f883d")
WIDTH, CHART_HEIGHT, GAP, MARGIN = 860, 130, 52, 56


def move_svg(recording: dict[str, Any]) -> str:
    """Draw both moves, one below the other, by the same scales."""
    quota = recording["quota_bytes_per_second"] / MIB
    rates = {how: [size / MIB / BIN_SECONDS for size in recording["bytes"][how]] for how in HOWS}
    most = max(max(values) for values in rates.values())
    top = 10.0 * (int(most / 10) + 1)
    seconds = max(len(values) for values in rates.values()) * BIN_SECONDS
    height = len(HOWS) * (CHART_HEIGHT + GAP) + 14
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>A move of {sum(recording['bytes']['sidecar strict']) / MIB:.0f} MiB at {quota:g} MiB/s</title>",
        f'<style>{STYLE}</style><rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
    ]
    for number, (how, title) in enumerate(HOWS.items()):
        at = Frame(MARGIN, 30 + number * (CHART_HEIGHT + GAP), WIDTH - MARGIN - 16, CHART_HEIGHT, seconds, top)
        worst = max(rates[how])
        told = f"{title}: at most {worst:.1f} MiB/s, {worst / quota:.1f} times the quota"
        parts.append(f'<text class="title" x="{at.left}" y="{at.top - 10:.1f}">{told}</text>')
        for value in (0.0, top / 2, top):
            parts.append(f'<path class="axis" d="M{at.left},{at.y(value):.1f}H{at.left + at.width}"/>')
            parts.append(f'<text x="{at.left - 6}" y="{at.y(value) + 4:.1f}" text-anchor="end">{value:g}</text>')
        parts.append(f'<path fill="{COLOURS[number]}" d="{at.steps(rates[how])}"/>')
        parts.append(f'<path class="quota" d="M{at.left},{at.y(quota):.1f}H{at.left + at.width}"/>')
        parts += [
            f'<text x="{at.x(second):.1f}" y="{at.top + at.height + 15:.1f}" text-anchor="middle">{second} s</text>'
            for second in range(0, int(seconds) + 1, 5)
        ]
    parts.append(
        f'<text class="of-quota" x="{WIDTH - 16}" y="20" text-anchor="end">'
        f"quota {quota:g} MiB/s; each second's bytes; Kafka {recording['kafka']}</text></svg>"
    )
    return "\n".join(parts) + "\n"


TERMINAL = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">
<title>throttle-sidecar status</title>
<style>.{unique_id}-matrix{{font:{char_height}px ui-monospace,Menlo,Consolas,monospace;line-height:{line_height}px}}
{styles}</style>
<defs>{lines}</defs>
{chrome}
<g transform="translate({terminal_x},{terminal_y})">{backgrounds}<g class="{unique_id}-matrix">{matrix}</g></g>
</svg>
"""
"""rich's own but for the font, which would be loaded from elsewhere."""


def status_svg(recording: dict[str, Any]) -> str:
    """Draw the terminal."""
    screen = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    screen.print(Text.from_ansi("$ throttle-sidecar status\n" + recording["status"]), soft_wrap=True)
    return screen.export_svg(title="throttle-sidecar status", code_format=TERMINAL, unique_id="status")


PICTURES = {"move.svg": move_svg, "status.svg": status_svg}
