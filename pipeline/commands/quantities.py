"""Rates, sizes and durations as people type them on a command line: ``20MB/s``, ``200MB``, ``2h``.

Knows no option. Invariant: a bare number is bytes or seconds; anything ambiguous, like bits, is refused.
"""

from __future__ import annotations

import re
from typing import Any

import click

_UNITS = {"": 1.0, "B": 1.0}
_UNITS |= {f"{letter}B": 1000.0**n for n, letter in enumerate("kMGT", 1)}
_UNITS |= {f"{letter}iB": 1024.0**n for n, letter in enumerate("KMGT", 1)}
_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]+)?) *([A-Za-z]*)(?:/s)?", re.ASCII)


class Quantity(click.ParamType[float]):
    def __init__(self, name: str, units: dict[str, float], example: str) -> None:
        self.name = name
        self._units = units
        self._example = example

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the value in bytes (per second) or seconds."""
        if isinstance(value, float):
            return value
        match = _QUANTITY.fullmatch(str(value))
        if match is None or match[2] not in self._units:
            self.fail(f"expected something like {self._example}, found {value!r}", param, ctx)
        return float(match[1]) * self._units[match[2]]


RATE = Quantity("rate", _UNITS, "20MB/s")
DURATION = Quantity("duration", _SECONDS, "2h")
