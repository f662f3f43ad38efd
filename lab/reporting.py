"""How the lab's commands show progress and results. Knows only values; colour only on a terminal.

Invariant: nothing here writes to standard output.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from proxy.quotas.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    from .moves import MoveResult, Progress


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
        """Say what begins now."""
        text = f"{self.title}: {name}" if self.title else name
        if self._status:
            self._status.update(text)
        elif text != self._shown:
            self._console.print(text, highlight=False)
        self._shown = text

    def tell(self, progress: Progress) -> None:
        """For `lab.mover.Mover`."""
        name = progress.phase
        if progress.bytes_to_move and self._status:
            name += (
                f" {format_bytes(progress.bytes_moved)} of {format_bytes(progress.bytes_to_move)}"
                f" after {progress.seconds:.0f} s"
            )
        self.phase(name)


def moves_table(results: Iterable[MoveResult]) -> Table:
    """One row per move, ratios over the quota."""
    table = Table(
        "how", "side", "quota MiB/s", "P", "seconds", "/ideal", "mean", "worst 1 s", "worst 11 s",
        "first 1 s", "sd", "fetch/s", "Fetch", "equal", "bad lines", "shrinks", "live p50/p95 ms",
    )  # fmt: skip
    for result in results:
        move, latencies = result.move, result.latencies
        table.add_row(
            move.how,
            move.side if move.throttled else "-",
            f"{move.quota_bytes_per_second / (1 << 20):g}" if move.throttled else "-",
            str(move.partitions),
            f"{result.duration_seconds:.1f}",
            *(
                "-" if math.isnan(ratio) else f"{ratio:.2f}"
                for ratio in (
                    result.duration_ratio,
                    result.mean_ratio,
                    result.worst_second_ratio,
                    result.worst_window_ratio,
                    result.first_second_ratio,
                    result.deviation_ratio,
                )
            ),
            f"{result.fetches_per_second:.1f}",
            ", ".join(f"v{version}" for version in sorted(result.fetch_versions)),
            "yes" if result.equal else "[red]NO[/red]",
            str(len(result.bad_log_lines)),
            str(len(result.shrinks)),
            f"{latencies.p50 * 1000:.0f} / {latencies.p95 * 1000:.0f}" if latencies else "-",
        )
    return table
