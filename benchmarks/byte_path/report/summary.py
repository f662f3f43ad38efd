"""All loads in one table: a row per peer, a cell per load, as ratios to HAProxy's defaults or as they are.

Pure. Invariant: a cell is a median over the rounds; ratios are of medians.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from ..contenders.every_peer import ANCHOR

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ..loads import Load
    from ..runs import Result
    from ..usage import Memory

MIB = 1024 * 1024
Pair = tuple[float, float]


def variants(results: Iterable[Result]) -> dict[str, list[Result]]:
    """Group the runs by what their loads have in common besides the name (connections, buffers, version), in their
    order."""
    found: dict[str, list[Result]] = {}
    for run in results:
        found.setdefault(variant(run.load), []).append(run)
    return found


def variant(load: Load) -> str:
    """Return the load in words, for a heading."""
    rest = load.title.removeprefix(load.name).removeprefix(", ")
    return rest if load.connections > 1 else ", ".join(part for part in ("1 connection", rest) if part)


def figures(results: Sequence[Result]) -> dict[str, dict[Load, Pair]]:
    """Return by peer and load (GB/s, CPU s/GB), or for a small fetch (p50 µs, CPU µs)."""
    found: dict[str, dict[Load, Pair]] = {}
    for peer in dict.fromkeys(run.peer for run in results):
        own = [run for run in results if run.peer == peer]
        found[peer] = {
            load: _pair([run for run in own if run.load == load]) for load in dict.fromkeys(run.load for run in own)
        }
    return found


def _pair(runs: Sequence[Result]) -> Pair:
    if runs[0].load.is_small:
        return _median(runs, lambda run: run.p50_us or 0.0), _median(runs, lambda run: run.cpu_us_per_fetch)
    return _median(runs, lambda run: run.gigabytes_per_second), _median(runs, lambda run: run.cpu_seconds_per_gigabyte)


def _median(runs: Sequence[Result], get: Callable[[Result], float]) -> float:
    return statistics.median(map(get, runs))


def ratios(found: dict[str, dict[Load, Pair]]) -> dict[str, dict[Load, Pair]]:
    """Divide each figure by that of `ANCHOR`, for loads that `ANCHOR` managed. Raises KeyError if it was not run at
    all."""
    base = found[ANCHOR]
    return {
        peer: {load: (pair[0] / base[load][0], pair[1] / base[load][1]) for load, pair in pairs.items() if load in base}
        for peer, pairs in found.items()
    }


def ratio_table(results: Sequence[Result]) -> str:
    """Return throughput and CPU per GB, or for a small fetch p50 and CPU, each as a ratio to HAProxy's defaults."""
    return _table(ratios(figures(results)), "2.2f", "2.2f")


def absolute_table(results: Sequence[Result]) -> str:
    """Return GB/s / CPU s/GB, or for a small fetch p50 µs / CPU µs."""
    return _table(figures(results), ".3g", ".3g")


def memory_table(results: Iterable[Result]) -> str:
    """Return the most memory of a peer (PSS, MiB), by the number of connections, over all loads."""
    most: dict[str, dict[int, float]] = {}
    for run in results:
        held = most.setdefault(run.peer, {})
        connections = run.load.connections
        held[connections] = max(held.get(connections, 0.0), run.memory.proportional / MIB)
    counts = sorted({count for held in most.values() for count in held})
    lines = [f"| PSS, MiB, by connections | {' | '.join(map(str, counts))} |", "|---|" + "---|" * len(counts)]
    for peer, held in most.items():
        if any(held.values()):
            lines.append(f"| {peer} | {' | '.join(f'{held[n]:.0f}' if n in held else '' for n in counts)} |")
    return "\n".join(lines)


def over_time(what: str, samples: Sequence[tuple[float, Memory]]) -> str:
    """Return the memory held at full rate, as time went by."""
    held = [memory.proportional / MIB for _, memory in samples]
    first, last, most, minutes = held[0], held[-1], max(held), samples[-1][0] / 60
    return f"{what}: {first:.0f} MiB (PSS) at first, {last:.0f} after {minutes:.0f} minutes, {most:.0f} at most."


def _table(found: dict[str, dict[Load, Pair]], first: str, second: str) -> str:
    loads = list(dict.fromkeys(load for pairs in found.values() for load in pairs))
    lines = [f"| | {' | '.join(load.name for load in loads)} |", "|---|" + "---|" * len(loads)]
    for peer, pairs in found.items():
        cells = (f"{pairs[load][0]:{first}} / {pairs[load][1]:{second}}" if load in pairs else "" for load in loads)
        lines.append(f"| {peer} | {' | '.join(cells)} |")
    return "\n".join(lines)
