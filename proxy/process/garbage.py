"""When Python looks for garbage in cycles: often among what is young, seldom among everything.

What is not part of a cycle is freed at once, and connections that have ended are (tests see to it). Left to itself the
collector looks at every object whenever their number has grown by a quarter, which one fetch of many partitions does:
20 ms for 5000 replicas, 30 for 10 000, and everybody waits (measured). There are few cycles to be found: exceptions
with their tracebacks, documents of quotas.toml. Once in `FULL_SECONDS` is often enough for those that have grown old.
"""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import Iterator

YOUNG, MIDDLE = 700, 5
"""New objects before the youngest are looked at, and how often that happens before those that survived are: 0.5 ms."""
NEVER = 2**30
FULL_SECONDS = 600.0


@contextmanager
def short_collections() -> Iterator[None]:
    """While the block lasts no collection by itself takes long. What was there before is not looked at again."""
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, MIDDLE, NEVER)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


async def collect_now_and_then() -> None:
    """Until cancelled."""
    while True:
        await trio.sleep(FULL_SECONDS)
        gc.collect()
