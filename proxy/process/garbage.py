"""Runs Python's collector of cyclic garbage: never automatically, and seldom enough that no connection waits for it.

What is not part of a cycle is freed at once, and connections that have ended are (tests see to it). Left to itself the
collector looks at what is young at every 700 new objects. That is little work, unless one of them is a list of the 25
000 partitions of a Fetch, all of which it then touches: 5 to 12 ms (measured), and everybody waits. There are few
cycles to be found: exceptions with their tracebacks, connections of HTTP that were broken off.

So it looks at what came since the last time, twice a second: next to nothing where little happens. Where a look found
nothing to speak of, the next is put off, so that looks have a small share of the time, and what comes meanwhile is
taken to be alive as well. To keep it for the next look instead made that look a pause for everybody: 182 ms for 236 000
objects (measured). Python's count of new objects does not tell how many there are to look through, since it is less by
each object that is freed, the old ones too. What has been seen alive, or taken to be, is looked at again after
`FULL_SECONDS`.
"""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import Iterator

LOOK_SECONDS = 0.5
TOO_MANY = 60_000
"""If so many objects are new within `LOOK_SECONDS`, most of them are in a few long lists that are still in use. To look
through them would be a pause of 20 ms and more for everybody."""
WORTH_IT = 1000
"""A look that finds so many objects to be garbage, some 200 kB, was worth it: the next one is not put off."""
MOST_SHARE = 0.003
"""The most of the time that may go to looks that were not worth it: after such a look the next one is put off."""
FULL_SECONDS = 600.0


@contextmanager
def collected_by_hand() -> Iterator[None]:
    """Leave cyclic garbage to `collect_now_and_then` while the block lasts. Objects from before the block are
    not looked at until `FULL_SECONDS` are over: a start leaves 0.7 MB of garbage, and to find that took a twentieth of
    the start's CPU."""
    was_enabled = gc.isenabled()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
        gc.unfreeze()


async def collect_now_and_then() -> None:
    """Collect garbage now and then, until cancelled."""
    not_before = trio.current_time()
    full_at = not_before + FULL_SECONDS
    while True:
        await trio.sleep(LOOK_SECONDS)
        began = trio.current_time()
        if began >= full_at:
            full_at = began + FULL_SECONDS
            gc.unfreeze()
        elif began < not_before or gc.get_count()[0] >= TOO_MANY:
            gc.freeze()
            continue
        was_worth_it = gc.collect() >= WORTH_IT
        gc.freeze()
        ended = trio.current_time()
        not_before = ended if was_worth_it else ended + (ended - began) / MOST_SHARE
