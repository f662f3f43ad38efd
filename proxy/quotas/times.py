"""Parses spans of time (``"2h"``, ``"90m"``, ``"1d12h"``), times of day and time zones.

A time of day means the first moment at which the clock there shows that time *or a later one*. If the clock skips the
time in spring, that is when the clock jumps; if the clock shows the time twice in autumn, the first of the two counts.
Zones are those of the system's time zone database, or of the package tzdata where there is none. Knows no file and no
clock; time is an argument. Invariant: a span is longer than nothing and no longer than `LONGEST`.
"""

from __future__ import annotations

import difflib
import re
from datetime import UTC, datetime, time, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from ..errors import InvalidValueError
from .units import shown

YEARS = range(1970, 9991)
"""Years that a date may have: later ones overflow when the offset is subtracted."""
_SECOND = timedelta(seconds=1)
_TIME = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9]))?", re.ASCII)


def first_moment(shown: datetime, zone: tzinfo) -> datetime:
    """Return the first moment, in UTC, at which the clock in `zone` shows `shown` (without an offset) or later."""
    moment = shown.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if _clock(moment, zone) == shown:
        return moment
    # Skipped. PEP 495: in a gap fold=0 goes by the offset before it and so comes out later than the jump, fold=1
    # earlier. Clocks jump at whole seconds.
    before, after = shown.replace(tzinfo=zone, fold=1).astimezone(UTC), moment
    while after - before > _SECOND:
        middle = before + (after - before) // _SECOND // 2 * _SECOND
        before, after = (before, middle) if _clock(middle, zone) >= shown else (middle, after)
    return after


def _clock(moment: datetime, zone: tzinfo) -> datetime:
    return moment.astimezone(zone).replace(tzinfo=None, fold=0)


def parse_time(value: object) -> time:
    """Return a time of day from a TOML local time, or from text. Raises InvalidValueError."""
    if isinstance(value, time) and value.tzinfo is None and value.microsecond == 0:
        return value
    match = _TIME.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        advice = ' (midnight is "00:00")' if isinstance(value, str) and value.startswith("24:") else ""
        raise InvalidValueError(f'expected a time of day like "22:00" or 22:00:00, found {shown(value)}{advice}')
    return time(int(match[1]), int(match[2]), int(match[3] or 0))


def parse_zone(value: object) -> tzinfo:
    """Return the zone of that name in the IANA time zone database. Raises InvalidValueError."""
    expected = f'expected a time zone like "Europe/Berlin" or "UTC", found {shown(value)}'
    if not isinstance(value, str) or not value:
        raise InvalidValueError(expected)
    if value == "UTC":
        return UTC
    try:
        return ZoneInfo(value)
    # A folder of the database is an OSError, a path that leads out of it a ValueError.
    except (ZoneInfoNotFoundError, OSError, ValueError) as error:
        alike = difflib.get_close_matches(value, available_timezones(), n=1)
        raise InvalidValueError(expected + (f" (did you mean {alike[0]}?)" if alike else "")) from error


_SPAN = re.compile(r"(?:([0-9]{1,4})d)?(?:([0-9]{1,4})h)?(?:([0-9]{1,5})m)?(?:([0-9]{1,6})s)?", re.ASCII)
LONGEST = timedelta(days=366)


def parse_span(value: object) -> timedelta:
    """Parse a span of time. Raises InvalidValueError."""
    match = _SPAN.fullmatch(value.strip()) if isinstance(value, str) else None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups()) if match else (0, 0, 0, 0)
    span = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    if not timedelta() < span <= LONGEST:
        raise InvalidValueError(f"expected a time like 2h, 90m or 1d12h, of at most 366d, found {shown(value)}")
    return span


def format_span(span: timedelta) -> str:
    """Write a span of time: ``1d12h``."""
    seconds = round(span.total_seconds())
    parts = ((seconds // 86400, "d"), (seconds // 3600 % 24, "h"), (seconds // 60 % 60, "m"), (seconds % 60, "s"))
    return "".join(f"{count}{unit}" for count, unit in parts if count) or "0s"
