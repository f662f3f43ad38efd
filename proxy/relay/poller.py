"""Wakes the directions of every relayed connection without a Trio wake-up each: one epoll, one Trio task.

A small fetch needs two waits, a large one through Kafka's 64 KiB socket buffers one per 64 KiB. Relayed by a loop that
does nothing else, a small fetch costs 39 µs of CPU where Trio waits (epoll_ctl, a pass of its run loop), 26 where a
poller does, 22.5 by HAProxy (measured). So a direction is a coroutine that is driven by hand, a `Flow`:

    a direction's Trio task ──drive──▶ Flow ──awaits a leg──▶ parked at the leg ──epoll──▶ stepped by `Poller.run`
              ▲                         │
              └── runs its errands ◀────┘  (what needs Trio: a hold's timeout, waiting for other requests)

What a flow yields is called with the flow and sees to it that the flow goes on. Cancelling the task closes the flow.
A turn ends by the clock, and who has had much of it lately waits in line (`share`). Knows sockets and legs, nothing of
what flows.

Invariants: a flow is parked at one place at a time, and is stepped by one at a time; an error costs the flow it is of;
one of the poller itself costs a new epoll.
"""

from __future__ import annotations

import select
import types
from collections import deque
from contextlib import asynccontextmanager
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import outcome
import trio

from .share import LITTLE_SECONDS, TURN_SECONDS, Share

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator

    from .leg import Leg

T = TypeVar("T")
Trap: TypeAlias = "Callable[[Flow], None]"
"""What a flow yields."""

LINGER_SECONDS = 0.001
"""After events the next ones are usually microseconds away, cheaper waited for here than by way of Trio. epoll counts
in milliseconds; nothing else that runs under Trio minds one."""
ROUND_SECONDS = 0.003
"""However much is to be done, everything else that runs under Trio comes at least so often."""
RETRY_SECONDS = 0.1
"""Between two errors of the poller's own: less would be a loop of errors."""
_READ_EVENTS = select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR if hasattr(select, "epoll") else 0
_HANGUP_EVENTS = _READ_EVENTS & ~select.EPOLLIN if hasattr(select, "epoll") else 0
_WRITE_EVENTS = select.EPOLLOUT | select.EPOLLHUP | select.EPOLLERR if hasattr(select, "epoll") else 0


