"""Loads modules that a scrape needs and a start does not, in a thread, once traffic is served.

prometheus_client, and what looks up our own version, take 0.2 s of CPU to load. Invariants: to import this module loads
nothing of them. They are loaded once, by one thread: if two threads import a module at the same time, each may see half
of it.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import trio

from ..files.watching import load_notifier
from ..package import own_version
from ..threads import in_thread

if TYPE_CHECKING:
    from .exposition import Exposition
    from .metric_row import Sources

_LOADING = threading.Lock()


def load_prometheus() -> None:
    """Import prometheus_client completely, before others import it. Blocking."""
    with _LOADING:
        from ..observing import exposition  # noqa: F401


def load_late() -> None:
    """Import everything that can wait. Blocking.

    What cannot be loaded, because there is no descriptor to read it with, is loaded by whoever needs it first.
    """
    for load in (own_version, load_prometheus, load_notifier):
        with suppress(ImportError, OSError):
            load()


async def load_lazily() -> None:
    """Load it in a thread; otherwise the first scrape would hold up the loop. If there is no thread for it, each part
    is loaded when it is needed first."""
    with suppress(RuntimeError):
        await in_thread(load_late, limiter=trio.CapacityLimiter(1))


def exposition_of(sources: Sources) -> Exposition:
    """Make the exposition. Blocking."""
    load_prometheus()
    from .exposition import Exposition

    return Exposition(sources)
