"""Paths as people type them, for readers that take every path for a pattern.

Pure. Invariant: what `literal` returns matches one path, the one that was given.
"""

from __future__ import annotations

import re

_MEANS_SOMETHING = re.compile(r"([{}\[\]*?\\])")
"""To Hadoop's globs (org.apache.hadoop.fs.GlobPattern)."""


def literal(path: str) -> str:
    """Return the pattern that means this path and no other: Spark's readers know nothing but patterns."""
    return _MEANS_SOMETHING.sub(r"\\\1", path)
