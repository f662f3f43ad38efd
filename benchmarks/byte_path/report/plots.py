"""The same figures, drawn: SVG, the same bytes for the same runs.

Needs matplotlib, of the dependency group `bench`. Knows what to draw, not what to say about it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import matplotlib as mpl

mpl.use("svg")

from matplotlib import pyplot as plt

from ..contenders.every_peer import ANCHOR
from ..contenders.sidecars import SIDECARS
from .growth import slopes
from .summary import figures, ratios

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.figure import Figure

    from ..loads import Load
    from ..runs import Result, Runs

OURS = {peer.name for peer in SIDECARS}
BAR = 0.8
MAX_CPU_RATIO = 4.0
"""The length at which bars are cut. Otherwise all others would be too short to see: a peer that holds bytes back moves
few of them, so each costs much."""
MIB = 1024 * 1024
SETTINGS: dict[Any, Any] = {
    "svg.hashsalt": "byte path",
    "svg.fonttype": "none",
    "font.size": 8,
    "axes.grid": True,
    "grid.alpha": 0.3,
}


def draw(runs: Runs, folder: Path) -> list[Path]:
    """Write a file per figure that there are runs for; returns them."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    with mpl.rc_context(SETTINGS):
        plain = [run for run in runs.suites.get("byte path", []) if run.load.connections == 1]
        plain = [run for run in plain if not run.load.kafka_buffers]
        if any(run.peer == ANCHOR for run in plain):
            written.append(_save(_bulk(plain), folder / "byte_path_bulk.svg"))
            written.append(_save(_small(plain), folder / "byte_path_small.svg"))
        if partitions := runs.suites.get("partitions"):
            written.append(_save(_partitions(partitions), folder / "byte_path_partitions.svg"))
        if runs.memory:
            written.append(_save(_memory(runs), folder / "byte_path_memory.svg"))
    return written


def _save(figure: Figure, path: Path) -> Path:
    figure.savefig(path, metadata={"Date": None}, bbox_inches="tight")
    plt.close(figure)
    # matplotlib ends lines of paths with blanks.
    lines = (line.rstrip() for line in path.read_text("utf-8").splitlines())
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def _bulk(results: Sequence[Result]) -> Figure:
    found = ratios(figures([run for run in results if not run.load.is_small]))
    figure = _bars(found, ("throughput / that of HAProxy's defaults", "CPU per GB / that of HAProxy's defaults"))
    figure.axes[1].set_xlim(0, MAX_CPU_RATIO)
    for axis in figure.axes:
        axis.axvline(1.0, color="black", linewidth=0.8)
    return figure


def _small(results: Sequence[Result]) -> Figure:
    return _bars(figures([run for run in results if run.load.is_small]), ("p50, µs", "CPU µs per fetch"))


def _bars(found: dict[str, dict[Load, tuple[float, float]]], titles: tuple[str, str]) -> Figure:
    """Draw a panel for each side of the pairs, a group of bars per peer, a bar per load."""
    figure, axes = plt.subplots(1, 2, figsize=(10, 5), sharey=True)
    peers, loads = list(found), list(found[ANCHOR])
    for side, (axis, title) in enumerate(zip(axes, titles, strict=True)):
        for number, load in enumerate(loads):
            at = [place + BAR * ((number + 0.5) / len(loads) - 0.5) for place in range(len(peers))]
            axis.barh(at, [found[peer][load][side] for peer in peers], BAR / len(loads), label=load.name)
        axis.set_title(title)
        axis.set_yticks(range(len(peers)), [f"{peer} (sidecar)" if peer in OURS else peer for peer in peers])
    axes[0].invert_yaxis()
    axes[1].legend(loc="upper right")
    return figure


def _partitions(results: Sequence[Result]) -> Figure:
    figure, axis = plt.subplots(figsize=(7, 4))
    for (peer, in_sync), points in slopes(results).items():
        counts, microseconds = zip(*points, strict=True)
        name = f"{peer}, {'in sync' if in_sync else 'behind'}"
        axis.plot(counts, [us / 1000 for us in microseconds], marker="o", markersize=3, label=name)
    axis.set(xlabel="partitions per fetch", ylabel="CPU ms per fetch", xlim=0, ylim=0)
    axis.legend()
    return figure


def _memory(runs: Runs) -> Figure:
    figure, axis = plt.subplots(figsize=(7, 3))
    for what, samples in runs.memory.items():
        axis.plot([at / 60 for at, _ in samples], [held.resident / MIB for _, held in samples], label=what)
    axis.set(xlabel="minutes at full rate", ylabel="RSS, MiB", xlim=0, ylim=0)
    axis.legend()
    return figure