class Flow:
    """One direction's coroutine, and the Trio task that answers for it."""

    __slots__ = ("_coroutine", "_parked", "_task", "ended", "errand", "poller", "share")

    def __init__(self, coroutine: Coroutine[Trap, Any, Any], poller: Poller, share: Share | None = None) -> None:
        self._coroutine = coroutine
        self._task = trio.lowlevel.current_task()
        self._parked = False
        self.poller = poller
        self.share = Share() if share is None else share
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
        """Go on with what an errand came to; after the end it means nothing."""
        if self.ended is None:
            self._advance(answer.send, self._coroutine)

    def _advance(self, send: Callable[[Any], Any], what: object) -> None:
        try:
            trap: Trap = send(what)
        except StopIteration as done:
            self._end(outcome.Value(done.value))
        except BaseException as error:  # noqa: BLE001 - raised again in the flow's own task
            self._end(outcome.Error(error))
        else:
            try:
                trap(self)
            except BaseException as error:  # noqa: BLE001 - raised again in the flow's own task
                self._coroutine.close()
                self._end(outcome.Error(error))

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

    __slots__ = ("_take", "flow", "in_line", "ready")

    def __init__(self) -> None:
        self.ready = True
        self.in_line = False
        """It is to be woken when those have been served whose connections had less time."""
        self.flow: Flow | None = None
        """Parked here until it is ready."""
        self._take: Callable[[], bool] | None = None

    def park(self, flow: Flow, take: Callable[[], bool] | None = None) -> None:
        """`take` is called in the flow's place, until it is false."""
        self.flow, self._take = flow, take

    def wake(self) -> None:
        self.ready, self.in_line = True, False
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

    def __init__(self, failed: Callable[[BaseException], None] | None = None) -> None:
        self._epoll = select.epoll()
        self._legs: dict[int, Leg] = {}
        self._line: deque[tuple[Share, Callable[[], None]]] = deque()
        """Who goes on when the others had their turn."""
        self._serving = False
        self._failed = failed
        """Is told of errors of the poller's own."""
        self.owes_trio = False
        """A flow's task was made runnable: no lingering here."""

    def attach(self, leg: Leg) -> None:
        """From now on the leg's waits are flows', until `detach`."""
        number = leg.sock.fileno()
        self._legs[number] = leg
        self._register(number)
        leg.polled = True

    def _register(self, number: int) -> None:
        self._epoll.register(number, select.EPOLLIN | select.EPOLLOUT | select.EPOLLRDHUP | select.EPOLLET)

    def detach(self, leg: Leg) -> None:
        number = leg.sock.fileno()
        if self._legs.pop(number, None) is not None:
            self._epoll.unregister(number)

    async def drive(self, coroutine: Coroutine[Trap, Any, T], share: Share | None = None) -> T:
        """Run the coroutine as a flow to its end; what it raises is raised here. `share`: of its connection."""
        flow = Flow(coroutine, self, share)
        flow.share.begins_now()
        try:
            flow.step()
            while flow.ended is None:
                if flow.errand is None:
                    await flow.task_needed()
                if flow.errand is not None:
                    errand, flow.errand = flow.errand, None
                    self._resume(flow, await outcome.acapture(errand))
            result: T = flow.ended.unwrap()
            return result
        finally:
            flow.close()

    def later(self, flow: Flow) -> None:
        """Step the flow when the others had their turn."""
        self._stand_in_line(flow.share, flow.step)

    def _stand_in_line(self, share: Share, step: Callable[[], None]) -> None:
        if not self._line and not self._serving:
            trio.lowlevel.current_trio_token().run_sync_soon(self._serve_line_soon, idempotent=True)
        self._line.append((share, step))

    def _resume(self, flow: Flow, answer: outcome.Outcome[Any]) -> None:
        """The flow's errand is done: it goes on at once, or in line like everybody else who had much time lately."""
        now, resume = perf_counter(), partial(flow.resume, answer)
        if flow.share.excess(now) <= TURN_SECONDS:
            self._turn(flow.share, resume, now)
        else:
            self._stand_in_line(flow.share, resume)

    def close(self) -> None:
        self._epoll.close()

    async def run(self) -> None:
        """Serve until cancelled. An error of the poller's own costs a new epoll, and nobody a wake-up."""
        while True:
            began = trio.current_time()
            try:
                await self._serve()
            except Exception as error:  # noqa: BLE001 - told, and all that was waited for is looked at again
                if self._failed is not None:
                    self._failed(error)
                self._renew(error)
                if trio.current_time() - began < RETRY_SECONDS:
                    await trio.sleep(RETRY_SECONDS)

    async def _serve(self) -> None:
        while True:
            await trio.lowlevel.wait_readable(self._epoll.fileno())
            round_ends = perf_counter() + ROUND_SECONDS
            self._serving = True
            try:
                while self._poll():
                    if self.owes_trio or perf_counter() > round_ends:
                        self.owes_trio = False
                        await trio.lowlevel.checkpoint()
                        round_ends = perf_counter() + ROUND_SECONDS
            finally:
                self._serving = False

    def _poll(self) -> bool:
        """Step every flow whose leg is ready, and some whose turn it is; False if there is none."""
        legs = self._legs
        events = self._epoll.poll(0 if self._line else LINGER_SECONDS)
        now = perf_counter()
        allowed, round_ends = TURN_SECONDS, now + TURN_SECONDS
        for number, mask in events:
            leg = legs.get(number)
            if leg is None:
                continue
            if mask & _HANGUP_EVENTS:
                leg.hung_up = True
            if now >= round_ends:
                allowed = LITTLE_SECONDS
            if mask & _READ_EVENTS:
                now = self._wake(leg.share, leg.reading, now, allowed)
            if mask & _WRITE_EVENTS:
                now = self._wake(leg.share, leg.writing, now, allowed)
        waited = bool(self._line)
        if waited:
            self._serve_line(now)
        return bool(events) or waited

    def _wake(self, share: Share, side: Side, now: float, allowed: float) -> float:
        """The kernel says that the side is ready. Return what time it is after what came of it: at once if its
        connection has had no more than is `allowed`, else in line."""
        if side.flow is None:
            side.ready = True
            return now
        if share.excess(now) <= allowed:
            return self._turn(share, side.wake, now)
        side.ready = True
        if not side.in_line:
            side.in_line = True
            self._line.append((share, side.wake))
        return now

    def _serve_line(self, now: float) -> None:
        """Those who have to wait for others, for one turn in all: then others may be ready again."""
        ends, line = now + TURN_SECONDS, self._line
        for _ in range(len(line)):
            now = self._turn(*line.popleft(), now)
            if now >= ends:
                break

    def _turn(self, share: Share, step: Callable[[], None], began: float) -> float:
        share.begins(began)
        try:
            step()
        except Exception as error:  # noqa: BLE001 - a flow's own errors never come here
            if self._failed is not None:
                self._failed(error)
        ended = perf_counter()
        share.used(began, ended)
        return ended

    def _serve_line_soon(self) -> None:
        """By Trio, while no event is being served."""
        if self._line:
            self._serving = True
            try:
                self._serve_line(perf_counter())
            finally:
                self._serving = False
        if self._line:
            trio.lowlevel.current_trio_token().run_sync_soon(self._serve_line_soon, idempotent=True)

    def _renew(self, error: Exception) -> None:
        """Wait by a new epoll, and look at everything again: events of the old one may be lost. Where none is to be
        had, what waits ends with the error, one connection after the other, and the process goes on."""
        self._serving = False
        try:
            renewed = select.epoll()
        except OSError:
            renewed = None
        if renewed is not None:
            self._epoll.close()
            self._epoll = renewed
        for number, leg in tuple(self._legs.items()):
            try:
                if renewed is None:
                    raise error
                self._register(number)
            except (OSError, ValueError) as lost:
                self._fail(leg, lost)
            else:
                for side in (leg.reading, leg.writing):
                    self._line.append((leg.share, side.wake))
        if self._line:
            trio.lowlevel.current_trio_token().run_sync_soon(self._serve_line_soon, idempotent=True)

    @staticmethod
    def _fail(leg: Leg, error: Exception) -> None:
        for side in (leg.reading, leg.writing):
            if side.flow is not None:
                side.flow.fail(error)


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
async def open_poller(failed: Callable[[BaseException], None] | None = None) -> AsyncIterator[Poller | None]:
    """A poller that runs for as long as the block; None where there is no epoll and legs have to wait by Trio.

    `failed` is told of errors of the poller's own, which it survives.
    """
    if not hasattr(select, "epoll"):
        yield None
        return
    poller = Poller(failed)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(poller.run)
            yield poller
            nursery.cancel_scope.cancel()
    finally:
        poller.close()
