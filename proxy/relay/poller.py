"""Wakes the directions of every relayed connection without a Trio wake-up each: one epoll, one Trio task.

A small fetch needs two waits, a large one through Kafka's 64 KiB socket buffers one per 64 KiB. Relayed by a loop that
does nothing else, a small fetch costs 39 µs of CPU where Trio waits (epoll_ctl, a pass of its run loop), 26 where a
poller does, 22.5 by HAProxy (measured). So a direction is a coroutine that is driven by hand, a `Flow`:

    a direction's Trio task ──drive──▶ Flow ──awaits a leg──▶ parked at the leg ──epoll──▶ stepped by `Poller.run`
              ▲                         │
              └── runs its errands ◀────┘  (what needs Trio: a hold's timeout, waiting for other requests)

What a flow yields is called with the flow and sees to it that the flow goes on. Cancelling the task closes the flow.
Knows sockets and legs, nothing of what flows.

Invariant: a flow is parked at one place at a time, and is stepped by one at a time.
"""

from __future__ import annotations

import select
import time
import types
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import outcome
import trio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator

    from .leg import Leg

T = TypeVar("T")
Trap: TypeAlias = "Callable[[Flow], None]"
"""What a flow yields."""

LINGER_SECONDS = 0.001
"""After events the next ones are usually microseconds away, cheaper waited for here than by way of Trio. epoll counts
in milliseconds; nothing else that runs under Trio minds one."""
TURN_SECONDS = 0.003
"""However much is to be done, everything else that runs under Trio comes at least so often."""
_READ_EVENTS = select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR if hasattr(select, "epoll") else 0
_HANGUP_EVENTS = _READ_EVENTS & ~select.EPOLLIN if hasattr(select, "epoll") else 0
_WRITE_EVENTS = select.EPOLLOUT | select.EPOLLHUP | select.EPOLLERR if hasattr(select, "epoll") else 0


class Flow:
    """One direction's coroutine, and the Trio task that answers for it."""

    __slots__ = ("_coroutine", "_parked", "_task", "ended", "errand", "poller")

    def __init__(self, coroutine: Coroutine[Trap, Any, Any], poller: Poller) -> None:
        self._coroutine = coroutine
        self._task = trio.lowlevel.current_task()
        self._parked = False
        self.poller = poller
        self.errand: Callable[[], Awaitable[Any]] | None = None
        self.ended: outcome.Outcome[Any] | None = None

    def step(self) -> None:
        """Go on until the next wait; after the end a late wake-up means nothing."""
        if self.ended is None:
            self._advance(self._coroutine.send, None)

    def fail(self, error: BaseException) -> None:
        """Go on by raising `error` where it waits."""
        self._advance(self._coroutine.throw, error)

    def resume(self, answer: outcome.Outcome[Any]) -> None:
        """Go on with what an errand came to."""
        self._advance(answer.send, self._coroutine)

    def _advance(self, send: Callable[[Any], Any], what: object) -> None:
        try:
            trap: Trap = send(what)
        except StopIteration as done:
            self._end(outcome.Value(done.value))
        except BaseException as error:  # noqa: BLE001 - raised again in the flow's own task
            self._end(outcome.Error(error))
        else:
            trap(self)

    def _end(self, how: outcome.Outcome[Any]) -> None:
        self.ended = how
        self.wake_task()

    def wake_task(self) -> None:
        if self._parked:
            self._parked = False
            self.poller.owes_trio = True
            trio.lowlevel.reschedule(self._task)

    async def task_needed(self) -> None:
        """Wait, in the flow's task, for its end or its next errand."""

        def abort(_: object) -> trio.lowlevel.Abort:
            self._parked = False
            return trio.lowlevel.Abort.SUCCEEDED

        self._parked = True
        await trio.lowlevel.wait_task_rescheduled(abort)

    def close(self) -> None:
        if self.ended is None:
            self.ended = outcome.Value(None)
            self._coroutine.close()


