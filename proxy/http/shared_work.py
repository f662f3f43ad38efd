"""Work that many ask for and one task does, once for all who wait for it: a reload, or a look at every replica.

Whoever asks may stop waiting; the work goes on. Invariants: after each go there is a pause, so that asking often does
not mean working often. A fresh result comes from work that began after it was asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

import trio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_T = TypeVar("_T")


class InterruptedWorkError(Exception):
    """The task that worked has failed; whoever supervises it says why."""


class _Go(Generic[_T]):
    """One execution of the work, for all callers that asked before it began."""

    def __init__(self) -> None:
        self.over = trio.Event()
        self.result: list[_T] = []


class Shared(Generic[_T]):
    """Work done by one task for all its callers. `pause_seconds` gets the seconds that the work took, and returns the
    seconds of the pause."""

    def __init__(self, work: Callable[[], Awaitable[_T]], pause_seconds: Callable[[float], float]) -> None:
        self._work = work
        self._pause_seconds = pause_seconds
        self._next: _Go[_T] = _Go()
        self._asked = trio.Event()
        self._last: _Go[_T] | None = None
        """The last go, during the pause after it; None at any other time."""

    async def run(self) -> None:
        """Work when asked, until cancelled. Raises what the work raises, after those who wait have been told."""
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
        """Return what the next go finds. Raises InterruptedWorkError."""
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
