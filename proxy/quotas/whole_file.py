"""What quotas.toml is as a whole, before its keys are read: how long it may be, and that it is never empty.

Pure. Invariant: what `parse_to_write` accepts, a sidecar that reads it accepts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import ConfigurationError
from .reading import parse_quotas

if TYPE_CHECKING:
    from .sections import QuotaFile

NOTHING_EXPECTED = "expected TOML, found nothing (a comment is enough to lift every quota)"
MOST_BYTES = 4 * 2**20
"""The longest quotas.toml that is read: lists of 300 000 partitions, which take a thread some seconds to parse."""


def refuse_nothing(content: bytes, *, source: str) -> None:
    """Raise ConfigurationError, led by `source`, if the file is empty or blank."""
    if not content.strip():
        # An editor has truncated the file and not written it yet. Read as quotas, it would lift every quota.
        raise ConfigurationError(f"{source}: {NOTHING_EXPECTED}")


def parse_to_write(content: bytes, *, source: str) -> QuotaFile:
    """Parse what is to be written. Raises ConfigurationError, led by `source`, for what no sidecar would read."""
    if len(content) > MOST_BYTES:
        raise ConfigurationError(
            f"{source}: expected at most {MOST_BYTES} bytes, found {len(content)} after the change"
        )
    refuse_nothing(content, source=source)
    return parse_quotas(content, source=source)
