"""A connection that has ended is freed at once: the collector looks at what is old once in ten minutes."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

import pytest
import trio

from tests.proxy.conversation import throttle
from tests.uncollected import uncollected

from .test_responses import answer, entry
from .wire import T0, relayed

if TYPE_CHECKING:
    from trio.testing import MockClock


@pytest.mark.parametrize("by_trio", [False, True])
async def test_a_connection_that_has_ended_is_part_of_no_cycle(clock: MockClock, *, by_trio: bool) -> None:
    of = throttle()
    with uncollected():
        async with relayed(of, by_trio=by_trio) as wire:
            await wire.exchange({T0: 0}, answer([entry(0)]))
            (link,) = map(weakref.ref, of.links)
            assert link() is not None
        await trio.sleep(1)
        assert link() is None
