"""The table of chosen rates in docs/benchmarks.md: one row for each way, medians of its runs. Pure."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from ..document_part import DocumentPart
from .ways import WAYS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .run import Row

PART = DocumentPart("chosen rates")
_HEAD = "| rate | runs | done after, s | p50, ms | p95, ms | p99, ms (each run) | / no move | worst, ms | link used |"


def table(rows: Sequence[Row]) -> str:
    """Return the results as a Markdown table. Ratios are to the best run without a move, and are left out where there
    is none."""
    by_way = {way: [row for row in rows if row["way"] == way] for way in WAYS}
    alone = min((row["p99_ms"] for row in by_way["none"]), default=None)
    lines = [_HEAD, "|" + "---|" * (_HEAD.count("|") - 1)]
    return "\n".join(lines + [_line(way, found, alone) for way, found in by_way.items() if found])


def _line(way: str, found: Sequence[Row], alone: float | None) -> str:
    p99 = _median(found, "p99_ms")
    each = ", ".join(f"{row['p99_ms']:.0f}" for row in found)
    cells = [
        WAYS[way],
        str(len(found)),
        "" if way.startswith("none") else f"{_median(found, 'seconds'):.0f}",
        f"{_median(found, 'p50_ms'):.0f}",
        f"{_median(found, 'p95_ms'):.0f}",
        f"{p99:.0f} ({each})",
        "" if alone is None else f"{p99 / alone:.1f}",
        f"{max(row['worst_ms'] for row in found):.0f}",
        f"{_median(found, 'link_share'):.0%}",
    ]
    return f"| {' | '.join(cells)} |"


def _median(rows: Sequence[Row], key: str) -> float:
    return float(statistics.median(row[key] for row in rows))
