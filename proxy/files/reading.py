"""Reads the small files that operators write: configurations, quotas, reassignments, client properties; and holds locks
of files.

Blocking. Knows nothing of what is in them. A disk that hangs (NFS without its server) blocks its reader without end, so
a start and commands ask for a bounded time whether it answers. Invariants: a file that cannot be read is a
`ConfigurationError` that names it; a wrong path (a log segment, a device, a pipe without a writer) is never read into
memory, nor waited for; a thread that the disk holds keeps no process from ending; a lock is waited for no longer than
`LOCK_SECONDS`, since its holder may be stopped and never release it.
"""

from __future__ import annotations

import fcntl
import os
import stat
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from ..errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path


_MAX_BYTES = 64 * 2**20
"""The longest file, well above real sizes: the JSON of a reassignment of 100 000 partitions is 8 MB."""
_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}
MAX_SECONDS = 5.0
"""The longest wait for a disk to answer."""
LOCK_SECONDS = 10.0
"""The longest wait for a lock. Its holder needs it for milliseconds."""
_LOOK_SECONDS = 0.02


def read_bytes(path: Path, *, most_bytes: int = _MAX_BYTES, takes_pipes: bool = False) -> bytes:
    """Return the whole content.

    Raises ConfigurationError if the file is missing, unreadable, no regular file or larger than `most_bytes`.
    `takes_pipes` allows what people type, `plan <(kafka-reassign-partitions …)`; reading then waits for the writer.
    """
    try:
        # Without O_NONBLOCK the opening of a pipe waits for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | (0 if takes_pipes else os.O_NONBLOCK))
        try:
            kind = stat.S_IFMT(os.fstat(descriptor).st_mode)
            if kind != stat.S_IFREG and not (takes_pipes and kind == stat.S_IFIFO):
                found = _KINDS.get(kind, "something else")
                raise ConfigurationError(f"{path}: cannot be read: expected a file, found {found}")
            with open(descriptor, "rb", closefd=False) as stream:
                content = stream.read(most_bytes + 1)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror or error}") from error
    except ValueError as error:  # a zero byte in the path
        raise ConfigurationError(f"{str(path)!r}: cannot be read: {error}") from error
    if len(content) > most_bytes:
        raise ConfigurationError(f"{path}: expected at most {most_bytes} bytes, found a larger file")
    return content


def is_there(path: Path) -> bool:
    """Return whether something has this name, links followed. Raises ConfigurationError if that cannot be found out: of
    a directory that another user keeps to themselves, or a name that is too long."""
    return _status(path) is not None


def has_entry(path: Path) -> bool:
    """Return whether something has this name, a link that leads nowhere included. Raises ConfigurationError as
    `is_there` does."""
    return _status(path, follow_symlinks=False) is not None


def is_directory(path: Path) -> bool:
    """Return whether this is a directory, or leads to one. Raises ConfigurationError as `is_there` does."""
    status = _status(path)
    return status is not None and stat.S_ISDIR(status.st_mode)


def _status(path: Path, *, follow_symlinks: bool = True) -> os.stat_result | None:
    """Return the file's status; None if there is no such file."""
    try:
        return path.stat(follow_symlinks=follow_symlinks)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror or error}") from error
    except ValueError as error:  # a zero byte in the path
        raise ConfigurationError(f"{str(path)!r}: cannot be read: {error}") from error


def answers(path: Path) -> bool:
    """Return True if the disk answers, even if the file does not exist."""
    return not silent([path])


def silent(paths: Iterable[Path]) -> list[Path]:
    """Return those of these files of which the disk says nothing. It is asked for all at once, and waited for once."""
    asked = [(path, _asked(path)) for path in paths]
    ends = time.monotonic() + MAX_SECONDS
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
    return f"{path}: cannot be read: no answer within {MAX_SECONDS:g} s"


def _touch(path: Path) -> None:
    with suppress(OSError, ValueError):  # the second about a zero byte in the path
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            os.read(descriptor, 1)
        finally:
            os.close(descriptor)


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
        deadline = time.monotonic() + LOCK_SECONDS
        while not _is_locked(descriptor):
            if time.monotonic() >= deadline:
                raise ConfigurationError(
                    f"{place}: another process has had its lock for {LOCK_SECONDS:g} s, and {not_done}: "
                    f"`fuser {place}` tells which; {takes}"
                )
            time.sleep(_LOOK_SECONDS)
        yield descriptor
    finally:
        os.close(descriptor)


def _is_locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


Identities = tuple[tuple[int, int, int, int], ...]
"""The facts that identify the content of some files, to notice that one was replaced or written; zeros for a missing
one."""


def identities_of(files: Iterable[Path]) -> Identities:
    """Return what shows that a file, or the file that a link leads to, has become another. Blocking."""
    found = []
    for path in files:
        try:
            status = os.stat(path)  # noqa: PTH116 - of many, once a second
            found.append((status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size))
        except (OSError, ValueError):  # the second about a zero byte in the path
            found.append((0, 0, 0, 0))
    return tuple(found)
