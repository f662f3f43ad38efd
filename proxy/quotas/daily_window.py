"""A time of day on some days of the week, somewhere in the world: when a schedule holds.

    from 22:00 to 06:00, Europe/Berlin, mon-fri    five nights a week, the last from Friday to Saturday morning

A window belongs to the day on which it begins; if it does not end later on the same day, it ends on the next. Each of
its two times means the first moment at which the clock there shows that time *or a later one*. If the clock skips the
time in spring, the window begins or ends when the clock jumps; if the clock shows the time twice in autumn, the first
of the two counts. So the window of a day is one stretch of time, or none (if the clock skipped both its times). Knows
no file and no clock; time is an argument.

Invariant: `holds` changes at exactly the moments that `next_change` tells.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
EVERY_DAY = frozenset(range(7))
_BEFORE_DAYS = 2
"""How many dates back to look for the beginning of the window that holds now. It began yesterday at the earliest, which
is two dates ago if the zone skipped a date (Apia, 2011)."""
_AHEAD_DAYS = 15
"""How many dates ahead to look for the next change. If a window holds on one day a week and the zone skips that date,
it opens a fortnight after the last time."""
_SECOND = timedelta(seconds=1)
_DAY = timedelta(days=1)


class DailyWindow(NamedTuple):
    """`begins` and `ends` are times of the clock in `zone`; equal ones are a whole day. `days`: 0 is Monday."""

    begins: time = time()
    ends: time = time()
    zone: tzinfo = UTC
    days: frozenset[int] = EVERY_DAY

    def holds(self, now: datetime) -> bool:
        today = self._date(now)
        return any(start <= now < end for start, end in self._stretches(today - _DAY * _BEFORE_DAYS, today + _DAY))

    def began(self, now: datetime) -> datetime | None:
        """Return when the stretch that holds at `now` began, in UTC; None if none does."""
        today = self._date(now)
        stretches = self._stretches(today - _DAY * _BEFORE_DAYS, today + _DAY)
        return next((start for start, end in stretches if start <= now < end), None)

    def next_change(self, now: datetime) -> datetime | None:
        """Return when `holds` will next say otherwise, in UTC; None if never (every day, the whole day)."""
        holding, today = self.holds(now), self._date(now)
        for stretch in self._stretches(today - _DAY * _BEFORE_DAYS, today + _DAY * _AHEAD_DAYS):
            for moment in stretch:
                if moment > now and self.holds(moment) is not holding:
                    return moment
        return None

    def _date(self, now: datetime) -> date:
        return now.astimezone(self.zone).date()

    def _stretches(self, first: date, last: date) -> Iterator[tuple[datetime, datetime]]:
        """In order; none reaches into the next."""
        for offset in range((last - first).days + 1):
            day = first + _DAY * offset
            if day.weekday() in self.days:
                ends_on = day if self.begins < self.ends else day + _DAY
                start = first_moment(datetime.combine(day, self.begins), self.zone)
                yield start, first_moment(datetime.combine(ends_on, self.ends), self.zone)


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
