"""Medians beside each other, and their ratios to HAProxy's defaults, as Markdown.

Pure.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from ..contenders.every_peer import ANCHOR

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ..runs import Machine, Result

MIB = 1024 * 1024
FAIR_CORES = 0.15

Figure = tuple[str, "Callable[[Result], float | None]", int, bool]
"""Title, how to get it, digits, whether its ratio is shown."""

BULK_FIGURES: tuple[Figure, ...] = (
    ("GB/s", lambda run: run.gigabytes_per_second, 2, True),
    ("CPU s/GB", lambda run: run.cpu_seconds_per_gigabyte, 3, True),
    ("pair's CPU s/GB", lambda run: run.pair.cpu_seconds * 1e9 / run.bytes, 3, False),
    ("wakes per fetch", lambda run: run.wakes_per_fetch, 0, False),
    ("PSS, MiB", lambda run: run.memory.proportional / MIB, 1, False),
)
SMALL_FIGURES: tuple[Figure, ...] = (
    ("p50, µs", lambda run: run.p50_us, 0, True),
    ("p99, µs", lambda run: run.p99_us, 0, True),
    ("CPU µs per fetch", lambda run: run.cpu_us_per_fetch, 1, True),
    ("wakes per fetch", lambda run: run.wakes_per_fetch, 1, False),
    ("PSS, MiB", lambda run: run.memory.proportional / MIB, 1, False),
)


def explain(machine: Machine) -> str:
    """Return a description of the machine, and one line per peer with its exact version."""
    peers = (f"* {name}: {about}" for name, about in machine.peers.items())
    python = f", {machine.python}" if machine.python else ""
    head = (
        f"{machine.cores} cores, Linux {machine.kernel}, TCP congestion control {machine.congestion_control}{python}."
    )
    return "\n".join((head, "", *peers))


def disturbance(results: Iterable[Result]) -> str:
    """Return how busy other processes kept the machine."""
    busy = [run.others_cores for run in results] or [0.0]
    most = f"{statistics.median(busy):.2f} cores (median of runs), {max(busy):.2f} at most"
    fair = "" if statistics.median(busy) < FAIR_CORES else ": NOT a quiet machine, do not trust these figures"
    return f"Everything else on the machine used {most}{fair}."


def tables(results: Sequence[Result]) -> str:
    """Return one table per load, peers in the order in which they came; ratios to `ANCHOR` in parentheses."""
    loads = dict.fromkeys(run.load for run in results)
    return "\n\n".join(_table(load.title, [run for run in results if run.load == load]) for load in loads)


def medians(runs: Sequence[Result], figures: Sequence[Figure]) -> dict[str, list[float | None]]:
    """Return by peer a median per figure; None where no run has it."""
    found: dict[str, list[float | None]] = {}
    for peer in dict.fromkeys(run.peer for run in runs):
        own = [run for run in runs if run.peer == peer]
        found[peer] = [_median(get(run) for run in own) for _, get, _, _ in figures]
    return found


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def _table(load: str, runs: Sequence[Result]) -> str:
    figures = SMALL_FIGURES if runs[0].load.is_small else BULK_FIGURES
    rows = medians(runs, figures)
    anchor = rows.get(ANCHOR, [None] * len(figures))
    lines = [
        f"| {load} | " + " | ".join(f"{title} (ratio)" if ratio else title for title, _, _, ratio in figures) + " |",
        "|---|" + "---|" * len(figures),
    ]
    for peer, values in rows.items():
        cells = (
            _cell(value, base if ratio else None, digits)
            for value, base, (_, _, digits, ratio) in zip(values, anchor, figures, strict=True)
        )
        lines.append(f"| {peer} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(value: float | None, base: float | None, digits: int) -> str:
    if value is None:
        return ""
    return f"{value:.{digits}f}" + (f" ({value / base:.2f})" if base else "")
