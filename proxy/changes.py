"""Tell everybody who waits that something to decide by has changed: quotas, or a drain that began.

Knows neither. Invariant: a waiter that calls `wait` before `notify` is woken by it.
"""

from __future__ import annotations

import trio


class Changes:
    """A condition without a lock: everything runs on one Trio thread."""

    def __init__(self) -> None:
        self._event = trio.Event()

    async def wait(self) -> None:
        await self._event.wait()

    def notify(self) -> None:
        self._event.set()
        self._event = trio.Event()
