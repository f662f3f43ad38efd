"""Locks an open file, waiting for a bounded time: its holder may be stopped and never release it.

Blocking. Knows nothing of what the lock is for. Invariant: a caller that does not get the lock in time is told which
file it is on, and how to find out who has it.
"""

from __future__ import annotations

import fcntl
from time import monotonic, sleep
from typing import TYPE_CHECKING

from ..errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path

LOCK_SECONDS = 10.0
"""How long a lock is waited for. Whoever has it needs it for milliseconds."""
_LOOK_SECONDS = 0.02


def lock(descriptor: int, place: Path, *, seconds: float, not_done: str, takes: str) -> None:
    """Return with the lock, which ends with the descriptor.

    Args:
        descriptor: of `place`.
        place: to be named.
        seconds: for so long it is waited for.
        not_done: what is not done without it.
        takes: how long it takes otherwise.

    Raises:
        ConfigurationError: somebody had it all the time.
    """
    deadline = monotonic() + seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if monotonic() >= deadline:
                raise ConfigurationError(
                    f"{place}: another process has had its lock for {seconds:g} s, and {not_done}: "
                    f"`fuser {place}` tells which; {takes}"
                ) from error
            sleep(_LOOK_SECONDS)
        else:
            return
