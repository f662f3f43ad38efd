"""Rates and sizes as people write them, and back: ``"50MiB/s"`` <-> bytes per second.

Knows no file, no key and no role. Invariant: what is returned is a whole number of bytes >= 0, or infinity
for a rate that is unlimited; anything ambiguous (bits, ``mb``, a bool, a float, a fraction without a unit) is refused
rather than guessed.
"""

from __future__ import annotations

import json
import math
import re
from fractions import Fraction

from ..errors import InvalidValueError

UNLIMITED = "unlimited"
KAFKA_UNLIMITED = 2**63 - 1
"""Long.MaxValue: what Kafka itself stores for "no throttle" (ReplicationQuotaManagerConfig)."""

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
_MOST_SHOWN = 200
"""The most characters of a value that a message quotes: a list of 100 000 partitions would be a megabyte."""
_EXPECTED_RATE = 'bytes per second as an integer or text like "50MiB/s", or "unlimited"'
_EXPECTED_SIZE = 'bytes as an integer or text like "8MiB"'


def shown(value: object) -> str:
    """Return how a value found in a file is quoted in a message: text in double quotes, true and false as TOML has
    them."""
    if isinstance(value, str) and len(value) > _MOST_SHOWN:
        return f"{json.dumps(value[:_MOST_SHOWN], ensure_ascii=False)} and {len(value) - _MOST_SHOWN} more characters"
    if isinstance(value, str | bool):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, int) and value.bit_length() > _MOST_SHOWN:
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
        # A fraction of a byte means nothing: whoever writes one thinks in another unit.
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
    """Write a rate: `4.00 MiB/s (4194304 B/s)`, so that nobody has to guess which mega was meant; `unlimited` for
    infinity."""
    if math.isinf(bytes_per_second):
        return UNLIMITED
    exact = f"{bytes_per_second:.0f} B/s"
    return exact if bytes_per_second < _UNITS["KiB"] else f"{format_bytes(bytes_per_second)}/s ({exact})"
