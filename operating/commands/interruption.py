"""Ctrl-C as something to wait for: it ends a wait, and strikes nowhere else.

KeyboardInterrupt is raised wherever the main thread happens to be. In the midst of a thread pool or of a screen that is
being drawn it can leave a lock taken, and then nothing ends the program any more.
"""

from __future__ import annotations

import select
import signal
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def held_interrupts() -> Iterator[Callable[[float], bool]]:
    """Hold Ctrl-C back within the block, which must be in the main thread.

    Yields a function that waits so many seconds, or until Ctrl-C was pressed, maybe before: then it returns True.
    """
    heard, hears = socket.socketpair()
    with heard, hears:
        hears.settimeout(0)
        handler = signal.signal(signal.SIGINT, lambda *_: None)
        wakes = signal.set_wakeup_fd(hears.fileno(), warn_on_full_buffer=False)
        try:
            yield lambda seconds: bool(select.select([heard], [], [], seconds)[0])
        finally:
            signal.set_wakeup_fd(wakes)
            signal.signal(signal.SIGINT, handler)
