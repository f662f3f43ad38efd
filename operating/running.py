"""The sidecar as `run` has it: both files loaded, the log open, the watchdog awake, then `proxy.serving`.

Invariant: nothing is bound before proxy.toml has been found good; whatever quotas.toml is like, the sidecar starts.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import TYPE_CHECKING

import trio

from proxy.journal.recorder import prepare
from proxy.logs.log import dropped_line, open_log
from proxy.logs.queue import LogQueue
from proxy.process.resources import raise_open_files_limit
from proxy.process.systemd import ServiceManager, refuse_passed_sockets
from proxy.process.watchdog import EXIT_STATUS, Watchdog
from proxy.quota_files.override_store import store_path
from proxy.quota_files.reload import QuotaWatch
from proxy.serving.serve import serve
from proxy.statistics.counters import Statistics

from .configuration import load_configuration

if TYPE_CHECKING:
    from pathlib import Path

SWITCH_SECONDS = 0.0005
"""The longest time a thread keeps the interpreter to itself while the loop wants it back, which gives it up at every
send and receive; 5 ms by default. Beside a thread that computes four pairs of these take 0.16 ms in the mean, so
0.09."""


def run_sidecar(config_path: Path, overrides: tuple[str, ...], *, take_over: bool) -> None:
    """Run a sidecar until it has drained. Raises ConfigurationError."""
    settings = load_configuration(config_path, overrides)
    refuse_passed_sockets(os.environ)
    raise_open_files_limit()
    statistics = Statistics()
    queue = LogQueue(sys.stdout, statistics.log_dropped, tell=partial(dropped_line, settings.log))
    log = open_log(settings.log, queue, statistics.log_dropped)
    try:
        quota_watch = QuotaWatch.open(
            settings.quotas.file,
            broker_id=settings.broker.id,
            log=log,
            state=settings.quotas.state,
            overrides=store_path(settings.quotas.state, settings.broker.id),
        )
        # While another process writes its journal, nothing of it is a crash's.
        if settings.journal is not None and not take_over:
            prepare(settings.journal, broker=settings.broker.id)
        watchdog = Watchdog(log, partial(_end_stalled, queue))
        watchdog.start()
        sys.setswitchinterval(SWITCH_SECONDS)
        trio.run(
            partial(
                serve,
                settings,
                quota_watch,
                statistics=statistics,
                log=log,
                watchdog=watchdog,
                service_manager=ServiceManager(os.environ),
                take_over=take_over,
            )
        )
    finally:
        queue.finish()


def _end_stalled(queue: LogQueue) -> None:
    """End the process; nothing else ends a process whose main thread hangs."""
    queue.finish()
    os._exit(EXIT_STATUS)
