"""Reads quotas.toml from disk; what is in it is the concern of `quotas`.

Blocking: call it before the loop starts, or from a thread. Invariant: whatever is wrong with the file, from
missing to misspelt, comes out as a `ConfigurationError` that names it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..errors import ConfigurationError
from ..files.reading import read_bytes, refuse_silent
from ..quotas.reading import parse_quotas

if TYPE_CHECKING:
    from pathlib import Path

    from ..quotas.sections import QuotaFile


MOST_BYTES = 4 * 2**20
"""The longest quotas.toml that is read: lists of 300 000 partitions, which take a thread some seconds to parse."""
NOTHING_EXPECTED = "expected TOML, found nothing (a comment is enough to lift every quota)"


class WrittenQuotas(NamedTuple):
    """A good quotas.toml, as it is written and as it is understood."""

    content: bytes
    quota_file: QuotaFile


def read_quotas_file(path: Path) -> WrittenQuotas:
    """Read quotas.toml. Raises ConfigurationError if the file is missing, unreadable or wrong."""
    content = read_bytes(path, most_bytes=MOST_BYTES)
    if not content.strip():
        # An editor has truncated the file and not written it yet. Read as quotas, it would lift every quota.
        raise ConfigurationError(f"{path}: {NOTHING_EXPECTED}")
    return WrittenQuotas(content, parse_quotas(content, source=str(path)))


def load_quotas_file(path: Path) -> QuotaFile:
    """Read only what the quotas mean, for a caller that must not wait for a disk that hangs: such a disk is a
    ConfigurationError, too."""
    refuse_silent(path)
    return read_quotas_file(path).quota_file
