"""HTTP's share of the loop, which the relay needs for itself: half a millisecond in each of its turns.

Sixty connections that send as fast as they can would each have a step of every turn otherwise, and a page about
200 000 replicas would take half a second in one. What is short (a head, an answer's encoding) and pages stand in lines
of their own: a probe waits for what is short alone, however many pages are being worked out.

    step, step, step ─┐ up to `MOST_STEPS` and one slice of a page are let in at once, for the loop's next turn;
    slice, slice ─────┘ who comes when its time is spent goes back to the head of the line

Invariant: between two such groups, of whatever connections or pages, the relay's tasks have all run.
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, TypeVar

import trio

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from types import TracebackType

SLICE_SECONDS = 0.0005
"""In all, of one turn of the loop. Trio runs the tasks of a turn in any order, so that two may come between two steps
of another task: a millisecond together."""
MOST_STEPS = 16
"""Of some 50 µs each: more would only be let in to be sent back."""

_T = TypeVar("_T")


class Turn:
    """`async with turn:` around what is short and done without waiting, 0.2 ms at most. Who asks first is first.

    `clock` counts this thread's time on a core: while other processes have the cores, nothing is worked out.
    """

    def __init__(self, clock: Callable[[], float] = time.thread_time) -> None:
        self._clock = clock
        self._steps: deque[trio.Event] = deque()
        self._slices: deque[trio.Event] = deque()
        self._inside = 0
        """Let in and not through."""
        self._spent = 0.0
        """Seconds, by those who were let in together."""
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
        """Return what the generator returns. It yields wherever it may be interrupted, some 0.1 ms apart."""
        while True:
            await self._wait_in(self._slices)
            began = self._clock()
            # Half of the time is for others if there are any; they may have had theirs already, or not yet.
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
        """The next ones, who run in the loop's next turn. Nobody is inside."""
        self._spent = 0.0
        steps = [self._steps.popleft() for _ in range(min(MOST_STEPS, len(self._steps)))]
        slices = [self._slices.popleft()] if self._slices else []
        self._inside = len(steps) + len(slices)
        for entry in (*steps, *slices):
            entry.set()

    def _through(self) -> None:
        self._inside -= 1
        if not self._inside:
            self._let_in()
