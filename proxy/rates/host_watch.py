"""Looks at the host's disks and network now and then, in a thread.

Trio's side of `host`. Invariant: `reading` is of two looks that are no further apart than `LONGEST_SECONDS`, or None.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import trio

from ..threads import FILE_THREADS, in_thread
from .host import read_counters, reading

if TYPE_CHECKING:
    from collections.abc import Callable

    from .host import HostCounters, HostReading

LONGEST_SECONDS = 10.0
LOOK_SECONDS = 1.0
"""A look that takes longer counts as none."""


class HostWatch:
    """Samples the host's disks and network, in a thread."""

    def __init__(self, read: Callable[[], HostCounters] = read_counters) -> None:
        self.reading: HostReading | None = None
        self._read = read
        self._last: tuple[float, HostCounters] | None = None

    async def look(self) -> None:
        """Take one sample."""
        found = None
        with trio.move_on_after(LOOK_SECONDS):
            with suppress(RuntimeError):  # no thread is to be had: rates are chosen without what the host says
                found = await in_thread(self._read, limiter=FILE_THREADS)
        now, before = trio.current_time(), self._last
        self._last = None if found is None else (now, found)
        self.reading = None
        if found is not None and before is not None and 0 < now - before[0] <= LONGEST_SECONDS:
            self.reading = reading(before[1], found, now - before[0])
