"""What a terminal shows of a report, line by line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from operating.terminal import Console

if TYPE_CHECKING:
    from rich.console import RenderableType


def shown(report: RenderableType) -> list[str]:
    console = Console()
    with console.capture() as captured:
        console.print(report, soft_wrap=True)
    return captured.get().splitlines()
