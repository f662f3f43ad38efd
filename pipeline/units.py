"""Bytes as the person wrote them: a quota of 4 MiB/s is never told as 4.19 MB/s.

Journals hold numbers, so the family of units is told from the quotas: the one in which they are shorter. Pure.
Invariant: of whatever size, a value is at most three significant digits and a unit.
"""

from __future__ import annotations

import enum
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_NAMES = ("B", "kB", "MB", "GB", "TB", "PB", "EB")
_BINARY_NAMES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


class Units(enum.Enum):
    """value: what the next larger unit is worth."""

    DECIMAL = 1000
    BINARY = 1024

    @classmethod
    def of(cls, quotas: Iterable[float | None]) -> Units:
        """Return the family in which these bytes per second are written shorter; decimal if neither is."""
        finite = [value for value in quotas if value and math.isfinite(value)]
        lengths = {family: sum(len(family.exact(value)) for value in finite) for family in cls}
        return cls.BINARY if lengths[cls.BINARY] < lengths[cls.DECIMAL] else cls.DECIMAL

    def exact(self, value: float) -> str:
        return f"{value / self.value ** self._power(value):.15g}"

    def size(self, value: float) -> str:
        """Return ``4.2 MB``, ``4 MiB``, ``unlimited``."""
        if not math.isfinite(value):
            return "unlimited"
        power = self._power(value)
        if round(abs(value) / self.value**power, _digits(abs(value) / self.value**power)) >= self.value:
            power = min(power + 1, len(_NAMES) - 1)
        number = value / self.value**power
        text = f"{number:.{_digits(abs(number))}f}"
        names = _NAMES if self is Units.DECIMAL else _BINARY_NAMES
        return f"{text.rstrip('0').rstrip('.') if '.' in text else text} {names[power]}"

    def rate(self, value: float) -> str:
        """Return ``4 MiB/s``."""
        return self.size(value) if not math.isfinite(value) else f"{self.size(value)}/s"

    def rounded_up(self, value: float) -> float:
        """Return the next value that has two significant digits in its unit, for somebody to write."""
        if value <= 0 or not math.isfinite(value):
            return value
        unit = float(self.value ** self._power(value))
        if value > 990 * unit:
            unit *= self.value
        step = 10.0 ** (math.floor(math.log10(value / unit)) - 1) if value >= unit / 10 and unit > 1 else 1.0
        return math.ceil(value / unit / step - 1e-9) * step * unit

    def step(self, value: float) -> float:
        """Return the next of 1, 2, 5, 10, 20, 50 … of a unit: what an axis is to be divided by."""
        if value <= 0 or not math.isfinite(value):
            return 1.0
        unit = float(self.value ** self._power(value))
        ten = 10.0 ** math.floor(math.log10(value / unit))
        steps = [unit * ten * one for one in (1, 2, 5, 10) if ten * one < 1000]
        return min(one for one in (*steps, unit * self.value) if one >= value)

    def _power(self, value: float) -> int:
        power = 0
        while power < len(_NAMES) - 1 and abs(value) >= self.value ** (power + 1):
            power += 1
        return power


def _digits(number: float) -> int:
    return 0 if number >= 100 else 1 if number >= 10 else 2


def duration(seconds: float) -> str:
    """Return ``2 d 3 h``, ``1 h 02 min``, ``3 min 20 s``, ``12 s``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"
