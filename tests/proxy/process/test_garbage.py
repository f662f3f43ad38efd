"""Garbage is looked for seldom, and whoever runs a sidecar gets the collector back as it was."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING

import trio
import trio.testing

from proxy.process.garbage import FULL_SECONDS, MANY, collect_now_and_then, collected_by_hand

if TYPE_CHECKING:
    from trio.testing import MockClock


class Ring:
    def __init__(self) -> None:
        self.itself = self


def test_while_it_lasts_python_looks_for_nothing_by_itself() -> None:
    with collected_by_hand():
        assert not gc.isenabled()
        assert gc.get_freeze_count()
    assert gc.isenabled()
    assert not gc.get_freeze_count()


async def test_much_that_is_new_is_looked_at_within_a_second(autojump_clock: MockClock) -> None:
    with collected_by_hand():
        ring = Ring()
        gone = weakref.ref(ring)
        del ring
        async with trio.open_nursery() as nursery:
            nursery.start_soon(collect_now_and_then)
            await trio.sleep(10)
            assert gone() is not None
            new = [Ring() for _ in range(MANY)]
            await trio.sleep(2)
            assert gone() is None
            assert gc.get_count()[0] < len(new)
            nursery.cancel_scope.cancel()


async def test_what_refers_to_itself_goes_now_and_then(autojump_clock: MockClock) -> None:
    ring = Ring()
    gone = weakref.ref(ring)
    with collected_by_hand():  # it is frozen now
        del ring
        async with trio.open_nursery() as nursery:
            nursery.start_soon(collect_now_and_then)
            await trio.sleep(FULL_SECONDS - 1)
            gc.collect()
            assert gone() is not None
            await trio.sleep(2)
            assert gone() is None
            nursery.cancel_scope.cancel()
