"""HTTP's share of the loop, which the relay needs for itself: one step of half a millisecond in each of its turns.

Sixty connections that send as fast as they can would each have a step of every turn otherwise, and a page about
200 000 replicas would take half a second in one. Invariant: between two steps of HTTP, of whatever connection or page,
the relay's tasks have all run.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

import trio

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from types import TracebackType

SLICE_SECONDS = 0.0005
"""Trio runs the tasks of a turn in any order, so that two slices may come between two steps of another task: a
millisecond together."""

_T = TypeVar("_T")


class Turn:
    """`async with turn:` around what is done without waiting. Who asks first is first."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._lock = trio.Lock()
        self._clock = clock

    async def __aenter__(self) -> None:
        await self._lock.acquire()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Whoever waits is woken by this, and runs in the loop's next turn, as we do if we come again.
        self._lock.release()

    async def work_out(self, steps: Generator[None, None, _T]) -> _T:
        """Return what the generator returns. It yields wherever it may be interrupted, some 0.1 ms apart."""
        while True:
            async with self:
                ends = self._clock() + SLICE_SECONDS
                try:
                    while self._clock() < ends:
                        next(steps)
                except StopIteration as done:
                    return done.value  # type: ignore[no-any-return]
