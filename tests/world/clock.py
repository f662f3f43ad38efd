"""The world's clock, and the one Trio task that moves it: everything that happens at a time is a call on one heap.

Trio's own tasks (holds, drains, dials) run in between, whenever one of them was made runnable or its deadline has
come. One seed gives one order of everything.
"""

from __future__ import annotations

import heapq
import math
import random
from typing import TYPE_CHECKING, Any

import trio
from trio.testing import wait_all_tasks_blocked

if TYPE_CHECKING:
    from collections.abc import Callable

_ROUNDING = 1e-9
"""Seconds: of two sums that should be equal, one may be this much less."""


class VirtualClock(trio.abc.Clock):
    """Stands still but for what the network does."""

    def __init__(self) -> None:
        self.now = 0.0

    def start_clock(self) -> None:
        """Nothing has to be started."""

    def current_time(self) -> float:
        return self.now

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Return whether a deadline is ahead; nobody ever sleeps, since the network waits for idle tasks alone."""
        return 1.0 if deadline > self.now else 0.0


class Network:
    """Calls in the order of their times, those of one time in the order in which they were asked for."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.owes_trio = False
        """True if a Trio task was made runnable."""
        self.calls = 0
        self._due: list[tuple[float, int, Callable[..., object], tuple[Any, ...]]] = []
        self._order = 0

    @property
    def now(self) -> float:
        return self.clock.now

    def at(self, when: float, call: Callable[..., object], *args: Any) -> None:
        self._order += 1
        heapq.heappush(self._due, (when, self._order, call, args))

    def soon(self, call: Callable[..., object], *args: Any) -> None:
        self.at(self.clock.now, call, *args)

    async def run(self, until: float) -> None:
        """Do all that is due until then."""
        due, clock = self._due, self.clock
        trio_due = await self._run_trio()
        while True:
            end = min(until, trio_due)
            while due and due[0][0] <= end:
                when, _, call, args = heapq.heappop(due)
                clock.now = max(clock.now, when)
                self.calls += 1
                call(*args)
                if self.owes_trio:
                    trio_due = await self._run_trio()
                    end = min(until, trio_due)
            if trio_due > until:
                clock.now = until
                return
            clock.now = max(clock.now, trio_due + _ROUNDING)
            trio_due = await self._run_trio()

    async def _run_trio(self) -> float:
        """Let every Trio task run until it waits; return the time of the next deadline of any."""
        self.owes_trio = False
        await wait_all_tasks_blocked()
        seconds = trio.lowlevel.current_statistics().seconds_to_next_deadline
        return math.inf if math.isinf(seconds) else self.clock.now + max(seconds, 0.0)


def run_in_virtual_time(seed: int, world: Callable[[Network], Any]) -> None:
    """Run `world` with Trio's scheduling drawn from the seed, which its public interface does not offer."""
    scheduling: Any = trio._core._run
    before, random_before = scheduling._ALLOW_DETERMINISTIC_SCHEDULING, scheduling._r
    scheduling._ALLOW_DETERMINISTIC_SCHEDULING, scheduling._r = True, random.Random(seed)
    clock = VirtualClock()
    try:
        trio.run(world, Network(clock), clock=clock)
    finally:
        scheduling._ALLOW_DETERMINISTIC_SCHEDULING, scheduling._r = before, random_before
