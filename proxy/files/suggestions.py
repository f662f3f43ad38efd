"""Suggests the name that a misspelt one was probably meant to be. Pure; difflib is close enough for keys."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def did_you_mean(found: str, known: Iterable[str]) -> str:
    """Return `` (did you mean …?)``, or nothing if nothing known is like it.

    A dotted key is also compared by its parts, so that ``leader.rate`` finds ``leader.replication.throttled.rate``.
    """
    names = list(known)
    alike = difflib.get_close_matches(found, names, n=1)
    if not alike and found:
        parts = found.split(".")
        alike = [name for name in names if len(parts) > 1 and _are_in(parts, name.split("."))][:1]
    return f" (did you mean {alike[0]}?)" if alike else ""


def _are_in(parts: list[str], of: list[str]) -> bool:
    """Return True if the parts occur in that order, each spelt nearly so."""
    left = iter(of)
    return all(any(difflib.get_close_matches(part, [other], n=1) for other in left) for part in parts)
