"""Work that gives way to everybody else who wants a core, in a thread of its own.

A process that is to replace another one loads its code while the other one relays; this takes more than a second of
CPU. On two busy cores, producers with acks=all waited 0.2 to 0.37 s meanwhile, because brokers and the old process
waited for their turns. Linux has a priority for each thread, but a thread that has lowered its own needs a privilege to
raise it again. So the work is done by a thread of lower priority, which then ends. On other systems it is a thread like
others.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

NICE = 10
"""Where others always want the core, a thread with this niceness has a tenth of it: one second of CPU takes ten."""


def give_way(work: Callable[[], object]) -> None:
    """Do `work` in a thread of lower priority, and return when it is done. Blocking.

    An error of `work` is printed and ends only that thread. What is then not loaded is loaded by whoever needs it.
    """

    def run() -> None:
        if sys.platform == "linux":
            with suppress(OSError):  # it works all the same, with the usual priority
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
        work()

    thread = threading.Thread(target=run, name="giving_way", daemon=True)
    thread.start()
    thread.join()
