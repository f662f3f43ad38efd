"""Long work, done a slice at a time: while a Fetch of 20 000 partitions is decided, other connections have their turns.

    step = slices.run(work) ─┬─▶ what `work` returns, if it is through within a slice
                             └─▶ TURN: others first, then `go_on`, until that returns something else

`work` is a plain function that does not know of slices. It runs on a stack of its own (a greenlet), which is left once
the slice is over, where the work loops over partitions (`protocol.pacing`). Nothing runs in parallel, and a stack that
waits costs no time. Knows no frames.

Invariant: one piece of work at a time, which is gone on with until it is through or closed.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Generic, TypeVar

from greenlet import greenlet

from protocol.pacing import in_slices

from .share import SLICE_SECONDS
from .transport import TURN

if TYPE_CHECKING:
    from collections.abc import Callable

    from .transport import Wait

T = TypeVar("T")


class Slices(Generic[T]):
    """Does one piece of work at a time for one direction of one connection, a slice in each of its turns."""

    __slots__ = ("_ends", "_stack", "busy")

    def __init__(self) -> None:
        self._stack: greenlet | None = None
        self._ends = 0.0
        self.busy = False
        """Work has begun and is not through: call `go_on`."""

    def run(self, work: Callable[[], T]) -> T | Wait:
        """Begin `work`; return its result, or TURN if it is not through. Raises what `work` raises."""
        self._stack = greenlet(self._run)
        return self._switch(self._stack, work)

    def go_on(self) -> T | Wait:
        """Go on with the work; return its result, or TURN if it is not through. Raises what the work raises."""
        if self._stack is None:
            raise AssertionError("there is nothing to go on with")
        return self._switch(self._stack)

    def close(self) -> None:
        """End the work where it stands, by a GreenletExit raised in it: its result is not needed any more."""
        if self._stack is not None:
            self._stack.throw()
            self._stack, self.busy = None, False

    def _switch(self, stack: greenlet, *begins: Callable[[], T]) -> T | Wait:
        self._ends = perf_counter() + SLICE_SECONDS
        try:
            result: T = stack.switch(*begins)
        finally:
            self.busy = not stack.dead
            if stack.dead:
                self._stack = None
        return result if stack.dead else TURN

    def _run(self, work: Callable[[], T]) -> T:
        in_slices(self._pause)
        return work()

    def _pause(self) -> None:
        stack = self._stack
        if perf_counter() > self._ends and stack is not None and stack.parent is not None:
            stack.parent.switch()
