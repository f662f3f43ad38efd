"""Reads the small files that operators write: configurations, quotas, reassignments, client properties.

Blocking. Knows nothing of what is in them. Invariant: a file that cannot be read is a `ConfigurationError` that names
it, and a wrong path (a log segment, a device) is never read into memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path

_MAX_BYTES = 64 * 2**20
"""Far above any real file: a reassignment of 100 000 partitions has 8 MB on one line."""


def read_bytes(path: Path) -> bytes:
    """Raises ConfigurationError if the file is missing, unreadable or larger than 64 MiB."""
    try:
        with path.open("rb") as stream:
            content = stream.read(_MAX_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror or error}") from error
    if len(content) > _MAX_BYTES:
        raise ConfigurationError(f"{path}: expected at most {_MAX_BYTES} bytes, found a larger file")
    return content


def read_text(path: Path) -> str:
    """The same for text; raises ConfigurationError also if it is not UTF-8."""
    try:
        return read_bytes(path).decode()
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error}") from error
