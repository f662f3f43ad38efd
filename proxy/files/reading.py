"""Reads the small files that operators write: configurations, quotas, reassignments, client properties.

Blocking. Knows nothing of what is in them. Invariant: a file that cannot be read is a `ConfigurationError` that names
it; a wrong path (a log segment, a device, a pipe that nobody writes to) is never read into memory, nor waited for.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from ..errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path

_MAX_BYTES = 64 * 2**20
"""Well above any real file: the JSON of a reassignment of 100 000 partitions is 8 MB."""
_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


def read_bytes(path: Path, *, most_bytes: int = _MAX_BYTES, takes_pipes: bool = False) -> bytes:
    """Return the whole content.

    Raises ConfigurationError if the file is missing, unreadable, no regular file or larger than `most_bytes`.
    `takes_pipes` allows what people type, `plan <(kafka-reassign-partitions …)`; reading then waits for the writer.
    """
    try:
        # Without O_NONBLOCK the opening of a pipe waits until somebody writes to it.
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
    """Return whether something has this name, links followed. Raises ConfigurationError if that cannot be told: of a
    directory that another user keeps to themselves, or a name that is too long."""
    return _status(path) is not None


def is_directory(path: Path) -> bool:
    """Return whether this is a directory, or leads to one. Raises ConfigurationError as `is_there` does."""
    status = _status(path)
    return status is not None and stat.S_ISDIR(status.st_mode)


def _status(path: Path) -> os.stat_result | None:
    """Return the file's status; None if there is no such file."""
    try:
        return path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror or error}") from error
    except ValueError as error:  # a zero byte in the path
        raise ConfigurationError(f"{str(path)!r}: cannot be read: {error}") from error
