"""Keeps the sidecar's background tasks running: a failed one is logged with its error, counted and restarted.

A background task serves the relay (quotas, names, journal, HTTP) and may never end it: a process that relays with the
quotas of a second ago is worth more than none. Knows tasks by name, not their work.

Invariant: `Supervisor.keep` ends by cancellation alone, and a task that fails at once costs a bounded number of tries.
"""

from __future__ import annotations

import enum
import sys
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from ..logs.log import Log


FIRST_PAUSE_SECONDS = 0.1
MAX_PAUSE_SECONDS = 10.0
"""The longest pause; each is twice as long as the one before. A task that fails at once is tried seven times in the
first ten seconds, and six times a minute from then on."""
STEADY_SECONDS = 30.0
"""A task that ran for so long before it failed has recovered: its pauses begin anew."""
_MAX_ERRORS_TOLD = 5


class Task(enum.StrEnum):
    """The value is the metric label `task`."""

    ACCEPT = "accept"
    """Accepts connections to a listener."""
    QUOTAS_FILE = "quotas_file"
    """Reads quotas.toml again when it changes."""
    QUOTAS_CLOCK = "quotas_clock"
    """Follows `until`."""
    QUOTAS_STATE = "quotas_state"
    """Keeps the last good quotas for the next start."""
    OVERRIDES = "overrides"
    """Tells of overrides that end."""
    QUOTAS_LEADER = "quotas_leader"
    """Puts changed quotas in force for this broker as a leader."""
    QUOTAS_FOLLOWER = "quotas_follower"
    """Puts changed quotas in force for this broker as a follower."""
    RATES = "rates"
    """Chooses rates that set themselves, about once a second."""
    CLUSTER = "cluster"
    """Asks brokers about topics, racks, replicas in sync and links."""
    CONDITIONS = "conditions"
    QUOTA_CHECKS = "quota_checks"
    """Checks traffic and the effect of quotas once a second."""
    HTTP = "http"
    CONTROL = "control"
    """Answers commands and the guard at control.sock."""
    HTTP_TOKEN = "http_token"  # noqa: S105 - a task's name
    """Reads the token of the quotas page again."""
    HTTP_RELOAD = "http_reload"
    """Reads quotas.toml again when it is asked to over HTTP."""
    HTTP_PAGES = "http_pages"
    """Works pages out, each once for all who wait for it."""
    REPLICA_STATS = "replica_stats"
    """Looks at every replica, for the pages."""
    TLS_FILES = "tls_files"
    """Reads keys and certificates again when they change."""
    JOURNAL = "journal"
    HISTORY = "history"
    SIGNALS = "signals"
    HANDOVER = "handover"
    """Waits for a process that takes over."""
    HEARTBEAT = "heartbeat"
    """Measures how late the loop is, and tells the watchdog and systemd that it turns."""
    REAPER = "reaper"
    """Ends connections that stall, watches the memory."""
    GARBAGE = "garbage"
    """Collects reference cycles."""
    POLLER = "poller"
    """Wakes the relayed connections. The poller restarts itself at once and registers every open connection again."""


class Supervisor:
    """Runs and restarts the process's background tasks. `restarts` counts by task; it is read at scrape time."""

    def __init__(self, log: Log) -> None:
        self.restarts: Counter[Task] = Counter()
        self._log = log

    async def keep(self, task: Task, run: Callable[[], Awaitable[object]]) -> None:
        """Run `run` again and again until cancelled. Never raises but Cancelled, KeyboardInterrupt and SystemExit.

        A `run` that returns counts as failed, because no background task has an end of its own. `run` is called again
        with the same arguments, so they must still be usable after a failure.
        """
        pause_seconds, rests_until = FIRST_PAUSE_SECONDS, trio.current_time()
        while True:
            failure: BaseException | None = None
            try:
                await trio.sleep_until(rests_until)
                await run()
            except* Exception as errors:  # noqa: BLE001 - the only boundary of background tasks
                failure = errors
            if trio.current_time() - rests_until >= STEADY_SECONDS:
                pause_seconds = FIRST_PAUSE_SECONDS
            self.tell(task, failure, pause_seconds)
            rests_until = trio.current_time() + pause_seconds
            pause_seconds = min(2 * pause_seconds, MAX_PAUSE_SECONDS)

    def tell(self, task: Task, failure: BaseException | None, pause_seconds: float) -> None:
        """Log and count a restart, also of a task that restarts by itself."""
        self.restarts[task] += 1
        self._log.error(
            "task_restarted",
            task=task.value,
            error="it returned" if failure is None else summary(failure),
            restarts=self.restarts[task],
            pause_seconds=pause_seconds,
            exc_info=failure,
        )


def summary(failure: BaseException) -> str:
    """Return the errors of a failure in one line, without the exception groups that nurseries add."""
    told = list(dict.fromkeys(f"{type(error).__name__}: {error}" for error in _leaves(failure)))
    more = len(told) - _MAX_ERRORS_TOLD
    return "; ".join([*told[:_MAX_ERRORS_TOLD], *([f"and {more} more"] if more > 0 else [])])


def _leaves(failure: BaseException) -> Iterator[BaseException]:
    if isinstance(failure, BaseExceptionGroup):
        for error in failure.exceptions:
            yield from _leaves(error)
    else:
        yield failure


@contextmanager
def log_unraisable(log: Log) -> Iterator[None]:
    """Log errors that Python cannot raise, because the code that failed was called from C, while the block lasts.

    Without this, Python writes them to standard error, with a traceback, on the loop. A peer causes one when it dials
    a leg with keys by a name that is not ASCII (OpenSSL calls Python for the certificate of that name). 123 of them
    filled a pipe that was not read; then the process hung, and its own watchdog ended it (measured). Of the object that
    an error is about nothing is logged: a peer may have made it.
    """

    def tell(found: sys.UnraisableHookArgs) -> None:
        log.warning("unraisable_error", error=f"{found.exc_type.__name__}: {found.exc_value}")

    before, sys.unraisablehook = sys.unraisablehook, tell
    try:
        yield
    finally:
        sys.unraisablehook = before
