"""Reads the kernel's figures of this process (CPU, memory, descriptors) as prometheus_client does: ``process_…``.

Read in a thread, because descriptors are counted one by one, and 10 000 connections have 20 000. Invariant: they are
read at most once a second, and a scrape waits no longer than that. If they are not there in time, it shows the last
ones.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import trio

from ..threads import in_thread
from .lazy_imports import load_prometheus

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prometheus_client import Metric as Family

FRESH_SECONDS = 1.0


class ProcessFigures:
    """One per process."""

    def __init__(self, collect: Callable[[], Sequence[Family]] | None = None) -> None:
        self._collect = collect or _collected
        self._last: Sequence[Family] = ()
        self._read_at = -FRESH_SECONDS
        self._reading = trio.Lock()
        self._threads = trio.CapacityLimiter(1)
        """Threads of their own: Trio's shared threads may all be waiting for a name server that does not answer."""

    async def read(self) -> Sequence[Family]:
        with trio.move_on_after(FRESH_SECONDS):
            async with self._reading:
                if trio.current_time() - self._read_at >= FRESH_SECONDS:
                    with suppress(RuntimeError):  # no thread is to be had; without a descriptor nothing is found
                        self._last = await in_thread(self._collect, limiter=self._threads) or self._last
                    self._read_at = trio.current_time()
        return self._last


def _collected() -> Sequence[Family]:
    # Loaded when it is first scraped, in the thread that collects: a start does not wait for it.
    load_prometheus()
    from prometheus_client import ProcessCollector

    return tuple(ProcessCollector(registry=None).collect())
