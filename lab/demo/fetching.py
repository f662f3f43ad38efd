"""Kafka's jars before the demo: who waits for Maven, the first time, sees that it gets on."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ..jars import kafka_jars

if TYPE_CHECKING:
    from rich.console import Console

    from ..jars import Fetched

PLAIN_LINE_SECONDS = 5.0


def fetch_jars(console: Console) -> None:
    """Blocking; silent where they are in the cache. Raises LabError."""
    told = 0.0
    status = console.status("")

    def tell(fetched: Fetched) -> None:
        nonlocal told
        line = f"fetching Kafka's jars by Maven, this once: {fetched.files} files, {fetched.size_bytes / 1e6:.1f} MB"
        if console.is_terminal:
            status.update(line)
            status.start()
        elif time.monotonic() - told >= PLAIN_LINE_SECONDS:
            told = time.monotonic()
            console.print(line, highlight=False)

    try:
        kafka_jars(tell=tell)
    finally:
        status.stop()
