"""What a scrape needs and a start does not: loaded in a thread once traffic is served.

prometheus_client, and what looks up the own version, take 0.2 s of CPU to load. Invariants: nothing of it is loaded by
importing this; it is loaded once, by one thread, since two that import it at the same time each may see half of it.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import trio

from ..files.watching import load_notifier
from ..threads import in_thread
from ..version import own_version

if TYPE_CHECKING:
    from .exposition import Exposition
    from .metrics import Sources

_LOADING = threading.Lock()


def load_prometheus() -> None:
    """Blocking. Whoever imports prometheus_client after it finds it whole."""
    with _LOADING:
        from . import exposition  # noqa: F401


def load_late() -> None:
    """Blocking. Who needs what could not be loaded, as there was no descriptor to read it with, tries again."""
    for load in (own_version, load_prometheus, load_notifier):
        with suppress(ImportError, OSError):
            load()


async def load_what_could_wait() -> None:
    """In a thread, or the first scrape would hold up the loop. Where no thread is to be had, whoever needs a part loads
    it."""
    with suppress(RuntimeError):
        await in_thread(load_late, limiter=trio.CapacityLimiter(1))


def exposition_of(sources: Sources) -> Exposition:
    """Blocking."""
    load_prometheus()
    from .exposition import Exposition

    return Exposition(sources)
