"""The bounds and the deadline of a rate that sets itself, as quotas.toml gives them.

    { finish_by = "06:00", timezone = "Europe/Berlin", max = "300MiB/s" }   the least rate that ends in time
    { within = "2h", max = "300MiB/s" }
    { auto = true, min = "10MiB/s", max = "800MiB/s" }                      the rate that does not hurt

`proxy.rates` chooses the rate of each second. ``within = "2h"`` ends two hours after the file was first read: that
start is kept as long as the same section has the same `within`, whatever else of the file changes, and beside the last
good quotas (`quota_files.last_good`), so that a restart does not begin it anew.

Reads no clock; time is an argument. Invariants: ``0 < least <= most``, both finite; there is a start for each source
with `within` of the file that was read last, and for no other; a start is never later than `now`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta, tzinfo
from typing import TYPE_CHECKING, NamedTuple

from .times import first_moment, format_span
from .units import format_rate

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


LEAST_RATE = 64.0 * 1024
"""Bytes per second. No less than 64 KiB is asked for at a time, so a lower rate holds on average alone, and is usually
one whose unit was forgotten: kafka-configs takes bytes per second, and so does an integer in quotas.toml."""
_DAY = timedelta(days=1)


class Deadline(NamedTuple):
    """The time at which catch-up is to be over. Exactly one of `at`, `daily` and `within` is not None."""

    at: datetime | None = None
    """With an offset."""
    daily: time | None = None
    """The next moment at which the clock in `zone` shows it."""
    within: timedelta | None = None
    """Counted from when the file first said so."""
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
    """One rate that sets itself. `least` and `most` are in bytes per second. If it has a `deadline` and `auto`, the
    rate that the deadline needs is the floor of the rate that `auto` chooses."""

    most: float
    least: float = LEAST_RATE
    deadline: Deadline | None = None
    auto: bool = False
    """Raised while nothing hurts, lowered when something does."""
    path: str = field(default="", compare=False)
    """The key that says so, with its section: each role's `within` has a start of its own."""

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
    """The starts of one file's sources."""

    def __init__(self, kept: Mapping[str, float]) -> None:
        """Begin with `kept`, as it was when the process before ended."""
        self.kept = dict(kept)
        """Seconds since 1970 by the source's `start_key`."""

    def take(self, keys: Iterable[str], now: datetime) -> None:
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
