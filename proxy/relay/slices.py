"""Something long, done a slice at a time: a Fetch of 20 000 partitions is decided beside others, not before them.

    step = slices.run(work) ─┬─▶ what `work` returns, if it is through within a slice
                             └─▶ TURN: others first, then `go_on`, until that returns something else

`work` is a plain function that knows nothing of it: it runs on a stack of its own (a greenlet), which is left where it
loops over partitions (`protocol.pacing`) once its slice is over. Nothing runs in parallel, and a stack that is left
costs nothing. Knows no frames.

Invariant: one thing at a time; what is begun is gone on with or closed.
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
    """Of one direction of one connection."""

    __slots__ = ("_ends", "_stack", "busy")

    def __init__(self) -> None:
        self._stack: greenlet | None = None
        self._ends = 0.0
        self.busy = False
        """Something was begun and is not through: `go_on`."""

    def run(self, work: Callable[[], T]) -> T | Wait:
        """Begin. Raises what `work` raises."""
        self._stack = greenlet(self._run)
        return self._switch(self._stack, work)

    def go_on(self) -> T | Wait:
        """Raises what the work raises."""
        if self._stack is None:
            raise AssertionError("there is nothing to go on with")
        return self._switch(self._stack)

    def close(self) -> None:
        """What was begun will not be needed: it ends where it stands, by GreenletExit."""
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
