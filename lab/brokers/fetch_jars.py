"""Kafka's jars before anything needs them: who waits for Maven, the first time, sees that it gets on."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from .jars import DEFAULT_KAFKA_VERSION, kafka_jars

if TYPE_CHECKING:
    from rich.console import Console

    from .jars import Fetched

PLAIN_LINE_SECONDS = 5.0


def fetch_jars(console: Console, version: str = DEFAULT_KAFKA_VERSION) -> None:
    """Fetch the jars unless they are in the cache; blocking, and silent where they are. Raises LabError."""
    told = 0.0
    status = console.status("")

    def tell(fetched: Fetched) -> None:
        nonlocal told
        so_far = f"{fetched.files} files, {fetched.size_bytes / 1e6:.1f} MB"
        line = f"fetching the jars of Kafka {version} by Maven, this once: {so_far}"
        if console.is_terminal:
            status.update(line)
            status.start()
        elif time.monotonic() - told >= PLAIN_LINE_SECONDS:
            told = time.monotonic()
            console.print(line, highlight=False)

    try:
        kafka_jars(version, tell=tell)
    finally:
        status.stop()
