"""Wakes all who wait for something to change: quotas, the beginning of a drain, a place that became free.

Does not know the change. Invariant: a waiter that calls `wait` before `notify` is woken by it.
"""

from __future__ import annotations

import trio


class Changes:
    """A condition without a lock: everything runs on one Trio thread. Without a waiter, `notify` costs next to
    nothing."""

    def __init__(self) -> None:
        self._awaited: trio.Event | None = None
        self.count = 0
        """The number of changes so far."""

    async def wait(self) -> None:
        if self._awaited is None:
            self._awaited = trio.Event()
        await self._awaited.wait()

    def notify(self) -> None:
        self.count += 1
        if self._awaited is not None:
            self._awaited.set()
            self._awaited = None
