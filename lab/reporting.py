"""Progress and results of the lab's commands, as they are printed. Knows only values; colour only on a terminal.

Invariant: nothing here writes to standard output.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from proxy.quotas.units import format_bytes

from .moves.move import MIB

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    from .moves.move import MoveResult, Progress


class ProgressLine:
    """One line on standard error that changes on a terminal, and one line per phase elsewhere."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._status = self._console.status("") if self._console.is_terminal else None
        self._shown = ""
        self.title = ""

    def __enter__(self) -> ProgressLine:
        if self._status:
            self._status.start()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._status:
            self._status.stop()

    def phase(self, name: str) -> None:
        """Print which phase begins now."""
        text = f"{self.title}: {name}" if self.title else name
        if self._status:
            self._status.update(text)
        elif text != self._shown:
            self._console.print(text, highlight=False)
        self._shown = text

    def tell(self, progress: Progress) -> None:
        """Print progress, for `lab.moves.mover.Mover`."""
        name = progress.phase
        if progress.bytes_to_move and self._status:
            name += (
                f" {format_bytes(progress.bytes_moved)} of {format_bytes(progress.bytes_to_move)}"
                f" after {progress.seconds:.0f} s"
            )
        self.phase(name)


def moves_table(results: Iterable[MoveResult]) -> Table:
    """Make a table with one column per move, so that a few fit on any terminal; ratios are over the quota."""
    columns = [_column(result) for result in results]
    table = Table("")
    for column in columns:
        table.add_column(column[0], justify="right")
    for row, name in enumerate(_ROWS, 1):
        table.add_row(name, *(column[row] for column in columns))
    return table


_ROWS = (
    "quota, MiB/s", "partitions", "seconds", "seconds / ideal", "mean / quota", "worst 1 s / quota",
    "worst 11 s / quota", "first 1 s / quota", "deviation / quota", "fetches per second", "Fetch version",
    "equal replicas", "bad log lines", "ISR shrinks", "live p50, ms", "live p95, ms",
)  # fmt: skip


def _column(result: MoveResult) -> list[str]:
    move, latencies = result.move, result.latencies
    return [
        f"{move.how}\n{move.side}" if move.throttled else move.how,
        f"{move.quota_bytes_per_second / MIB:g}" if move.throttled else "-",
        str(move.partitions),
        f"{result.duration_seconds:.1f}",
        _ratio(result.duration_ratio),
        _ratio(result.mean_ratio),
        _ratio(result.worst_second_ratio),
        _ratio(result.worst_window_ratio),
        _ratio(result.first_second_ratio),
        _ratio(result.deviation_ratio),
        f"{result.fetches_per_second:.1f}",
        ", ".join(f"v{version}" for version in sorted(result.fetch_versions)),
        "yes" if result.equal else "[red]NO[/red]",
        str(len(result.bad_log_lines)),
        str(len(result.shrinks)),
        f"{latencies.p50 * 1000:.0f}" if latencies else "-",
        f"{latencies.p95 * 1000:.0f}" if latencies else "-",
    ]


def _ratio(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.2f}"
