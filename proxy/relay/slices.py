"""Long work, done a slice at a time: while a Fetch of 20 000 partitions is decided, other connections have their turns.

    step = slices.run(work) ─┬─▶ what `work` returns, if it is through within a slice
                             └─▶ TURN: others first, then `go_on`, until that returns something else

`work` is a plain function that does not know of slices. It runs on a stack of its own (a greenlet), which is left once
the slice is over, where the work loops over partitions (`protocol.pacing`). Nothing runs in parallel, and a stack that
waits costs no time. Knows no frames.

Invariant: one piece of work at a time, which is gone on with until it is through or closed.
"""

from __future__ import annotations

import threading
from time import perf_counter
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from greenlet import greenlet

from protocol.pacing import in_slices

from .share import SLICE_SECONDS
from .transport import TURN

if TYPE_CHECKING:
    from collections.abc import Callable

    from .transport import Wait

T = TypeVar("T")

MOST_IDLE = 4
"""Stacks that are kept for the next work, 16 KiB each. To make one and end it costs 9 µs, most of it for memory that is
mapped and unmapped; to go on with one costs 0.9 (measured). A Fetch of 100 partitions and its answer need one each."""


class Slices(Generic[T]):
    """Does one piece of work at a time for one direction of one connection, a slice in each of its turns."""

    __slots__ = ("_stack", "busy")

    def __init__(self) -> None:
        self._stack: _Stack[T] | None = None
        self.busy = False
        """Work has begun and is not through: call `go_on`."""

    def run(self, work: Callable[[], T]) -> T | Wait:
        """Begin `work`; return its result, or TURN if it is not through. Raises what `work` raises."""
        idle = _IDLE.stacks
        stack: _Stack[T] = idle.pop() if idle else _Stack()
        stack.work = work
        self._stack, self.busy = stack, True
        return self._switch(stack)

    def go_on(self) -> T | Wait:
        """Go on with the work; return its result, or TURN if it is not through. Raises what the work raises."""
        if self._stack is None:
            raise AssertionError("there is nothing to go on with")
        return self._switch(self._stack)

    def close(self) -> None:
        """End the work where it stands, by a GreenletExit raised in it: its result is not needed any more."""
        if self._stack is not None:
            self._stack.end()
            self._stack, self.busy = None, False

    def _switch(self, stack: _Stack[T]) -> T | Wait:
        try:
            stack.switch()
        finally:
            self.busy = stack.is_busy
            if not self.busy:
                self._stack = None
        if self.busy:
            return TURN
        if len(_IDLE.stacks) < MOST_IDLE:
            _IDLE.stacks.append(stack)
        return stack.take()


class _Stack(Generic[T]):
    """Does one work after the other, each until it is through. One whose work raised an error has ended."""

    __slots__ = ("_ends", "_greenlet", "_results", "work")

    def __init__(self) -> None:
        self.work: Callable[[], T] | None = None
        """None: through."""
        self._results: list[T] = []
        """What the work came to, until it is taken."""
        self._ends = 0.0
        self._greenlet = greenlet(self._serve)

    @property
    def is_busy(self) -> bool:
        return self.work is not None and not self._greenlet.dead

    def switch(self) -> None:
        """Go on until the slice or the work is over. Raises what the work raises."""
        self._ends = perf_counter() + SLICE_SECONDS
        try:
            self._greenlet.switch()
        finally:
            if self._greenlet.dead:
                self._forget()

    def take(self) -> T:
        """Return what the work came to, of which nothing stays here."""
        return self._results.pop()

    def end(self) -> None:
        self._greenlet.throw()
        self._forget()

    def _forget(self) -> None:
        """Break a circle of references, so that this stack is freed at once: it refers to its greenlet, the greenlet to
        the context in which `in_slices` was called, and that context to this stack."""
        self.work = None
        self._greenlet.gr_context = None

    def _serve(self) -> None:
        in_slices(self._pause)
        while self.work is not None:
            self._results.append(self.work())
            self.work = None
            self._leave()

    def _pause(self) -> None:
        if perf_counter() > self._ends:
            self._leave()

    def _leave(self) -> None:
        whoever_switched_here = self._greenlet.parent
        if whoever_switched_here is not None:
            whoever_switched_here.switch()


class _Idle(threading.local):
    """Stacks that wait for work; a greenlet belongs to the thread that made it."""

    def __init__(self) -> None:
        self.stacks: list[_Stack[Any]] = []


_IDLE = _Idle()