class Side:
    """A leg's reading or its writing. `ready` is false only if the kernel said so after it last said otherwise."""

    __slots__ = ("_take", "flow", "ready")

    def __init__(self) -> None:
        self.ready = True
        self.flow: Flow | None = None
        """Parked here until it is ready."""
        self._take: Callable[[], bool] | None = None

    def park(self, flow: Flow, take: Callable[[], bool] | None = None) -> None:
        """`take` is called in the flow's place, until it is false."""
        self.flow, self._take = flow, take

    def wake(self) -> None:
        self.ready = True
        flow, take, error = self.flow, self._take, None
        if flow is None:
            return
        if take is not None and flow.ended is None:
            try:
                if take():
                    return
            except BaseException as raised:  # noqa: BLE001 - raised again in the flow
                error = raised
        self.flow = self._take = None
        flow.step() if error is None else flow.fail(error)


class Poller:
    """One per process; `run` is a task of its own, and no flow goes on without it."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._legs: dict[int, Leg] = {}
        self._later: list[Flow] = []
        self._serving = False
        self.owes_trio = False
        """A flow's task was made runnable: no lingering here."""

    def attach(self, leg: Leg) -> None:
        """From now on the leg's waits are flows', until `detach`."""
        number = leg.sock.fileno()
        self._legs[number] = leg
        self._epoll.register(number, select.EPOLLIN | select.EPOLLOUT | select.EPOLLRDHUP | select.EPOLLET)
        leg.polled = True

    def detach(self, leg: Leg) -> None:
        number = leg.sock.fileno()
        if self._legs.pop(number, None) is not None:
            self._epoll.unregister(number)

    async def drive(self, coroutine: Coroutine[Trap, Any, T]) -> T:
        """Run the coroutine as a flow to its end; what it raises is raised here."""
        flow = Flow(coroutine, self)
        try:
            flow.step()
            while flow.ended is None:
                if flow.errand is None:
                    await flow.task_needed()
                if flow.errand is not None:
                    errand, flow.errand = flow.errand, None
                    flow.resume(await outcome.acapture(errand))
            result: T = flow.ended.unwrap()
            return result
        finally:
            flow.close()

    def later(self, flow: Flow) -> None:
        """Step the flow when the others had their turn."""
        if not self._later and not self._serving:
            trio.lowlevel.current_trio_token().run_sync_soon(self._step_later, idempotent=True)
        self._later.append(flow)

    def close(self) -> None:
        self._epoll.close()

    async def run(self) -> None:
        while True:
            await trio.lowlevel.wait_readable(self._epoll.fileno())
            turn_ends = time.perf_counter() + TURN_SECONDS
            self._serving = True
            try:
                while self._poll():
                    if self.owes_trio or time.perf_counter() > turn_ends:
                        self.owes_trio = False
                        await trio.lowlevel.checkpoint()
                        turn_ends = time.perf_counter() + TURN_SECONDS
            finally:
                self._serving = False

    def _poll(self) -> bool:
        """Step every flow whose leg is ready or whose turn it is; False if there is none."""
        legs = self._legs
        waiting, self._later = self._later, []
        events = self._epoll.poll(0 if waiting else LINGER_SECONDS)
        for number, mask in events:
            leg = legs.get(number)
            if leg is None:
                continue
            if mask & _HANGUP_EVENTS:
                leg.hung_up = True
            if mask & _READ_EVENTS:
                leg.reading.wake()
            if mask & _WRITE_EVENTS:
                leg.writing.wake()
        for flow in waiting:
            flow.step()
        return bool(events or waiting)

    def _step_later(self) -> None:
        waiting, self._later = self._later, []
        for flow in waiting:
            flow.step()


@types.coroutine
def park(trap: Trap) -> Generator[Trap, Any, Any]:
    """Leave the flow to `trap`, which is called with it."""
    return (yield trap)


async def by_task(errand: Callable[[], Awaitable[T]]) -> T:
    """Have the flow's own Trio task run `errand`, and return what it returns."""

    def hand_over(flow: Flow) -> None:
        flow.errand = errand
        flow.wake_task()

    result: T = await park(hand_over)
    return result


async def take_turn() -> None:
    """Let the other flows go first."""
    await park(lambda flow: flow.poller.later(flow))


@asynccontextmanager
async def open_poller() -> AsyncIterator[Poller | None]:
    """A poller that runs for as long as the block; None where there is no epoll and legs have to wait by Trio."""
    if not hasattr(select, "epoll"):
        yield None
        return
    poller = Poller()
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(poller.run)
            yield poller
            nursery.cancel_scope.cancel()
    finally:
        poller.close()
