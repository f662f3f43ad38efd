"""Growth of cost, as tables: lines through partitions, shares of a core. Pure."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..runs import Result


class Line(NamedTuple):
    """Least squares: what a fetch costs, and what each of its partitions adds, in µs; and how well that fits."""

    per_fetch_us: float
    per_partition_us: float
    r_squared: float


def fit(points: Sequence[tuple[int, float]]) -> Line:
    """Fit a line through (partitions, µs of CPU per fetch)."""
    xs, ys = [float(x) for x, _ in points], [y for _, y in points]
    slope, intercept = statistics.linear_regression(xs, ys)
    return Line(intercept, slope, statistics.correlation(xs, ys) ** 2)


def slopes(results: Sequence[Result]) -> dict[tuple[str, bool], list[tuple[int, float]]]:
    """Return medians of CPU per fetch with their partitions, by (peer, whether in sync)."""
    found: dict[tuple[str, bool], dict[int, list[float]]] = {}
    for run in results:
        points = found.setdefault((run.peer, run.load.in_sync), {})
        points.setdefault(run.load.partitions, []).append(run.cpu_us_per_fetch)
    return {key: [(n, statistics.median(us)) for n, us in sorted(points.items())] for key, points in found.items()}


def slope_table(results: Sequence[Result]) -> str:
    """Return Markdown: CPU µs per fetch by number of partitions, and the fit."""
    counts = sorted({run.load.partitions for run in results})
    lines = [
        f"| CPU µs per fetch | {' | '.join(map(str, counts))} | per fetch | per partition | R² |",
        "|---|" + "---|" * (len(counts) + 3),
    ]
    for (peer, in_sync), points in slopes(results).items():
        line = fit(points)
        cells = " | ".join(f"{us:.0f}" for _, us in points)
        name = f"{peer}, {'in sync' if in_sync else 'behind'}"
        lines.append(
            f"| {name} | {cells} | {line.per_fetch_us:.0f} | {line.per_partition_us:.3f} | {line.r_squared:.3f} |"
        )
    return "\n".join(lines)


def idle_table(results: Sequence[Result]) -> str:
    """Return Markdown: the cost of fetchers that get nothing."""
    lines = ["| everything throttled, quota 0 | % of a core | fetches/s | CPU µs per fetch |", "|---|---|---|---|"]
    lines += [
        f"| {run.load.title} | {run.cores * 100:.2f} | {run.fetches / run.seconds:.1f} | {run.cpu_us_per_fetch:.0f} |"
        for run in results
    ]
    return "\n".join(lines)
