"""A rate that sets itself: what the file says of it, before anybody measures anything.

    { finish_by = "06:00", timezone = "Europe/Berlin", max = "300MiB/s" }   the least rate that ends in time
    { within = "2h", max = "300MiB/s" }
    { auto = true, min = "10MiB/s", max = "800MiB/s" }                      the rate that does not hurt

A rate source says between which bounds a rate lies and when catch-up is to be over. Which rate holds in this second
is worked out by `proxy.rates`. Reads no clock; time is an argument. Invariant: ``0 < least <= most``, both finite.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta, tzinfo
from typing import NamedTuple

from .spans import format_span
from .units import format_rate
from .wall_clock import first_moment

LEAST_RATE = 64.0 * 1024
"""Bytes per second. No less than 64 KiB is asked for at a time, so a lower rate holds on average alone, and is usually
one whose unit was forgotten: kafka-configs takes bytes per second, and so does an integer in quotas.toml."""
_DAY = timedelta(days=1)


class Deadline(NamedTuple):
    """When catch-up is to be over. Exactly one of `at`, `daily` and `within` is not None."""

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
