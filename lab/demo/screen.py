"""The demo on screen: a live table on a terminal, one line a second elsewhere, the verdict at the end.

Knows what `/throttle` says, no broker. Invariant: every figure carries its unit.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ..measuring.figures import within

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from rich.console import Console, RenderableType

    from .stage import Stage
    from .story import Ending

MIB = 1 << 20
PLAIN_LINE_SECONDS = 1.0


class Screen:
    """A teller for `story.play`. Use as a context manager: the terminal is put right whatever happens."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None
        self._told = 0.0

    def __enter__(self) -> Screen:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def say(self, line: str) -> None:
        self._console.print(line, highlight=False)

    async def show(self, stage: Stage, *, started: float, quota: float) -> None:
        now = time.monotonic()
        seen = stage.seen()
        moved = sum(event.size_bytes for event in seen)
        rate = sum(event.size_bytes for event in within(seen, now - 1.0, now))
        if self._live is not None:
            roles = list(_roles(await stage.throttles()))
            self._live.update(_picture(stage, roles, moved=moved, rate=rate, quota=quota), refresh=True)
        elif now - self._told >= PLAIN_LINE_SECONDS:
            self._told = now
            self._console.print(
                f"{now - started:5.1f} s  moved {moved / MIB:5.1f} of {stage.total_bytes / MIB:.0f} MiB"
                f"  last second {rate / MIB:5.2f} of {quota / MIB:.2f} MiB/s ({rate / quota:.2f} x)",
                highlight=False,
            )

    def end(self, ending: Ending) -> None:
        """Print the table that the demo is for."""
        table = Table(title="What passed", title_justify="left")
        for column in ("quota", "bytes", "seconds", "mean / quota", "worst second / quota"):
            table.add_column(column, justify="right")
        for phase in ending.phases:
            table.add_row(
                f"{phase.quota_bytes_per_second / MIB:.2f} MiB/s",
                f"{phase.total_bytes / MIB:.1f} MiB",
                f"{phase.seconds:.1f} s",
                f"{phase.mean_over_quota:.2f}",
                f"{phase.worst_second_over_quota:.2f}",
            )
        self._console.print(table)
        for check in ending.checks:
            mark = Text("ok  " if check.holds else "FAIL", style="green" if check.holds else "bold red")
            self._console.print(mark, Text(f" {check.what}: {check.found}"))


def _roles(throttles: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    for throttle in throttles:
        for role, state in throttle["roles"].items():
            if state["quota_bytes_per_second"] is not None:
                yield f"{throttle['broker']} as {role}", state


def _picture(
    stage: Stage, roles: list[tuple[str, dict[str, Any]]], *, moved: int, rate: int, quota: float
) -> RenderableType:
    table = Table(title=stage.title, title_justify="left", expand=True)
    for column in ("broker", "quota", "rate, 11 s window", "lag", "ETA", "left out", "held now"):
        table.add_column(column, justify="left" if column == "broker" else "right")
    for name, state in roles:
        eta = state["eta_seconds"]
        table.add_row(
            name,
            f"{state['quota_bytes_per_second'] / MIB:.2f} MiB/s",
            f"{state['rate_bytes_per_second'] / MIB:.2f} MiB/s",
            f"{state['lag_messages']:,} messages",
            "-" if eta is None else f"{eta:.0f} s",
            f"{state['omitted_partitions_total']:,}",
            str(state["held_requests"]),
        )
    bars = Table.grid(padding=(0, 2))
    bars.add_row(
        f"last second {rate / MIB:6.2f} of {quota / MIB:.2f} MiB/s ({rate / quota:4.2f} x)",
        ProgressBar(total=2 * quota, completed=min(rate, 2 * quota), width=50),
    )
    bars.add_row(
        f"moved       {moved / MIB:6.1f} of {stage.total_bytes / MIB:.1f} MiB",
        ProgressBar(total=stage.total_bytes, completed=min(moved, stage.total_bytes), width=50),
    )
    return Group(table, bars)
