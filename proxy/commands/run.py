"""``run``: the sidecar itself. Loads both files, then hands over to `proxy.server`.

Invariant: nothing is bound before both files have been found good.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import TYPE_CHECKING

import click
import trio

from ..journal.recorder import prepare
from ..log_queue import LogQueue
from ..logs import dropped_line, open_log
from ..reload import QuotaWatch
from ..server import serve
from ..settings import load_settings
from ..statistics import Statistics
from .options import config_option, set_option

if TYPE_CHECKING:
    from pathlib import Path


@click.command("run")
@config_option
@set_option
def command(config_path: Path, overrides: tuple[str, ...]) -> None:
    """Run the sidecar until SIGTERM.

    SIGHUP reads quotas.toml again (so do changes of the file, and POST /-/reload). SIGTERM drains: no new
    connections, those that are open may finish what is in flight. Environment variables like
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
        quota_watch = QuotaWatch.open(settings.quotas.file, broker_id=settings.broker.id, log=log)
        if settings.journal is not None:
            prepare(settings.journal, broker=settings.broker.id)
        trio.run(partial(serve, settings, quota_watch, statistics=statistics, log=log))
    finally:
        queue.finish()
