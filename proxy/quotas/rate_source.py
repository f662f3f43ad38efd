"""The bounds and the deadline of a rate that sets itself, as quotas.toml gives them.

    { finish_by = "06:00", timezone = "Europe/Berlin", max = "300MiB/s" }   the least rate that ends in time
    { within = "2h", max = "300MiB/s" }
    { auto = true, min = "10MiB/s", max = "800MiB/s" }                      the rate that does not hurt

`proxy.rates` chooses the rate of each second. ``within = "2h"`` ends two hours after the file was first read: that
start is kept as long as the same section has the same `within`, whatever else of the file changes, and beside the last
good quotas (`quota_files.quota_file`), so that a restart does not begin it anew.

Reads no clock; time is an argument. Invariants: a value that is not understood whole is refused, with the key, what was
expected and what was found; ``0 < least <= most``, both finite; there is a start for each source with `within` of the
file that was read last, and for no other; a start is never later than `now`.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta, tzinfo
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import InvalidValueError
from ..files.toml_reading import did_you_mean
from .units import YEARS, first_moment, format_rate, format_span, parse_rate, parse_span, parse_time, parse_zone, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


MIN_RATE = 64.0 * 1024
"""Bytes per second. No less than 64 KiB is asked for at a time, so a lower rate holds on average alone, and is usually
one whose unit was forgotten: kafka-configs takes bytes per second, and so does an integer in quotas.toml."""
_DAY = timedelta(days=1)
RATE_TABLE_KEYS = ("finish_by", "within", "timezone", "auto", "min", "max")
_EXPECTED_FINISH = 'a time of day like "06:00", or a date and time like 2026-12-01T06:00:00Z'
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ].*", re.ASCII)


class Deadline(NamedTuple):
    """The time at which catch-up is to be over. Exactly one of `at`, `daily` and `within` is not None."""

    at: datetime | None = None
    """A moment with an offset."""
    daily: time | None = None
    """The next moment at which the clock in `zone` shows it."""
    within: timedelta | None = None
    """The deadline in seconds from when the file first set it."""
    zone: tzinfo = UTC

    def moment(self, since: datetime) -> datetime:
        """Return when catch-up is to be over, in UTC, counted from `since`, which carries an offset."""
        if self.at is not None:
            return self.at.astimezone(UTC)
        if self.within is not None:
            return since.astimezone(UTC) + self.within
        daily = time() if self.daily is None else self.daily
        today = since.astimezone(self.zone).date()
        # A zone may skip a date, or a time of one: the day after tomorrow has one that is to come all the same.
        moments = (first_moment(datetime.combine(today + _DAY * days, daily), self.zone) for days in range(4))
        return next(moment for moment in moments if moment > since)

    def __str__(self) -> str:
        if self.within is not None:
            return f"within {format_span(self.within)}"
        if self.at is not None:
            return f"by {self.at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
        return f"by {self.daily:%H:%M:%S} {'UTC' if self.zone is UTC else self.zone}"


@dataclass(frozen=True, slots=True)
class RateSource:
    """A rate that sets itself. `least` and `most` are in bytes per second. If it has a `deadline` and `auto`, the
    rate that the deadline needs is the floor of the rate that `auto` chooses."""

    most: float
    least: float = MIN_RATE
    deadline: Deadline | None = None
    auto: bool = False
    """True for a rate that is raised while nothing hurts, and lowered when something does."""
    path: str = field(default="", compare=False)
    """The key that sets it, with its section: each role's `within` has a start of its own."""

    @property
    def start_key(self) -> str | None:
        """The name under which the start of `within` is remembered; None if there is no `within`. It leaves out the
        bounds, which an operator may change while a move goes on: such a change does not begin the span anew."""
        if self.deadline is None or self.deadline.within is None:
            return None
        return f"{self.path} {self.deadline}"

    def __str__(self) -> str:
        ends = "" if self.deadline is None else f"what is needed to end {self.deadline}"
        what = f"what does not hurt{f', at least {ends}' if ends else ''}" if self.auto else ends
        return f"{what}, from {format_rate(self.least)} to {format_rate(self.most)}"


class RateStarts:
    """The starts of a file's sources."""

    def __init__(self, kept: Mapping[str, float]) -> None:
        """Begin with `kept`, as it was when the process before ended."""
        self.kept = dict(kept)
        """Seconds since 1970 by the source's `start_key`."""

    def follow(self, keys: Iterable[str], now: datetime) -> None:
        """Put a file with these `start_keys` in force from `now` on."""
        moment = now.timestamp()
        self.kept = {key: min(self.kept.get(key, moment), moment) for key in keys}

    def of(self, source: RateSource, now: datetime) -> datetime:
        """Return when the source was first taken; `now` if the file does not have it, or if it has no `within`."""
        key = source.start_key
        if key is None or key not in self.kept:
            return now
        if self.kept[key] > now.timestamp():
            # The clock has been set back since: a span that is to come has not begun yet, and would never end.
            self.kept[key] = now.timestamp()
        return datetime.fromtimestamp(self.kept[key], UTC)


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
    least = min(MIN_RATE, most) if least is None else least
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
        raise InvalidValueError("timezone: expected finish_by beside it, found none")
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
