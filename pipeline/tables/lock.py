"""A file's lock, by which the processes of a machine take turns: who waits says for whom, and for how long.

The kernel frees it when its process ends, however that ends. The file has the id of the process that wrote last.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from ..errors import InputError
from ..terminal import tell
from ..units import duration

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE_SECONDS = 5.0
"""The time that a writer waits without a word: a commit takes less. Each further word comes after twice the time before
it."""
MOST_OF_A_COMMAND = 100
"""Characters."""


@contextmanager
def locked(path: Path, *, of: Path) -> Iterator[None]:
    """Wait until nobody else has the lock in `path`, and hold it. Raises InputError if there can be no such file.

    of: what is locked, as it is called where somebody waits.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a+")
    except OSError as error:
        raise InputError(f"{path.parent}: cannot be written: {error.strerror}") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with _speaking(path, of):
                fcntl.flock(file, fcntl.LOCK_EX)
        _sign(file)
        yield


def _sign(file: TextIO) -> None:
    # On a full disk those who wait are not told whom they wait for.
    with suppress(OSError):
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()


@contextmanager
def _speaking(path: Path, of: Path) -> Iterator[None]:
    """Print who holds the lock, at growing intervals, until the block ends."""
    over, began = threading.Event(), time.monotonic()

    def speak() -> None:
        pause = PATIENCE_SECONDS
        while not over.wait(pause):
            tell(f"{of}: waiting for {_holder(path)} to write there, {duration(time.monotonic() - began)} so far")
            pause *= 2

    speaker = threading.Thread(target=speak, daemon=True)
    speaker.start()
    try:
        yield
    finally:
        over.set()
        speaker.join()


def _holder(path: Path) -> str:
    """Return the process that signed last, what it runs, and whether it is stopped."""
    try:
        process = Path("/proc", str(int(path.read_text())))
        words = process.joinpath("cmdline").read_bytes().decode("utf-8", "replace").replace("\0", " ").split()
        state = process.joinpath("stat").read_text("utf-8", "replace").rpartition(")")[2].split()[0]
    except (OSError, ValueError, IndexError):
        return "another process"
    stopped = ", which is stopped (kill -CONT lets it go on)" if state in "Tt" else ""
    return f"process {process.name} ({' '.join(words)[:MOST_OF_A_COMMAND]}{stopped})"
