"""The process that SIGUSR2 starts to take over from this one.

Invariant: a process that was started here and has ended is reaped, and its status is logged if it has not taken over.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import trio

from .refusals import refuse_process

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..logs.log import Log

OPTION = "--take-over"


def start_next_process(log: Log, *, has_taken_over: Callable[[int], bool]) -> None:
    """Start the program anew, as it is installed now, to take over from this process. Never raises."""
    if (reason := refuse_process(os.getpid(), None)) is not None:
        log.warning("handover_refused", error=reason)
        return
    command = [*sys.orig_argv, *([] if OPTION in sys.orig_argv else [OPTION])]
    environ = os.environ.copy()
    # It names this process. The next one would take systemd's watchdog for another's, and be killed by it.
    environ.pop("WATCHDOG_PID", None)
    # Not a task of the server: it may be over before the child is, which must not become a zombie.
    trio.lowlevel.spawn_system_task(_run, command, environ, log, has_taken_over)


async def _run(command: list[str], environ: dict[str, str], log: Log, has_taken_over: Callable[[int], bool]) -> None:
    """Start the process and wait for its end."""
    try:
        started = await trio.lowlevel.open_process(
            command, env=environ, stdin=subprocess.DEVNULL, start_new_session=True
        )
    except OSError as error:
        log.warning("handover_refused", error=str(error))
        return
    log.info("next_process_started", pid=started.pid)
    status = await started.wait()
    if not has_taken_over(started.pid):
        told = f"process {started.pid} ended with status {status} before it took over; its standard error says why"
        log.warning("handover_failed", error=told)
