"""``run``: the sidecar itself, loaded when its options are known.

Invariant: a process that is to replace another loads its code at a lower priority than the other relays.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import click

from .options import config_option, set_option

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

NICE = 10
"""The niceness of a thread that gives way: where others always want the core it has a tenth of it, so a second of CPU
takes ten."""


@click.command("run")
@config_option
@set_option
@click.option(
    "--take-over",
    is_flag=True,
    help="Take listeners and live connections over from the running sidecar, if there is one.",
)
def command(config_path: Path, overrides: tuple[str, ...], *, take_over: bool) -> None:
    """Run the sidecar until SIGTERM.

    \b
    Signals:
      SIGHUP                    read quotas.toml again, as after every saved change of it
      SIGTERM, SIGINT, SIGQUIT  drain: finish fetches in flight, accept nothing new; a second ends at once
      SIGUSR2                   start the installed program with --take-over, and end when it has taken over

    Exit status 0: drained. 1: the configuration is wrong. 70: the event loop hung for 5 s, see the log.

    An environment variable such as THROTTLE_INGRESS__LISTEN replaces one key of proxy.toml; --set replaces it last.

    \b
    Examples:
      throttle-sidecar run --config /etc/kafka-throttle-sidecar/proxy.toml
      throttle-sidecar run --set log.level=debug --set http.listen=0.0.0.0:9404
      throttle-sidecar run --take-over                  upgrade: no connection is lost
    """
    with _without_looks():
        if take_over:
            give_way(_load_to_take_over)
        from ..running import run_sidecar

        run_sidecar(config_path, overrides, take_over=take_over)


@contextmanager
def _without_looks() -> Iterator[None]:
    """Disable the garbage collector while the block lasts: Python would run it at every 700 new objects.

    Modules loaded here are no garbage: they stay.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _load_to_take_over() -> None:
    """Load the code of a hand-over: loaded after the first connection is taken, it would take the interpreter from all
    of them."""
    importlib.import_module("operating.running")
    from proxy.observing.site import load_late

    load_late()


def give_way(work: Callable[[], object]) -> None:
    """Do `work` in a thread of lower priority, and return when it is done. Blocking.

    A process that is to replace another loads its code while the other relays; this takes more than a second
    of CPU. On two busy cores, producers with acks=all waited 0.2 to 0.37 s meanwhile, because brokers and the old
    process waited for their turns. Linux has a priority for each thread, but a thread that has lowered its own needs a
    privilege to raise it again: so this thread ends afterwards. On other systems it is a thread like others.

    An error of `work` is printed and ends only that thread. Modules not loaded by then are loaded at their first use.
    """

    def run() -> None:
        if sys.platform == "linux":
            with suppress(OSError):  # it works all the same, with the usual priority
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
        work()

    thread = threading.Thread(target=run, name="giving_way", daemon=True)
    thread.start()
    thread.join()
