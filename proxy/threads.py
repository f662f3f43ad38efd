"""Work that blocks, done in threads: each kind of work has a few threads of its own, and errors leave no garbage.

Trio's shared forty threads may all be waiting for a name server that does not answer. So each caller says, by its
`limiter`, to which small group of threads its work belongs.

An error that a thread's work raised through Trio is part of a circle: frames of Trio's hold the error, whose traceback
holds them. With it, everything that the work had in its hands stays until garbage is looked for, seldom as that is
(`process.resources`). A bad quotas.toml of 50 000 topics left 80 to 190 MB in this way, each time that it was read
(measured). So the error goes around Trio, and is raised here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, TypeVarTuple, cast

import trio

if TYPE_CHECKING:
    from collections.abc import Callable

_Arguments = TypeVarTuple("_Arguments")
_Result = TypeVar("_Result")

FILE_THREADS = trio.CapacityLimiter(4)
"""The threads for files: quotas.toml and the host's own (/proc, /sys). A task that reads at intervals has a
thread of its own."""


class NoThreadError(RuntimeError):
    """No thread can be started: a cgroup's pids.max is used up, or memory is."""


async def in_thread(
    work: Callable[[*_Arguments], _Result],
    *arguments: *_Arguments,
    limiter: trio.CapacityLimiter,
) -> _Result:
    """Return the result of `work`, or raise its error; NoThreadError if no thread can be started.

    A caller that is cancelled leaves the thread to itself: one whose disk hangs would keep the process from ending.
    Until the work is done it counts for `limiter`.
    """
    raised: list[BaseException] = []

    def attempt() -> _Result | None:
        try:
            return work(*arguments)
        except BaseException as error:  # noqa: BLE001 - raised again by the caller's own task
            raised.append(error)
            return None

    try:
        done = await trio.to_thread.run_sync(attempt, limiter=limiter, abandon_on_cancel=True)
    except RuntimeError as error:  # an error of the work's own does not come this way
        raise NoThreadError(str(error)) from error
    if raised:
        raise raised.pop()
    return cast("_Result", done)
