"""When Python looks for garbage in cycles: never by itself, and seldom enough that nobody waits for it.

What is not part of a cycle is freed at once, and connections that have ended are (tests see to it). Left to itself the
collector looks at what is young at every 700 new objects. That is little work, unless one of them is a list of the 25
000 partitions of a Fetch, all of which it then touches: 5 to 12 ms (measured), and everybody waits. There are few
cycles to be found: contexts of parsers, exceptions with their tracebacks, connections of HTTP that were broken off, in
all some dozen objects for a hostile connection (measured by the fuzzer). So it looks when so much is new that it might
be worth it, and never for more than a small share of the time. What it has seen alive is not looked at again until
`FULL_SECONDS` are over.
"""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import Iterator

LOOK_SECONDS = 1.0
MANY = 50_000
"""New objects that are worth a look: at most 10 MB, and 5 ms to look through."""
MOST_SHARE = 0.001
"""Of the time. To look through a million objects, which eight Fetches of 25 000 partitions are, takes 0.1 s: then the
next look is 100 s away."""
FULL_SECONDS = 600.0


@contextmanager
def collected_by_hand() -> Iterator[None]:
    """While the block lasts garbage is looked for by `collect_now_and_then` alone. What was there before is not looked
    at before `FULL_SECONDS` are over."""
    was_enabled = gc.isenabled()
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
        gc.unfreeze()


async def collect_now_and_then() -> None:
    """Until cancelled."""
    not_before = trio.current_time()
    full_at = not_before + FULL_SECONDS
    while True:
        await trio.sleep(LOOK_SECONDS)
        began = trio.current_time()
        is_full = began >= full_at
        if not is_full and (began < not_before or gc.get_count()[0] < MANY):
            continue
        if is_full:
            full_at = began + FULL_SECONDS
            gc.unfreeze()
        gc.collect()
        gc.freeze()
        ended = trio.current_time()
        not_before = ended + (ended - began) / MOST_SHARE
