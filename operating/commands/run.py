"""``run``: the sidecar itself. Loads both files, then hands over to `proxy.server`.

Invariant: nothing is bound before proxy.toml has been found good; whatever quotas.toml is like, the sidecar starts.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import TYPE_CHECKING

import click
import trio

from proxy.config.reload import QuotaWatch
from proxy.config.settings import load_settings
from proxy.journal.recorder import prepare
from proxy.logs.log import dropped_line, open_log
from proxy.logs.queue import LogQueue
from proxy.process.service_manager import ServiceManager
from proxy.process.watchdog import EXIT_STATUS, Watchdog
from proxy.server import serve
from proxy.statistics import Statistics

from .options import config_option, set_option

if TYPE_CHECKING:
    from pathlib import Path

SWITCH_SECONDS = 0.0005
"""For so long a thread keeps the interpreter to itself while the loop wants it back, which gives it up at every send
and receive; 5 ms by default. Beside a thread that computes four pairs of these take 0.16 ms in the mean, so 0.09."""


@click.command("run")
@config_option
@set_option
@click.option(
    "--take-over",
    is_flag=True,
    help="Take listeners and live connections from the sidecar that runs with this proxy.toml, if one does.",
)
def command(config_path: Path, overrides: tuple[str, ...], *, take_over: bool) -> None:
    """Run the sidecar until SIGTERM.

    SIGHUP reads quotas.toml again (so do changes of the file, and POST /-/reload). SIGTERM, SIGINT and SIGQUIT
    drain: no new connections, those that are open may finish what is in flight; a second one ends at once.
    SIGUSR2 starts the program anew with --take-over: it goes on with every connection where this one stood, and this
    one ends. SIGUSR1, SIGALRM and the like are told in the log and ignored. Status 70: the loop hung
    for limits.stall, see the log. Environment variables like
    THROTTLE_INGRESS__LISTEN replace single keys of the configuration, --set replaces them last.

    \b
    Example:
      throttle-sidecar run --config /etc/throttle/proxy.toml --set log.level=debug
    """
    settings = load_settings(config_path, overrides, os.environ)
    statistics = Statistics()
    queue = LogQueue(sys.stdout, statistics.log_dropped, tell=partial(dropped_line, settings.log))
    log = open_log(settings.log, queue, statistics.log_dropped)
    try:
        quota_watch = QuotaWatch.open(
            settings.quotas.file, broker_id=settings.broker.id, log=log, state=settings.quotas.state
        )
        # While another process writes its journal, nothing of it is a crash's.
        if settings.journal is not None and not take_over:
            prepare(settings.journal, broker=settings.broker.id)
        watchdog = Watchdog(
            settings.limits.stall_seconds, settings.limits.stall_action, log, partial(_end_stalled, queue)
        )
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
    """No other way ends a process whose main thread does not come back."""
    queue.finish()
    os._exit(EXIT_STATUS)
