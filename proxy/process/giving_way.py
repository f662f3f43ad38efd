"""Work that gives way to everybody else who wants a core, in a thread of its own.

A process that is to replace another one loads its code while the other one relays: more than a second of CPU. On two
busy cores, producers with acks=all waited 0.2 to 0.37 s meanwhile for brokers and the old process to have their turns.
Linux has a priority for each thread, and a process that has lowered its own needs a privilege to raise it again; so the
thread that works has the lower one, and ends. On other systems it is a thread like others.
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
"""Where somebody else always wants the core, a thread of this has a tenth of it: one second of CPU takes ten."""


def give_way(work: Callable[[], object]) -> None:
    """Do `work` in a thread of lower priority, and return when it is done. Blocking.

    What `work` raises ends the thread alone, and is printed: whoever needs what was to be done does it again.
    """

    def run() -> None:
        if sys.platform == "linux":
            with suppress(OSError):  # no more than a priority is lost
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
        work()

    thread = threading.Thread(target=run, name="giving_way", daemon=True)
    thread.start()
    thread.join()
