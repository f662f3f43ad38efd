"""A drawing twice: as SVG, which is seen without a script and on paper, and live, where it answers to a pointer.

Vega-Lite is the language of both, and vl-convert has all of it in one wheel: what draws the SVG, and the same library
for a browser, which goes into the page. Nothing is asked of a network, here or there. Invariant: the page's own colours
and its one font are in a drawing by name, so that it follows light, dark and print.
"""

from __future__ import annotations

import functools
import html
import json
import re
from importlib import resources
from typing import Any

import vl_convert

Spec = dict[str, Any]
"""A drawing in Vega-Lite, https://vega.github.io/vega-lite/docs/spec.html: one plot, or some below each other."""

FONT = "system-ui, sans-serif"
"""The page's font, which each drawing names again: only so does Vega know how wide words are."""
VEGA_LITE = "6.1"
"""6.4 tells a pointer `undefined`: where it is nearest to something, the names of the wrong row are looked up."""
START = "window.vegaEmbed = vegaEmbed;"
"""The mark that the library leaves for `live.js` to find."""
WIDTH = 896
"""The width of the SVG, in pixels: as wide as the page is on a desk."""
LEFT, RIGHT = 72, 12
"""The margins of a plot: labels of its axis, and room for half a label at its end."""
CONFIG: Spec = {
    "font": FONT,
    "background": None,
    "aria": False,  # a mark by itself says nothing
    "padding": {"left": 0, "right": RIGHT, "top": 4, "bottom": 4},
    "view": {"stroke": None},
    "axis": {
        "labelColor": "var(--muted)", "titleColor": "var(--muted)", "domainColor": "var(--grid)",
        "gridColor": "var(--grid)", "tickColor": "var(--grid)", "labelFontSize": 12, "titleFontSize": 12,
        "titleFontWeight": "normal", "labelOverlap": "greedy",
        "labelSeparation": 8,
    },
    "axisY": {"minExtent": LEFT, "maxExtent": LEFT, "labelLimit": LEFT, "domain": False, "ticks": False},
    "title": {
        "color": "var(--muted)", "anchor": "start", "frame": "group", "fontSize": 12, "fontWeight": "normal",
        "offset": 6,
    },
    "text": {"fontSize": 12},
}  # fmt: skip


def figure(spec: Spec, title: str, *, left: int = LEFT) -> str:
    """Return the drawing as an element of the page.

    title: what those hear who cannot see it. left: pixels beside the plot, 0 if it has no axis there.

    Raises:
        ValueError: Vega-Lite cannot draw it.
    """
    whole = {**spec, "config": CONFIG, "description": title}
    data = json.dumps(whole, ensure_ascii=False, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    still = _svg(_still(whole, WIDTH - left - RIGHT), title)
    return (
        f'<div class="plot" data-beside="{left + RIGHT}"><div class="drawn">{still}</div>'
        f'<script type="application/json">{data}</script></div>'
    )


@functools.cache
def library() -> str:
    """Return the scripts of the page's live figures: Vega, and the few lines that start it. At the end of the page."""
    vega = vl_convert.javascript_bundle(START, VEGA_LITE)
    live = resources.files(__package__).joinpath("live.js").read_text("utf-8")
    return "".join(f'<script type="module">{text}</script>' for text in (vega, live))


def _still(whole: Spec, width: int) -> Spec:
    """Return the same without the parts that only answer to a pointer, and of that width."""
    pointed = {
        view for param in whole.get("params", ()) if param["select"]["type"] == "point" for view in param["views"]
    }

    def sized(view: Spec) -> Spec:
        return {**view, "width": width, "layer": [one for one in view["layer"] if one.get("name") not in pointed]}

    alone = {name: value for name, value in whole.items() if name != "params"}
    return {**alone, "vconcat": [sized(view) for view in whole["vconcat"]]} if "vconcat" in whole else sized(alone)


def _svg(spec: Spec, title: str) -> str:
    text = vl_convert.vegalite_to_svg(spec, vl_version=VEGA_LITE)
    named = f'role="img" aria-label="{html.escape(title)}"'
    return re.sub(
        r'<svg [^>]*?viewBox="([^"]+)"[^>]*>', lambda found: f'<svg viewBox="{found[1]}" {named}>', text, count=1
    )
