"""The times of a schedule as people write them: ``from``, ``to``, ``timezone`` and ``days``.

Knows no file; zones are those of the system's time zone database, or of the package tzdata where there is none.
Invariant: for every key that cannot be read there is one message that says what was expected and what was found.
"""

from __future__ import annotations

import difflib
import re
from datetime import UTC, time, tzinfo
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from ..errors import InvalidValueError
from .daily_window import EVERY_DAY, WEEKDAYS, DailyWindow
from .units import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

YEARS = range(1970, 9991)
"""Of a date: later ones overflow when the offset is subtracted."""
_TIME = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9]))?", re.ASCII)
_EXPECTED_TIME = 'a time of day like "22:00" or 22:00:00'
_EXPECTED_DAYS = 'a list of days like ["mon", "sat-sun"]'


def parse_window(written: Mapping[str, object]) -> tuple[DailyWindow | None, dict[str, str]]:
    """Return the window that `written` (the keys that there are of from, to, timezone, days) means, None if it says
    none; and what is wrong, by key."""
    problems: dict[str, str] = {}

    def value(key: str, parse: Callable[[object], Any], otherwise: Any) -> Any:
        try:
            return parse(written[key]) if key in written else otherwise
        except InvalidValueError as error:
            problems[key] = str(error)
            return otherwise

    begins, ends = value("from", parse_time, time()), value("to", parse_time, time())
    for key, other in (("from", "to"), ("to", "from")):
        if key in written and other not in written:
            problems[other] = f"missing, and there is {key}: expected {_EXPECTED_TIME}"
    if "from" in written and begins == ends and not problems:
        problems["to"] = f"expected another time than from, found {shown(str(ends))}; leave both out for whole days"
    zone = value("timezone", parse_zone, UTC)
    days = value("days", parse_days, EVERY_DAY)
    if "timezone" in written and written.keys().isdisjoint(("from", "to", "days")):
        problems.setdefault("timezone", "applies to from, to and days, and none of them is set")
    if problems or not written:
        return None, problems
    return DailyWindow(begins, ends, zone, days), problems


def parse_time(value: object) -> time:
    """A TOML local time, or text. Raises InvalidValueError."""
    if isinstance(value, time) and value.tzinfo is None and value.microsecond == 0:
        return value
    match = _TIME.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        advice = ' (midnight is "00:00")' if isinstance(value, str) and value.startswith("24:") else ""
        raise InvalidValueError(f"expected {_EXPECTED_TIME}, found {shown(value)}{advice}")
    return time(int(match[1]), int(match[2]), int(match[3] or 0))


def parse_zone(value: object) -> tzinfo:
    """A name of the IANA time zone database. Raises InvalidValueError."""
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


def parse_days(value: object) -> frozenset[int]:
    """Raises InvalidValueError."""
    if not isinstance(value, list) or not value:
        raise InvalidValueError(f"expected {_EXPECTED_DAYS}, found {'none' if value == [] else shown(value)}")
    return frozenset(day for item in value for day in _parse_day_or_range(item))


def _parse_day_or_range(item: object) -> list[int]:
    names = item.lower().split("-") if isinstance(item, str) else []
    if len(names) not in (1, 2) or any(name not in WEEKDAYS for name in names):
        raise InvalidValueError(f"expected {', '.join(WEEKDAYS)} or a range like mon-fri, found {shown(item)}")
    first, last = WEEKDAYS.index(names[0]), WEEKDAYS.index(names[-1])
    return [(first + offset) % 7 for offset in range((last - first) % 7 + 1)]
