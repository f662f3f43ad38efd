"""What wakes the requests of a connection that a client quota mutes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import trio
import trio.testing

from proxy.changes import Changes
from proxy.relay.fetch_handling import FetchHandler
from proxy.relay.hold_waits import HoldWaits
from proxy.relay.in_flight import InFlightRequests
from proxy.throttle.link import Link
from tests.proxy.conversation import throttle
from tests.proxy.recorded_log import RecordedLog

if TYPE_CHECKING:
    from trio.testing import MockClock


class Muted:
    """A connection's client quotas, as far as the waits know them."""

    def __init__(self, muted_until: float) -> None:
        self.muted_until = muted_until


async def woken_at(muted_until: float, *, starts_at: float, shortened_to: float | None = None) -> float:
    """When the requests go on, if the task that waits runs first at `starts_at`."""
    in_flight = InFlightRequests(Link(throttle(), "peer"), Changes(), RecordedLog())
    muted: Any = Muted(muted_until)
    in_flight.clients = muted
    directions: Any = ["requests", "responses"]
    woken = trio.Event()
    waits = HoldWaits(
        in_flight,
        FetchHandler(in_flight, trio.current_time),
        requests=directions[0],
        responses=directions[1],
        later=lambda direction: woken.set() if direction == "requests" else None,
    )
    assert waits.begin()
    await trio.sleep_until(starts_at)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(waits.run)
        if shortened_to is not None:
            await trio.testing.wait_all_tasks_blocked()
            muted.muted_until = shortened_to
            in_flight.settled.notify()
        await woken.wait()
        nursery.cancel_scope.cancel()
    return trio.current_time()


async def test_a_mute_ends_at_its_time(autojump_clock: MockClock) -> None:
    assert await woken_at(0.75, starts_at=0.0) == 0.75


async def test_a_mute_that_is_over_before_the_task_that_waits_runs(autojump_clock: MockClock) -> None:
    """Of a few milliseconds: requests waited for ever, and the client reconnected after its request timeout."""
    assert await woken_at(0.001, starts_at=0.002) == 0.002


async def test_a_change_of_the_quotas_may_shorten_it(autojump_clock: MockClock) -> None:
    assert await woken_at(9.0, starts_at=0.0, shortened_to=0.5) == 0.5
