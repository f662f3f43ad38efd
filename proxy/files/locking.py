"""Holds the lock of a file, waiting for a bounded time: its holder may be stopped and never release it.

Blocking. Knows nothing of what the lock is for. Invariant: a caller that does not get the lock in time is told which
file it is on, and how to find out who has it.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from time import monotonic, sleep
from typing import TYPE_CHECKING

from ..errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LOCK_SECONDS = 10.0
"""How long a lock is waited for. Its holder needs it for milliseconds."""
_LOOK_SECONDS = 0.02


@contextmanager
def locked(place: Path, *, not_done: str, takes: str) -> Iterator[int]:
    """Hold the lock of a file, which is made if it is not there; yield its descriptor, with which the lock ends.

    Args:
        place: the file.
        not_done: what is not done without the lock.
        takes: how long it takes otherwise.

    Raises:
        OSError: the file cannot be opened.
        ConfigurationError: another process had the lock for `LOCK_SECONDS`.
    """
    descriptor = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        deadline = monotonic() + LOCK_SECONDS
        while not _is_locked(descriptor):
            if monotonic() >= deadline:
                raise ConfigurationError(
                    f"{place}: another process has had its lock for {LOCK_SECONDS:g} s, and {not_done}: "
                    f"`fuser {place}` tells which; {takes}"
                )
            sleep(_LOOK_SECONDS)
        yield descriptor
    finally:
        os.close(descriptor)


def _is_locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
