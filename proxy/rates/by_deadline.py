"""The least rate that ends in time, worked out anew from what is left.

What is left to fetch is the lag, and what producers add until the end; a quota also counts what replicas in sync take,
which is what producers add to them. So with L bytes of lag, T seconds left, g and s bytes per second added to replicas
that are behind and in sync, the rate is about ``L / T + g + s``. It aims at a moment shortly before the deadline: bytes
per message are measured, a quota brings 0.95 to 1.03 of its rate, and the last replica is to be fetched to its end.

Pure: time is an argument; the deadline goes by the wall clock, everything else by a clock that is never set.
Invariant: the need grows with the lag and as time goes by.
"""

from __future__ import annotations

import enum
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from ..quotas.rate_source import LEAST_RATE

if TYPE_CHECKING:
    from datetime import datetime

    from ..quotas.rate_source import RateSource
    from .choice import Observed

SPARE_SHARE = 0.04
"""Of the time between the beginning of a catch-up and its deadline, so much is kept in reserve."""
LEAST_SPARE_SECONDS = 1.0
"""From the last byte until the controller calls a move done it takes a third of a second or more (measured)."""
MOST_SPARE_SECONDS = 120.0
ADDED_SHARE = 1.06
"""What producers add is taken for so much more: a quota that brings 0.95 of its rate would never reach the end of a log
that grows, however little is left of it."""
TAIL_SECONDS = 3.0
"""Before the moment it aims at, for the same reason 64 KiB/s come on top."""
SETTLED_SECONDS = 5.0
"""A catch-up is over when nothing was behind for so long: a connection that breaks is back within two seconds."""
CERTAIN_SECONDS = 3.0
"""More than the most was needed in every look of so many seconds: no single look decides that a move is late."""
SET_BACK = timedelta(minutes=1)
"""A wall clock that has lost more than that on the one that is never set has been set back; less is how clocks go."""
UNKNOWN_SECONDS = 10.0
"""So long a lag may be unknown before it counts as too large: usually the first answer tells it."""
_TOO_MUCH = 1.02
"""A need so much above the most is one that cannot be met; measured bytes per message are no more exact than that."""


class Standing(enum.Enum):
    """How a catch-up stands to its deadline."""

    NOTHING_BEHIND = "nothing_behind"
    IN_TIME = "in_time"
    LATE = "late"
    """It will not be done in time, or was not."""
    PASSED = "passed"
    """It began when the deadline was over."""
    UNKNOWN = "unknown"
    """Nobody knows how much is left, for longer than usual."""
    NOT_YET_KNOWN = "not_yet_known"


class Need(NamedTuple):
    standing: Standing
    finish_by: datetime
    bytes_per_second: float | None = None
    """None: unknown, or there is no time left to reckon with."""
    left_seconds: float = 0.0


class DeadlineRate:
    """Of one role: remembers when its catch-up began, and since when it is too slow."""

    def __init__(self) -> None:
        self._began: tuple[float, datetime] | None = None
        """By both clocks."""
        self._moment: datetime | None = None
        self._last_behind = 0.0
        self._known_at = 0.0
        self._in_time_at = 0.0
        self._too_slow_at = 0.0
        self._is_late = False

    def need(self, source: RateSource, observed: Observed, *, since: datetime, wall: datetime, now: float) -> Need:
        """Work it out. `source` has a deadline; `since`: from when `within` counts; `wall`: with an offset."""
        assert source.deadline is not None  # noqa: S101 - what the caller has made sure of
        self._follow(observed, wall, now)
        if source.deadline.daily is None:
            moment = source.deadline.moment(since)
        else:
            # A catch-up keeps the deadline that it began with: one that is missed today is not due tomorrow.
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
        spare = min(max(spare, LEAST_SPARE_SECONDS), MOST_SPARE_SECONDS)
        seconds = max(left - spare, left / 2, 1.0)
        lag_rate = observed.lag_bytes / seconds
        wanted = lag_rate + ADDED_SHARE * added + (LEAST_RATE if seconds < TAIL_SECONDS else 0.0)
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
                # Else its deadline would be that of a later day, by a time that the clock should never have shown.
                self._began = began_at, by_now
        elif self._began is not None and now - self._last_behind >= SETTLED_SECONDS:
            self._began = None

    def _judge(self, share: float, now: float, *, is_over: bool) -> None:
        """`share`: what is needed without a reserve, of the most there may be."""
        if share > _TOO_MUCH:
            self._too_slow_at = now
            self._is_late = self._is_late or now - self._in_time_at >= CERTAIN_SECONDS
        elif share <= 1:
            self._in_time_at = now
            self._is_late = self._is_late and now - self._too_slow_at < CERTAIN_SECONDS
        self._is_late = self._is_late or is_over


def about(standing: Standing, need: Need) -> str:
    """For people, without the rate."""
    by = f"{need.finish_by:%Y-%m-%d %H:%M:%S} UTC"
    late = f"too late: it would take more than the most to end by {by}"
    if need.left_seconds <= 0:
        late = f"not done by {by}, {timedelta(seconds=round(-need.left_seconds))} ago"
    return {
        Standing.NOTHING_BEHIND: "nothing is behind",
        Standing.IN_TIME: f"the least that ends by {by}",
        Standing.LATE: late,
        Standing.PASSED: f"began after {by}, the time by which it was to end",
        Standing.UNKNOWN: f"how many bytes are missing is unknown, and it is to end by {by}",
        Standing.NOT_YET_KNOWN: f"how many bytes are missing is not known yet; it is to end by {by}",
    }[standing]
