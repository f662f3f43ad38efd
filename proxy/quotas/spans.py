"""Spans of time as people write them: ``"2h"``, ``"90m"``, ``"1d12h"``.

Invariant: what is returned is longer than nothing and no longer than `LONGEST`.
"""

from __future__ import annotations

import re
from datetime import timedelta

from ..errors import InvalidValueError
from .units import shown

_SPAN = re.compile(r"(?:([0-9]{1,4})d)?(?:([0-9]{1,4})h)?(?:([0-9]{1,5})m)?(?:([0-9]{1,6})s)?", re.ASCII)
LONGEST = timedelta(days=366)


def parse_span(value: object) -> timedelta:
    """Raises InvalidValueError."""
    match = _SPAN.fullmatch(value.strip()) if isinstance(value, str) else None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups()) if match else (0, 0, 0, 0)
    span = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    if not timedelta() < span <= LONGEST:
        raise InvalidValueError(f"expected a time like 2h, 90m or 1d12h, of at most 366d, found {shown(value)}")
    return span


def format_span(span: timedelta) -> str:
    """As it may be written: ``1d12h``."""
    seconds = round(span.total_seconds())
    parts = ((seconds // 86400, "d"), (seconds // 3600 % 24, "h"), (seconds // 60 % 60, "m"), (seconds % 60, "s"))
    return "".join(f"{count}{unit}" for count, unit in parts if count) or "0s"
