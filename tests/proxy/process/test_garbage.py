"""Collections that take long happen seldom, and whoever runs a sidecar gets the collector back as it was."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING

import trio
import trio.testing

from proxy.process.garbage import FULL_SECONDS, NEVER, collect_now_and_then, short_collections

if TYPE_CHECKING:
    from trio.testing import MockClock


class Ring:
    def __init__(self) -> None:
        self.itself = self


def test_while_it_lasts_nobody_looks_at_everything() -> None:
    before = gc.get_threshold()
    with short_collections():
        assert gc.get_threshold()[2] == NEVER
        assert gc.get_freeze_count()
    assert gc.get_threshold() == before
    assert not gc.get_freeze_count()


async def test_what_refers_to_itself_goes_now_and_then(autojump_clock: MockClock) -> None:
    ring = Ring()
    gone = weakref.ref(ring)
    gc.collect()  # it is old now
    del ring
    with trio.move_on_after(FULL_SECONDS - 1):
        await collect_now_and_then()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(collect_now_and_then)
        await trio.sleep(FULL_SECONDS + 1)
        assert gone() is None
        nursery.cancel_scope.cancel()
