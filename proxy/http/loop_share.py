"""HTTP's share of the loop, which the relay needs for itself: half a millisecond in each of its turns.

Without it, sixty connections that send as fast as they can would each have a step in every turn of the loop, and a page
about 200 000 replicas would take half a second in one turn. Short steps (to read a head, to encode an answer) stand in
one line and pages in another. So a probe waits for short steps alone, however many pages are being worked out.

    step, step, step ─┐ up to `MAX_STEPS` and one slice of a page are let in at once, for the loop's next turn;
    slice, slice ─────┘ who comes when its time is spent goes back to the head of the line

Invariant: between two such groups, of whatever connections or pages, the relay's tasks have all run.
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Generic, TypeVar

import trio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator
    from types import TracebackType


SLICE_SECONDS = 0.0005
"""The most time that HTTP has in one turn of the loop. Trio runs the tasks of a turn in any order, so two such slices
may come between two steps of another task: it waits for a millisecond."""
MAX_STEPS = 16
"""The most short steps that are let in together, of some 50 µs each. More would only be let in to find the time spent,
and be sent back."""

_T = TypeVar("_T")


class LoopShare:
    """`async with turn:` around a step that is short, 0.2 ms at most, and does not wait. Steps have their turn in the
    order in which they ask.

    `clock` counts this thread's time on a core: while other processes have the cores, nothing is worked out.
    """

    def __init__(self, clock: Callable[[], float] = time.thread_time) -> None:
        self._clock = clock
        self._steps: deque[trio.Event] = deque()
        self._slices: deque[trio.Event] = deque()
        self._inside = 0
        """The number of steps and slices that were let in and are not through yet."""
        self._spent = 0.0
        """The seconds that those who were let in together have used."""
        self._began = 0.0

    async def __aenter__(self) -> None:
        await self._wait_in(self._steps)
        self._began = self._clock()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._spent += self._clock() - self._began
        self._through()

    async def work_out(self, steps: Generator[None, None, _T]) -> _T:
        """Return the generator's result. It yields wherever it may be interrupted, some 0.1 ms apart."""
        while True:
            await self._wait_in(self._slices)
            began = self._clock()
            # Where others are let in too, or wait, half of the time is theirs: they may have used it already, or not
            # yet.
            ends = began + (SLICE_SECONDS / 2 if self._inside > 1 or self._steps else SLICE_SECONDS - self._spent)
            try:
                while self._clock() < ends:
                    next(steps)
            except StopIteration as done:
                return done.value  # type: ignore[no-any-return]
            finally:
                self._spent += self._clock() - began
                self._through()

    async def _wait_in(self, line: deque[trio.Event]) -> None:
        """Return when it is our turn, after which `_through` is to be called."""
        entry = trio.Event()
        line.append(entry)
        if not self._inside:
            self._let_in()
        while True:
            try:
                await entry.wait()
            except BaseException:
                if entry.is_set():
                    self._through()
                else:
                    line.remove(entry)
                raise
            if self._spent < (SLICE_SECONDS if line is self._steps else SLICE_SECONDS / 2):
                return
            entry = trio.Event()
            line.appendleft(entry)
            self._through()

    def _let_in(self) -> None:
        """Let in the next steps and the next slice of a page, to run in the loop's next turn. Called while nobody is
        inside."""
        self._spent = 0.0
        steps = [self._steps.popleft() for _ in range(min(MAX_STEPS, len(self._steps)))]
        slices = [self._slices.popleft()] if self._slices else []
        self._inside = len(steps) + len(slices)
        for entry in (*steps, *slices):
            entry.set()

    def _through(self) -> None:
        self._inside -= 1
        if not self._inside:
            self._let_in()


class InterruptedWorkError(Exception):
    """The task that worked has failed; its supervisor logs why."""


class _Go(Generic[_T]):
    """An execution of the work, for all callers that asked before it began."""

    def __init__(self) -> None:
        self.over = trio.Event()
        self.result: list[_T] = []


class Shared(Generic[_T]):
    """Work that many ask for and one task does, once for all who wait for it: a reload, or a look at every replica.

    A caller may stop waiting; the work goes on. After each go there is a pause, so that asking often does not mean
    working often. A fresh result comes from work that began after it was asked for. `pause_seconds` gets the seconds
    that the work took, and returns the seconds of the pause.
    """

    def __init__(self, work: Callable[[], Awaitable[_T]], pause_seconds: Callable[[float], float]) -> None:
        self._work = work
        self._pause_seconds = pause_seconds
        self._next: _Go[_T] = _Go()
        self._asked = trio.Event()
        self._last: _Go[_T] | None = None
        """The last step during the pause after it; None at any other time."""

    async def run(self) -> None:
        """Work on request, until cancelled. Raises the work's errors, after its waiters have been woken."""
        while True:
            await self._asked.wait()
            go, self._next, self._asked = self._next, _Go(), trio.Event()
            began = trio.current_time()
            try:
                go.result.append(await self._work())
                self._last = go
            finally:
                go.over.set()
            await trio.sleep(self._pause_seconds(trio.current_time() - began))
            self._last = None

    async def fresh(self) -> _T:
        """Return the result of the next go. Raises InterruptedWorkError."""
        go = self._next
        self._asked.set()
        await go.over.wait()
        if not go.result:
            raise InterruptedWorkError
        return go.result[0]

    async def recent(self) -> _T:
        """Return the last result during the pause after it, and a fresh one at any other time."""
        last = self._last
        if last is None:
            return await self.fresh()
        await trio.lowlevel.checkpoint()
        return last.result[0]
