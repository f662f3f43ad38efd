"""The end of a command of the lab before its time, and the messages of errors that come in groups.

Knows no command. Invariant: whatever asks a command to stop, its blocks are left in order, so that no file and no
process of theirs stays behind.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, TypeVar

import trio

from .errors import LabError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

STOPPED = 130
"""The exit status of a command that was stopped. As shells have it: 128 and the number of SIGINT."""
_Result = TypeVar("_Result")


def run(work: Callable[[], Awaitable[_Result]]) -> tuple[_Result | None, list[str]]:
    """Run a command's work by Trio; return its result (None if it was stopped or failed) and its LabErrors' messages.

    What is raised in a nursery leaves it in a group, Ctrl-C too.
    """
    result: _Result | None = None
    failures: list[str] = []
    try:
        result = trio.run(until_told_to_stop, work)
    except* LabError as errors:
        failures = messages(errors)
    except* KeyboardInterrupt:
        failures = []
    return result, failures


async def until_told_to_stop(work: Callable[[], Awaitable[_Result]]) -> _Result | None:
    """Return the result of `work`; None if SIGTERM or SIGHUP (a terminal that is closed) ended it.

    Unlike Ctrl-C these would end Python on the spot, and temporary files would stay behind. What `work` raises comes
    out in a group.
    """
    result: _Result | None = None
    async with trio.open_nursery() as nursery:
        await nursery.start(_cancel_when_told, nursery.cancel_scope)
        result = await work()
        nursery.cancel_scope.cancel()
    return result


def messages(error: BaseException) -> list[str]:
    """Return the message of each error of a group, with the notes of all, innermost first."""
    if isinstance(error, BaseExceptionGroup):
        said = [message for each in error.exceptions for message in messages(each)]
    else:
        said = [str(error)]
    return [*said, *getattr(error, "__notes__", [])]


async def _cancel_when_told(scope: trio.CancelScope, task_status: trio.TaskStatus[None]) -> None:
    with trio.open_signal_receiver(*_signals()) as signals:
        task_status.started()
        async for _ in signals:
            scope.cancel()


def _signals() -> Sequence[signal.Signals]:
    """Return the signals that end a command; under nohup SIGHUP is ignored, and the command goes on."""
    ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [signal.SIGTERM] if ignored else [signal.SIGTERM, signal.SIGHUP]
