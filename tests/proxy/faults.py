"""Raises an error where a running task waits: at any await of the sidecar's own, named by its task and its lines.

An instrument of Trio's sees each task as it is about to go on, and has it go on with an error instead. Which awaits
there are is found out by running: each one met is in `met`.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import outcome
import trio
import trio.testing

from proxy.process.supervision import Supervisor, Task

if TYPE_CHECKING:
    from types import FrameType

ROOT = Path(__file__).parents[2]
SOURCES = f"{ROOT / 'proxy'}/"
_KEEP = Supervisor.keep.__code__
_UNFAILING = frozenset({"_LockImpl.acquire", "CapacityLimiter.acquire_on_behalf_of", "NurseryManager.__aexit__"})
"""Trio's own accounts are wrong after these fail: of locks and tokens that somebody has, of tasks that still run."""

_ROOT = " serve"
"""Who runs the sidecar, and waits for the end of it alone."""


class InjectedFaultError(Exception):
    """What no code expects."""


class Await(NamedTuple):
    """A place where a task waits. `task`: that of the supervisor which it belongs to, "" if it belongs to none;
    `lines`: from the outermost of the sidecar's own calls to the innermost."""

    task: str
    lines: tuple[str, ...]

    @property
    def owner(self) -> tuple[str, str]:
        """What its own awaits, and those of what it calls, have in common."""
        return self.task, self.lines[0].partition(" ")[2]

    def __str__(self) -> str:
        return f"{self.task or 'a connection'}: {' > '.join(self.lines)}"


class Faults(trio.abc.Instrument):
    def __init__(self) -> None:
        self.met: dict[Await, int] = {}
        self.raised = trio.Event()
        self._armed: Await | None = None
        self._provoked: tuple[str, str] | None = None
        self.spared: set[trio.lowlevel.Task] = set()
        """Never raised in: whoever runs the sidecar, and the victims' connections."""
        self._spawned: set[trio.lowlevel.Task] = set()

    def arm(self, at: Await) -> None:
        """Raise there once, the next time that a task is about to go on there; `raised` is set then."""
        self._armed, self.raised = at, trio.Event()

    def provoke(self, at: Await) -> None:
        """Raise wherever its owner waits next as well: what follows an error has awaits, too."""
        self._provoked = at.owner

    def disarm(self) -> None:
        self._armed = self._provoked = None

    def spare_connections(self) -> None:
        """Those that are open now, but not the poller, which all have in common."""
        for task in self._spawned:
            found = _await_of(task)
            if found is None or (not found.task and "Poller" not in found.lines[0]):
                self.spared.add(task)

    def task_spawned(self, task: trio.lowlevel.Task) -> None:
        self._spawned.add(task)

    def task_exited(self, task: trio.lowlevel.Task) -> None:
        self._spawned.discard(task)

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if task in self.spared:
            return
        found = _await_of(task)
        if found is None:
            return
        self.met[found] = self.met.get(found, 0) + 1
        if found == self._armed:
            self._armed = None
            self.raised.set()
        elif found.owner == self._provoked:
            self._provoked = None
        else:
            return
        # As if `reschedule` had been called with an error, which is what Trio's own primitives do.
        task._next_send = outcome.Error(InjectedFaultError(str(found)))


def _await_of(task: trio.lowlevel.Task) -> Await | None:
    """None if it has not begun, or waits in nothing of the sidecar's."""
    if inspect.getcoroutinestate(task.coro) != inspect.CORO_SUSPENDED:
        return None
    frames = [(frame, line) for frame, line in task.iter_await_frames() if line is not None]
    if any(frame.f_code.co_qualname in _UNFAILING for frame, _ in frames):
        return None
    lines = tuple(_line(frame, line) for frame, line in frames if frame.f_code.co_filename.startswith(SOURCES))
    if not lines or lines[0].endswith(_ROOT):
        return None
    return Await(_supervised(task), lines)


def _line(frame: FrameType, line: int) -> str:
    code = frame.f_code
    return f"{code.co_filename.removeprefix(SOURCES)}:{line} {code.co_qualname}"


def _supervised(task: trio.lowlevel.Task) -> str:
    """The name that the supervisor knows it by, or the one that started it."""
    while True:
        for frame, _ in task.iter_await_frames():
            if frame.f_code is _KEEP:
                kept = frame.f_locals["task"]
                return kept.value if isinstance(kept, Task) else ""
        if task.parent_nursery is None:
            return ""
        task = task.parent_nursery.parent_task
