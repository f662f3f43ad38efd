"""Chooses a role's rate from second to second by its rate source and observations.

Pure: time is an argument. Invariant: the chosen rate lies between the source's bounds, and changes by at least
`EXACTNESS` or not at all, unless it reaches a bound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .auto_rate import AutoRate
from .choice import Choice, HeldBy
from .deadline_rate import EXACTNESS, SETTLED_SECONDS, DeadlineRate, Need, Standing, describe

if TYPE_CHECKING:
    from datetime import datetime

    from ..quotas.rate_source import RateSource
    from .choice import Observed


class RoleRate:
    """The rate of a role."""

    def __init__(self) -> None:
        self._deadline = DeadlineRate()
        self._auto = AutoRate()
        self._behind_at: float | None = None

    def choose(
        self, source: RateSource, observed: Observed, held: float, *, since: datetime, wall: datetime, now: float
    ) -> Choice:
        """Return the rate from `now` on.

        Args:
            source: the file's rate source.
            observed: the findings of the last look.
            held: bytes per second until now.
            since: from when `within` counts; with an offset.
            wall: now, by the wall clock; with an offset.
            now: the same in seconds, by a clock that is never set.
        """
        least = None
        if source.deadline is None:
            # Without a deadline it is not seen that this catch-up ends and another begins. So what is known of it is
            # forgotten.
            self._deadline = DeadlineRate()
        else:
            need = self._deadline.need(source, observed, since=since, wall=wall, now=now)
            least = self._by_deadline(source, observed, held, need)
        if not source.auto:
            if least is None:
                raise AssertionError("a rate source without a deadline that is not automatic")
            self._auto, self._behind_at = AutoRate(), None
            return least
        does_not_hurt = self._by_signals(source, observed, held, now)
        if least is None:
            return does_not_hurt
        told = does_not_hurt._replace(
            finish_by=least.finish_by,
            needed_bytes_per_second=least.needed_bytes_per_second,
            late=least.late,
        )
        above = least.held_by == HeldBy.NOTHING_BEHIND or does_not_hurt.bytes_per_second >= least.bytes_per_second
        if above:
            return told
        return least._replace(signal=does_not_hurt.signal, auto=True, may_hurt=True)

    def _by_deadline(self, source: RateSource, observed: Observed, held: float, need: Need) -> Choice:
        wanted, held_by = _wanted(source, need, held)
        return Choice(
            _settled(source, wanted, held),
            held_by,
            describe(need.standing, need),
            need.finish_by,
            need.bytes_per_second,
            late=need.standing is Standing.LATE,
            lag_bytes=observed.lag_bytes,
        )

    def _by_signals(self, source: RateSource, observed: Observed, held: float, now: float) -> Choice:
        if observed.behind or observed.lag_messages:
            self._behind_at = now
        if self._behind_at is None or now - self._behind_at >= SETTLED_SECONDS:
            # Everything learnt is forgotten: the next catch-up may find the network and the disks in another state.
            self._auto, self._behind_at = AutoRate(), None
            words = "nothing is behind"
            return Choice(source.least, HeldBy.NOTHING_BEHIND, words, lag_bytes=observed.lag_bytes, auto=True)
        used = observed.used_bytes_per_second
        beside = max(observed.carried_bytes_per_second - used, 0.0)
        verdict = self._auto.choose(source, observed.readings, held, used=used, beside=beside, now=now)
        rate = min(max(verdict.bytes_per_second, source.least), source.most)
        held_by: str = verdict.signal or (HeldBy.FULL if verdict.is_full else HeldBy.NOTHING)
        if verdict.signal is None and rate >= source.most:
            held_by = HeldBy.MOST
        return Choice(rate, held_by, verdict.words, lag_bytes=observed.lag_bytes, signal=verdict.signal, auto=True)


def _wanted(source: RateSource, need: Need, held: float) -> tuple[float, HeldBy]:
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
    """Return `wanted`, kept between the bounds; or the rate that is in force, if that is within the bounds and nearly
    the same."""
    found = min(max(wanted, source.least), source.most)
    near = abs(found - held) < EXACTNESS * held and source.least <= held <= source.most
    return held if near and found not in (source.least, source.most) else found
