"""Rates, sizes, spans and times as people write them, and back: ``"50MiB/s"`` <-> bytes per second, ``"1d12h"``.

A time of day means the first moment at which the clock there shows that time *or a later one*. If the clock skips the
time in spring, that is when the clock jumps; if the clock shows the time twice in autumn, the first of the two counts.
Zones are those of the system's time zone database, or of the package tzdata where there is none. Knows no file, no key,
no role and no clock; time is an argument. Invariants: a rate or a size is a whole number of bytes >= 0, or infinity for
a rate that is unlimited; a span is longer than nothing and no longer than `LONGEST`; anything ambiguous (bits, ``mb``,
a bool, a float, a fraction without a unit) is refused rather than guessed.
"""

from __future__ import annotations

import difflib
import json
import math
import re
from datetime import UTC, datetime, time, timedelta, tzinfo
from fractions import Fraction
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from ..errors import InvalidValueError

UNLIMITED = "unlimited"
KAFKA_UNLIMITED = 2**63 - 1
"""The value that Kafka stores for "no throttle": Long.MaxValue (ReplicationQuotaManagerConfig)."""

_UNITS = {
    "": 1,
    "B": 1,
    "kB": 10**3,
    "KB": 10**3,
    "KiB": 2**10,
    "MB": 10**6,
    "MiB": 2**20,
    "GB": 10**9,
    "GiB": 2**30,
    "TB": 10**12,
    "TiB": 2**40,
}
_BIT_MULTIPLES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_QUANTITY = re.compile(r"([0-9]{1,20}(?:\.[0-9]{1,20})?) *([A-Za-z]*)(/s)?", re.ASCII)
_BITS = re.compile(r"([kKMGTmgt]?)i?(?:b|[bB]its?|bps)", re.ASCII)
_MAX_SHOWN = 200
"""The most characters of a value that a message quotes: a list of 100 000 partitions would be a megabyte."""
_EXPECTED_RATE = 'bytes per second as an integer or text like "50MiB/s", or "unlimited"'
_EXPECTED_SIZE = 'bytes as an integer or text like "8MiB"'
YEARS = range(1970, 9991)
"""The years that a date may have: later ones overflow when the offset is subtracted."""
_SECOND = timedelta(seconds=1)
_TIME = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9]))?", re.ASCII)
_SPAN = re.compile(r"(?:([0-9]{1,4})d)?(?:([0-9]{1,4})h)?(?:([0-9]{1,5})m)?(?:([0-9]{1,6})s)?", re.ASCII)
LONGEST = timedelta(days=366)


def shown(value: object) -> str:
    """Return how a value found in a file is quoted in a message: text in double quotes, true and false as TOML has
    them."""
    if isinstance(value, str) and len(value) > _MAX_SHOWN:
        return f"{json.dumps(value[:_MAX_SHOWN], ensure_ascii=False)} and {len(value) - _MAX_SHOWN} more characters"
    if isinstance(value, str | bool):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, int) and value.bit_length() > _MAX_SHOWN:
        return f"a number of {value.bit_length()} bits"
    if isinstance(value, dict):
        return "a table"
    return "a list" if isinstance(value, list) else str(value)


def parse_rate(value: object) -> float:
    """Return bytes per second, `math.inf` if unlimited; 0 is a rate (it stops catch-up).

    Takes what kafka-configs takes for ``*.replication.throttled.rate`` (an integer >= 0) and, beyond that,
    text with a unit. Raises InvalidValueError.
    """
    if value == UNLIMITED:
        return math.inf
    quantity = _parse_quantity(value, expected=_EXPECTED_RATE, per_second=True)
    return math.inf if quantity == KAFKA_UNLIMITED else float(quantity)


def parse_size(value: object) -> int:
    """Return bytes, from an integer or text with a unit. Raises InvalidValueError."""
    return _parse_quantity(value, expected=_EXPECTED_SIZE, per_second=False)


def _parse_quantity(value: object, *, expected: str, per_second: bool) -> int:
    refusal = f"expected {expected}, found {shown(value)}"
    if isinstance(value, str):
        quantity = _parse_text(value.strip(), refusal=refusal, per_second=per_second)
    elif isinstance(value, int) and not isinstance(value, bool):
        quantity = value
    else:
        raise InvalidValueError(refusal)
    if quantity < 0:
        raise InvalidValueError(f"{refusal} (negative)")
    if quantity > KAFKA_UNLIMITED:
        raise InvalidValueError(f"{refusal} (more than {KAFKA_UNLIMITED})")
    return quantity


def _parse_text(text: str, *, refusal: str, per_second: bool) -> int:
    match = _QUANTITY.fullmatch(text)
    if match is None or (match[3] and not per_second):
        raise InvalidValueError(refusal)
    number, unit = Fraction(match[1]), match[2]
    if not unit and "." in match[1]:
        # A fraction of a byte means nothing: its author meant another unit.
        written = f"{match[1]}MiB{'/s' if per_second else ''}"
        raise InvalidValueError(f'{refusal} (a number with a point needs its unit, like "{written}")')
    if unit not in _UNITS:
        raise InvalidValueError(refusal + _unit_advice(number, unit, per_second=per_second))
    quantity = number * _UNITS[unit]
    if 0 < quantity < 1:
        raise InvalidValueError(f"{refusal} (less than one byte)")
    return round(quantity)


def _unit_advice(number: Fraction, unit: str, *, per_second: bool) -> str:
    capitalised = f"{unit[:1].upper()}{unit[1:].replace('b', 'B')}"
    if unit.islower() and capitalised in _UNITS:
        return f' (unit "{unit}": write {capitalised}; MB is 10^6 bytes, MiB is 2^20)'
    bits = _BITS.fullmatch(unit)
    if bits is not None:
        megabytes = float(number * _BIT_MULTIPLES[bits[1].lower()] / 8 / 10**6)
        return f' (bits are not taken: write "{megabytes:g}MB{"/s" if per_second else ""}")'
    return f' (unknown unit "{unit}": B, KB, KiB, MB, MiB, GB, GiB, TB or TiB)'


def format_size(size_bytes: int) -> str:
    """Return the inverse of `parse_size`, in the largest unit of which it is a whole number: ``16MiB``."""
    units = ("TiB", "GiB", "MiB", "KiB")
    unit = next((unit for unit in units if size_bytes and size_bytes % _UNITS[unit] == 0), "")
    return f"{size_bytes // _UNITS[unit]}{unit}"


def format_bytes(size_bytes: float) -> str:
    """Write a size: `4.00 MiB`; whole bytes below 1 KiB. Always powers of 1024, so that two outputs compare."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if size_bytes >= _UNITS[unit]:
            return f"{size_bytes / _UNITS[unit]:.2f} {unit}"
    return f"{size_bytes:.0f} B"


def format_rate(bytes_per_second: float) -> str:
    """Write a rate: `4.00 MiB/s (4194304 B/s)`, so that the meaning of mega is clear; `unlimited` for infinity."""
    if math.isinf(bytes_per_second):
        return UNLIMITED
    exact = f"{bytes_per_second:.0f} B/s"
    return exact if bytes_per_second < _UNITS["KiB"] else f"{format_bytes(bytes_per_second)}/s ({exact})"


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
