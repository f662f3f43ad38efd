"""Does the disk of a file answer? One that hangs (NFS without its server) holds whoever asks for as long as it likes.

Blocking, for a bounded time: for a start, which is not to wait for a disk while replication waits for it, and for
commands, which are to say what they wait for. Knows nothing of what is in the file. Invariant: who asks has an answer
in time; a thread that the disk holds keeps no process from ending.
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
    """Whether it says anything of the file, be it that there is none."""
    return not silent([path])


def silent(paths: Iterable[Path]) -> list[Path]:
    """Of which of these files nothing is said. All are asked at once, and waited for together."""
    asked = [(path, _asked(path)) for path in paths]
    ends = time.monotonic() + MOST_SECONDS
    return [path for path, said in asked if not said.wait(max(0.0, ends - time.monotonic()))]


def refuse_silent(path: Path) -> None:
    """Raise ConfigurationError if the disk says nothing of the file in time."""
    if not answers(path):
        raise ConfigurationError(no_answer(path))


def _asked(path: Path) -> threading.Event:
    """What is set once the disk has said something."""
    said = threading.Event()

    def ask() -> None:
        try:
            _touch(path)
        finally:
            said.set()

    try:
        threading.Thread(target=ask, name="answering", daemon=True).start()
    except RuntimeError:  # no thread is to be had, and so the disk is asked as ever
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
