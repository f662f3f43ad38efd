"""Reads a rate of quotas.toml: a number, a text, or the table of a rate that sets itself.

Knows the table's keys and how they may be written; no file and no clock. Invariant: a value that is not understood
whole is refused, with the key, what was expected and what was found.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, time, tzinfo
from typing import TYPE_CHECKING, Any

from ..errors import InvalidValueError
from ..files.suggestions import did_you_mean
from .rate_source import LEAST_RATE, Deadline, RateSource
from .times import YEARS, first_moment, parse_span, parse_time, parse_zone
from .units import parse_rate, shown

if TYPE_CHECKING:
    from collections.abc import Mapping

RATE_TABLE_KEYS = ("finish_by", "within", "timezone", "auto", "min", "max")
_EXPECTED_FINISH = 'a time of day like "06:00", or a date and time like 2026-12-01T06:00:00Z'
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ].*", re.ASCII)


def parse_rate_or_source(value: object, *, path: str = "") -> tuple[float, RateSource | None]:
    """Return bytes per second, and the rate source if the rate sets itself. In that case the bytes per second are the
    most that the rate may be.

    `path`: the rate's key, with its section. Raises InvalidValueError.
    """
    if value == "auto":
        raise InvalidValueError('expected { auto = true, max = "300MiB/s" } for a rate that sets itself, found "auto"')
    if not isinstance(value, dict):
        return parse_rate(value), None
    source = _source(value, path)
    return source.most, source


def _source(table: Mapping[str, Any], path: str) -> RateSource:
    for key in table.keys() - set(RATE_TABLE_KEYS):
        advice = did_you_mean(key, RATE_TABLE_KEYS)
        raise InvalidValueError(f"{key}: unknown key; expected one of {', '.join(RATE_TABLE_KEYS)}{advice}")
    auto = table.get("auto", True)
    if auto is not True:
        raise InvalidValueError(f"auto: expected true, or no such key, found {shown(auto)}")
    deadline = _deadline(table)
    if deadline is None and "auto" not in table:
        raise InvalidValueError("expected finish_by, within or auto = true in the table of a rate that sets itself")
    most = _bound(table, "max")
    if most is None:
        raise InvalidValueError('max: missing; expected the most that the rate may be, like "300MiB/s"')
    least = _bound(table, "min")
    if least is None and "auto" in table:
        raise InvalidValueError('min: missing; expected what the rate never goes below, like "10MiB/s"')
    least = min(LEAST_RATE, most) if least is None else least
    if least > most:
        raise InvalidValueError(f"min: expected no more than max, found {shown(table['min'])}")
    return RateSource(most, least, deadline, "auto" in table, path)


def _bound(table: Mapping[str, Any], key: str) -> float | None:
    if key not in table:
        return None
    rate = _of(key, parse_rate, table[key])
    if math.isinf(rate) or rate <= 0:
        raise InvalidValueError(f"{key}: expected a rate above 0 that is not unlimited, found {shown(table[key])}")
    return float(rate)


def _deadline(table: Mapping[str, Any]) -> Deadline | None:
    if "finish_by" in table and "within" in table:
        raise InvalidValueError("within: expected either finish_by or within, found both")
    if "timezone" in table and "finish_by" not in table:
        raise InvalidValueError("timezone: is that of finish_by, of which there is none")
    if "within" in table:
        return Deadline(within=_of("within", parse_span, table["within"]))
    if "finish_by" not in table:
        return None
    zone = _of("timezone", parse_zone, table["timezone"]) if "timezone" in table else None
    deadline: Deadline = _of("finish_by", lambda value: _finish_by(value, zone), table["finish_by"])
    return deadline


def _finish_by(value: object, zone: tzinfo | None) -> Deadline:
    moment = _moment(value)
    if moment is None:
        if not isinstance(value, str | time):
            raise InvalidValueError(f"expected {_EXPECTED_FINISH}, found {shown(value)}")
        return Deadline(daily=parse_time(value), zone=zone or UTC)
    if moment.tzinfo is None:
        return Deadline(at=first_moment(moment.replace(microsecond=0), zone or UTC))
    if zone is not None:
        raise InvalidValueError(f"expected a date and time without an offset beside a timezone, found {shown(value)}")
    return Deadline(at=moment)


def _moment(value: object) -> datetime | None:
    """Parse a date; None if the text is none."""
    moment = value if isinstance(value, datetime) else None
    if isinstance(value, str) and _DATE.fullmatch(value.strip()):
        try:
            moment = datetime.fromisoformat(value.strip())
        except ValueError:
            raise InvalidValueError(f"expected {_EXPECTED_FINISH}, found {shown(value)}") from None
    if moment is not None and moment.year not in YEARS:
        raise InvalidValueError(f"expected {_EXPECTED_FINISH}, found {shown(value)}")
    return moment


def _of(key: str, parse: Any, value: object) -> Any:
    try:
        return parse(value)
    except InvalidValueError as error:
        raise InvalidValueError(f"{key}: {error}") from error
