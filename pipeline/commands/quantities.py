"""Rates, sizes, durations and moments as people type them on a command line: ``20MB/s``, ``200MB``, ``2h``, ``03:10``.

Knows no option. Invariant: a bare number is bytes or seconds; anything ambiguous, like bits, is refused. A moment
without a zone is UTC, as everything that the pipeline prints.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from datetime import time as time_of_day
from typing import Any, NamedTuple

import click

from ..journals.parse_lines import LATEST_SECONDS

_UNITS = {"": 1.0, "B": 1.0}
_UNITS |= {f"{letter}B": 1000.0**n for n, letter in enumerate("kMGT", 1)}
_UNITS |= {f"{letter}iB": 1024.0**n for n, letter in enumerate("KMGT", 1)}
_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_MAX_BYTES, _MAX_SECONDS = 1e18, 100 * 366 * 86_400.0
"""Beyond these a number is no size and a time no date, and what is worked out with them overflows."""
_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]+)?|\.[0-9]+) *([A-Za-z]*)(?:/s)?", re.ASCII)


class Quantity(click.ParamType[float]):
    def __init__(self, name: str, units: dict[str, float], example: str, *, most: float, some: bool = False) -> None:
        """Make a quantity; `some`: zero is refused."""
        self.name = name
        self._units = units
        self._example = example
        self._most = most
        self._some = some

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the value in bytes (per second), seconds, or what a price is in."""
        if isinstance(value, float):
            return value
        match = _QUANTITY.fullmatch(str(value))
        if match is None or match[2] not in self._units:
            self.fail(f"expected something like {self._example}, found {value!r}", param, ctx)
        found = float(match[1]) * self._units[match[2]]
        if found > self._most or (self._some and not found):
            self.fail(f"expected {'more than 0' if not found else 'less'}, such as {self._example}, found {value!r}",
                      param, ctx)  # fmt: skip
        return found


RATE = Quantity("rate", _UNITS, "20MB/s", most=_MAX_BYTES)
SOME_RATE = Quantity("rate", _UNITS, "20MB/s", most=_MAX_BYTES, some=True)
DURATION = Quantity("duration", _SECONDS, "2h", most=_MAX_SECONDS)
SOME_TIME = Quantity("duration", _SECONDS, "2h", most=_MAX_SECONDS, some=True)
SOME_PRICE = Quantity("price", {"": 1.0}, "0.01", most=_MAX_BYTES, some=True)


class Moment(NamedTuple):
    """A moment as it was typed: by itself (`seconds`), or by the end of what was recorded."""

    seconds: int | None = None
    """The time in seconds since 1970."""
    before_end: int | None = None
    of_day: time_of_day | None = None
    """The last time that it was that."""

    def resolve(self, last_second: int) -> int:
        """Return seconds since 1970, `last_second` being the last one recorded."""
        if self.seconds is not None:
            return self.seconds
        if self.of_day is None:
            return max(last_second + 1 - (self.before_end or 0), 0)
        end = datetime.fromtimestamp(last_second, UTC)
        found = datetime.combine(end.date(), self.of_day, UTC)
        return int((found if found <= end else found - timedelta(days=1)).timestamp())


class MomentType(click.ParamType[Moment]):
    name = "moment"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Moment:
        """Return the moment, which need not be known before the tables are."""
        if isinstance(value, Moment):
            return value
        text = str(value)
        match = _QUANTITY.fullmatch(text)
        if match is not None and match[2] in _SECONDS and match[2]:
            return Moment(before_end=int(DURATION.convert(text, param, ctx)))
        try:
            return Moment(of_day=time_of_day.fromisoformat(text)) if _CLOCK.fullmatch(text) else Moment(_instant(text))
        except ValueError:
            expected = "2026-11-21T03:10:00Z, 2026-11-21, 03:10 (the last time it was that) or 6h (before the end)"
            self.fail(f"expected something like {expected}, found {text!r}", param, ctx)


_CLOCK = re.compile(r"[0-9]{2}:[0-9]{2}(:[0-9]{2})?", re.ASCII)


def _instant(text: str) -> int:
    found = datetime.fromisoformat(text)
    seconds = int((found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp())
    if not 0 <= seconds <= LATEST_SECONDS:
        raise ValueError(f"{text} is before 1970 or after 2100")
    return seconds


MOMENT = MomentType()
