"""The system that the demo is shown on: moves, quotas, what was seen on the wire, and checks.

Knows no broker and no screen.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ..measuring.figures import Event


@dataclass(frozen=True, slots=True)
class Check:
    """A condition that must hold at the end, and what was found."""

    what: str
    holds: bool
    found: str


def journal_settings(directory: Path) -> str:
    """Return proxy.toml's table `[journal]` for a journal in `directory`."""
    return f"directory = {json.dumps(str(directory.absolute()))}"


class Stage(Protocol):
    """A running system."""

    @property
    def title(self) -> str:
        """The partitions that are moved, and their destination."""

    @property
    def total_bytes(self) -> int:
        """The bytes to move."""

    async def set_quota(self, bytes_per_second: float) -> str:
        """Write the quotas file; return what was written, for the screen."""

    async def begin(self) -> None:
        """Start the move."""

    async def is_over(self) -> bool:
        """Return whether every replica has arrived."""

    def seen(self) -> Sequence[Event]:
        """Return the record bytes that reached followers so far, on `time.monotonic`'s clock."""

    async def throttles(self) -> list[dict[str, Any]]:
        """Return each sidecar's `/throttle`."""

    async def checks(self) -> list[Check]:
        """Compare replicas and read the brokers' logs."""
