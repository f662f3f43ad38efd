"""One role's rate from second to second: what its rate source says, made of what was observed.

Pure: time is an argument. Invariant: what is chosen lies between the source's bounds, and changes by at least
`LEAST_CHANGE` or not at all, unless it reaches a bound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .by_deadline import DeadlineRate, Need, Standing, about
from .choice import Choice, HeldBy

if TYPE_CHECKING:
    from datetime import datetime

    from ..quotas.rate_source import RateSource
    from .choice import Observed

LEAST_CHANGE = 0.02
"""A rate that is nearer to the one that holds stays: what is measured is no more exact, and every change is a line of
the journal."""


class RoleRate:
    """Of one role and process."""

    def __init__(self) -> None:
        self._deadline = DeadlineRate()

    def choose(
        self, source: RateSource, observed: Observed, held: float, *, since: datetime, wall: datetime, now: float
    ) -> Choice:
        """Return the rate from `now` on.

        Args:
            source: what the file says.
            observed: what was seen.
            held: bytes per second until now.
            since: from when `within` counts; with an offset.
            wall: now, by the wall clock; with an offset.
            now: the same in seconds, by a clock that is never set.
        """
        need = self._deadline.need(source, observed, since=since, wall=wall, now=now)
        wanted, held_by = self._wanted(source, need, held)
        return Choice(
            _settled(source, wanted, held),
            held_by,
            about(need.standing, need),
            need.finish_by,
            need.bytes_per_second,
            late=need.standing is Standing.LATE,
            lag_bytes=observed.lag_bytes,
        )

    def _wanted(self, source: RateSource, need: Need, held: float) -> tuple[float, HeldBy]:
        match need.standing:
            case Standing.NOTHING_BEHIND:
                return source.least, HeldBy.NOTHING_BEHIND
            case Standing.PASSED:
                return source.most, HeldBy.PASSED
            case Standing.NOT_YET_KNOWN:
                return held, HeldBy.LAG_UNKNOWN
            case Standing.UNKNOWN:
                return source.most, HeldBy.LAG_UNKNOWN
            case Standing.LATE:
                return source.most, HeldBy.MOST
        wanted = need.bytes_per_second or 0.0
        if wanted >= source.most:
            return source.most, HeldBy.MOST
        return (wanted, HeldBy.DEADLINE) if wanted > source.least else (source.least, HeldBy.LEAST)


def _settled(source: RateSource, wanted: float, held: float) -> float:
    """`wanted`, between the bounds, or what holds, where that is as good."""
    found = min(max(wanted, source.least), source.most)
    near = abs(found - held) < LEAST_CHANGE * held and source.least <= held <= source.most
    return held if near and found not in (source.least, source.most) else found
