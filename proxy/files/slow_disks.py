"""Finds out whether the disk of a file answers: one that hangs (NFS without its server) blocks its reader without end.

Blocking, for a bounded time. A start uses it, since replication would wait together with it; so do commands, which then
say what they wait for. Knows nothing of what is in the file. Invariant: the caller has an answer in time; a thread that
the disk holds keeps no process from ending.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from ..errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

MOST_SECONDS = 5.0


def answers(path: Path) -> bool:
    """Return True if the disk answers, even if the file does not exist."""
    return not silent([path])


def silent(paths: Iterable[Path]) -> list[Path]:
    """Return those of these files of which the disk says nothing. It is asked for all at once, and waited for once."""
    asked = [(path, _asked(path)) for path in paths]
    ends = time.monotonic() + MOST_SECONDS
    return [path for path, said in asked if not said.wait(max(0.0, ends - time.monotonic()))]


def refuse_silent(path: Path) -> None:
    """Raise ConfigurationError if the disk says nothing of the file in time."""
    if not answers(path):
        raise ConfigurationError(no_answer(path))


def _asked(path: Path) -> threading.Event:
    """Ask the disk in a thread. The event that is returned is set once the disk has said something."""
    said = threading.Event()

    def ask() -> None:
        try:
            _touch(path)
        finally:
            said.set()

    try:
        threading.Thread(target=ask, name="answering", daemon=True).start()
    except RuntimeError:  # there is no thread for asking first: it counts as an answer
        said.set()
    return said


def no_answer(path: Path) -> str:
    return f"{path}: cannot be read: no answer within {MOST_SECONDS:g} s"


def _touch(path: Path) -> None:
    with suppress(OSError, ValueError):  # the second one about a zero byte in the path
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            os.read(descriptor, 1)
        finally:
            os.close(descriptor)
