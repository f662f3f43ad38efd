"""Reads quotas.toml from disk; the only module of this package that touches a file.

Blocking: call it before the loop starts, or from a thread. Invariant: whatever is wrong with the file, from
missing to misspelt, comes out as a `ConfigurationError` that names it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import ConfigurationError
from .reading import parse_quotas

if TYPE_CHECKING:
    from pathlib import Path

    from .sections import QuotaFile

_MAX_BYTES = 16 * 2**20
"""Far above any real file; keeps a wrong path (a log segment, a device) from being read into memory."""


def load_quotas_file(path: Path) -> QuotaFile:
    """Raises ConfigurationError if the file is missing, unreadable or wrong."""
    try:
        with path.open("rb") as stream:
            content = stream.read(_MAX_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror or error}") from error
    if len(content) > _MAX_BYTES:
        raise ConfigurationError(f"{path}: expected at most {_MAX_BYTES} bytes, found a larger file")
    if not content.strip():
        # A file caught between truncation and writing; taken at its word it would lift every quota.
        raise ConfigurationError(f"{path}: expected TOML, found nothing (a comment is enough to lift every quota)")
    return parse_quotas(content, source=str(path))
