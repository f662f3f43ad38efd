"""A connection that has ended is freed at once: the collector looks at what is old once in ten minutes."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

import pytest
import trio

from protocol.wire.framing import with_length
from tests.proxy.clients.frames import produce_request
from tests.proxy.clients.test_frames import carried, clients, produced, quotas
from tests.proxy.conversation import throttle
from tests.uncollected import uncollected

from .test_responses import answer, entry
from .wire import T0, relayed

if TYPE_CHECKING:
    from trio.testing import MockClock


@pytest.mark.parametrize("ends", ["at rest", "muted", "in line", "awaits an answer"])
async def test_a_clients_connection_that_has_ended_is_part_of_no_cycle(clock: MockClock, ends: str) -> None:
    """Of 2000 that came and went each one remained for ten minutes: 1.2 MB a second."""
    of = clients(quotas(1000.0 if ends in ("muted", "in line") else 1e9))
    with uncollected():
        async with relayed(clients=of) as other:
            if ends == "in line":
                await produced(other, 5000)
            before = set(map(id, of._connections))
            async with relayed(clients=of) as wire:
                frames = next(weakref.ref(each) for each in of._connections if id(each) not in before)
                if ends == "in line":
                    await wire.follower.send_all(with_length(produce_request(1000)))
                    await trio.sleep(0.1)
                elif ends == "awaits an answer":
                    await carried(produce_request(1000), wire.follower, wire.leader)
                else:
                    await produced(wire, 5000)
                assert frames() is not None
                await wire.leader.aclose()
                await wire.finished.wait()
        await trio.sleep(1)
        assert frames() is None
    assert not of._connections
    assert not of.muted
    assert all(not each.line and not each.sending for each in of._entities.values())


@pytest.mark.parametrize("by_trio", [False, True])
async def test_a_connection_that_has_ended_is_part_of_no_cycle(clock: MockClock, *, by_trio: bool) -> None:
    of = throttle()
    with uncollected():
        async with relayed(of, by_trio=by_trio) as wire:
            await wire.in_flight({T0: 0}, answer([entry(0)]))
            (link,) = map(weakref.ref, of.links)
            assert link() is not None
        await trio.sleep(1)
        assert link() is None
