"""The least rate that meets the deadline, worked out anew from the bytes left.

The bytes left to fetch are the lag, and those that producers add until the end. A quota also counts replicas in sync,
which is as much as producers add to them. So with L bytes of lag, T seconds left, and g and s bytes per second that
producers add to replicas behind and in sync, the rate is about ``L / T + g + s``. It aims at a moment shortly before
the deadline, because bytes per message are measured, a quota brings 0.95 to 1.03 of its rate, and the last replica has
to be fetched to its end.

Pure: time is an argument; the deadline is of the wall clock, everything else uses the monotonic clock.
Invariant: the need grows with the lag and with time.
"""

from __future__ import annotations

import enum
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from ..quotas.rate_source import MIN_RATE

if TYPE_CHECKING:
    from datetime import datetime

    from ..quotas.rate_source import RateSource
    from .choice import Observed

SPARE_SHARE = 0.04
"""The share that is kept in reserve, of the time between the beginning of a catch-up and its deadline."""
MIN_SPARE_SECONDS = 1.0
"""The least reserve. After the last byte, the controller takes a third of a second or more to call a move done
(measured)."""
MAX_SPARE_SECONDS = 120.0
ADDED_SHARE = 1.06
"""The factor by which the bytes that producers add are multiplied. A quota may bring only 0.95 of its rate, and would
then never reach the end of a log that grows, however little is left of it."""
TAIL_SECONDS = 3.0
"""The time before the deadline in which 64 KiB/s are added to the rate: near its end a catch-up would otherwise slow
down with the lag and never end."""
SETTLED_SECONDS = 5.0
"""How long something has to last to be believed: nothing is behind, so the catch-up is over; or every look found that
it misses its deadline, so it is late. A connection that broke is back within two seconds."""
SET_BACK = timedelta(minutes=1)
"""How far the wall clock may lag behind the monotonic clock by drift; more means that it was set back."""
UNKNOWN_SECONDS = 10.0
"""The longest time the lag may be unknown before the rate is the most that it may be. Usually the first answer tells
the lag."""
EXACTNESS = 0.02
"""The relative error of measured bytes per message. A rate that differs from the one in force by less is not put
in force, since every change is a line of the journal; a need that exceeds the maximum rate by less does not tell
whether the deadline can be met."""


class Standing(enum.Enum):
    """State of a catch-up relative to its deadline."""

    NOTHING_BEHIND = "nothing_behind"
    IN_TIME = "in_time"
    LATE = "late"
    """The deadline will be missed, or was."""
    PASSED = "passed"
    """The catch-up began after the deadline."""
    UNKNOWN = "unknown"
    """The lag has been unknown for longer than usual."""
    NOT_YET_KNOWN = "not_yet_known"


class Need(NamedTuple):
    standing: Standing
    finish_by: datetime
    bytes_per_second: float | None = None
    """The rate that meets the deadline; None: unknown, or there is no time left to reckon with."""
    left_seconds: float = 0.0


class DeadlineRate:
    """Chooses the rate of a role by its deadline; remembers when its catch-up began, and since when it is too
    slow."""

    def __init__(self) -> None:
        self._began: tuple[float, datetime] | None = None
        """The start of the catch-up, by the monotonic clock and by the wall clock; None: none is under way."""
        self._moment: datetime | None = None
        self._last_behind = 0.0
        self._known_at = 0.0
        self._in_time_at = 0.0
        self._too_slow_at = 0.0
        self._is_late = False

    def need(self, source: RateSource, observed: Observed, *, since: datetime, wall: datetime, now: float) -> Need:
        """Return the need. `source` has a deadline; `since`: from when `within` counts; `wall`: with an offset."""
        assert source.deadline is not None  # noqa: S101 - the caller has made sure of it
        self._follow(observed, wall, now)
        if source.deadline.daily is None:
            moment = source.deadline.moment(since)
        else:
            # The daily deadline is the next after the beginning of the catch-up: as long as that goes on in this
            # process, one that is missed is not moved to tomorrow.
            moment = source.deadline.moment(wall if self._began is None else self._began[1])
        left = (moment - wall).total_seconds()
        if self._began is None:
            return Need(Standing.NOTHING_BEHIND, moment, left_seconds=left)
        began_at, began = self._began
        if began >= moment:
            return Need(Standing.PASSED, moment, left_seconds=left)
        if observed.lag_bytes is None or not observed.fresh:
            unknown = now - self._known_at >= UNKNOWN_SECONDS or left <= 0
            return Need(Standing.UNKNOWN if unknown else Standing.NOT_YET_KNOWN, moment, left_seconds=left)
        self._known_at = now
        added = observed.growth_bytes_per_second + observed.in_sync_bytes_per_second
        spare = SPARE_SHARE * (now - began_at + left)
        spare = min(max(spare, MIN_SPARE_SECONDS), MAX_SPARE_SECONDS)
        seconds = max(left - spare, left / 2, 1.0)
        lag_rate = observed.lag_bytes / seconds
        wanted = lag_rate + ADDED_SHARE * added + (MIN_RATE if seconds < TAIL_SECONDS else 0.0)
        least = observed.lag_bytes / max(left, 0.1) + added
        self._judge(least / source.most, now, is_over=left <= 0 and observed.lag_bytes > 0)
        return Need(Standing.LATE if self._is_late else Standing.IN_TIME, moment, wanted, left)

    def _follow(self, observed: Observed, wall: datetime, now: float) -> None:
        if observed.behind or observed.lag_messages:
            self._last_behind = now
            if self._began is None:
                self._began = now, wall
                self._known_at = self._in_time_at = self._too_slow_at = now
                self._is_late = False
            began_at, began = self._began
            by_now = wall - timedelta(seconds=now - began_at)
            if began - by_now > SET_BACK:
                # Otherwise its deadline would be one of a later day, by a time that the clock should never have shown.
                self._began = began_at, by_now
        elif self._began is not None and now - self._last_behind >= SETTLED_SECONDS:
            self._began = None

    def _judge(self, share: float, now: float, *, is_over: bool) -> None:
        """`share`: the rate that is needed if no time is kept in reserve, as a share of the most that the rate may
        be."""
        if share > 1 + EXACTNESS:
            self._too_slow_at = now
            self._is_late = self._is_late or now - self._in_time_at >= SETTLED_SECONDS
        elif share <= 1:
            self._in_time_at = now
            self._is_late = self._is_late and now - self._too_slow_at < SETTLED_SECONDS
        self._is_late = self._is_late or is_over


def describe(standing: Standing, need: Need) -> str:
    """Return a description without the rate."""
    by = f"{need.finish_by:%Y-%m-%d %H:%M:%S} UTC"
    late = f"too late: more than the maximum rate is needed to end by {by}"
    if need.left_seconds <= 0:
        late = f"not done by {by}, {timedelta(seconds=round(-need.left_seconds))} ago"
    return {
        Standing.NOTHING_BEHIND: "nothing is behind",
        Standing.IN_TIME: f"the lowest rate that ends by {by}",
        Standing.LATE: late,
        Standing.PASSED: f"began after {by}, the time by which it was to end",
        Standing.UNKNOWN: f"the lag in bytes is unknown; the deadline is {by}",
        Standing.NOT_YET_KNOWN: f"the lag in bytes is not known yet; the deadline is {by}",
    }[standing]
