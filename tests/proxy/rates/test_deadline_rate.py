"""One look after the other at a deadline: the edges that no simulated move meets."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta

import pytest

from proxy.quotas.rate_source import Deadline, RateSource
from proxy.rates.choice import Choice, HeldBy, Observed
from proxy.rates.deadline_rate import SETTLED_SECONDS, UNKNOWN_SECONDS
from proxy.rates.role_rate import RoleRate

MIB = 1024.0 * 1024.0
BEGAN = datetime(2026, 11, 1, 22, tzinfo=UTC)
DAILY = RateSource(10 * MIB, MIB, Deadline(daily=time(6)))
ABSOLUTE = RateSource(10 * MIB, MIB, Deadline(at=BEGAN + timedelta(hours=1)))
NOTHING = Observed()
SOME = Observed(behind=1, lag_messages=1000, lag_bytes=7200 * MIB)
"""2 MiB/s for an hour."""
UNKNOWN = Observed(behind=1, lag_messages=1000, lag_bytes=None)


class Looks:
    """One role under one rate source; seconds since `BEGAN`."""

    def __init__(self, source: RateSource) -> None:
        self.source, self._rate, self.held = source, RoleRate(), source.least
        self.wall_is_ahead = timedelta()

    def look(self, seconds: float, observed: Observed) -> Choice:
        wall = BEGAN + timedelta(seconds=seconds) + self.wall_is_ahead
        found = self._rate.choose(self.source, observed, self.held, since=BEGAN, wall=wall, now=seconds)
        self.held = found.bytes_per_second
        return found


def test_the_least_rate_that_ends_in_time() -> None:
    """7200 MiB in an hour less 2 minutes of reserve: 2.07 MiB/s."""
    found = Looks(ABSOLUTE).look(0, SOME)
    assert found.bytes_per_second == pytest.approx(7200 * MIB / 3480)
    assert found.held_by is HeldBy.DEADLINE
    assert found.finish_by == BEGAN + timedelta(hours=1)


def test_what_producers_add_comes_on_top() -> None:
    observed = Observed(1, 1000, 7200 * MIB, growth_bytes_per_second=MIB, in_sync_bytes_per_second=2 * MIB)
    found = Looks(ABSOLUTE).look(0, observed)
    assert found.bytes_per_second == pytest.approx(7200 * MIB / 3480 + 3 * 1.06 * MIB)


def test_an_unknown_lag_holds_what_held_for_a_while_and_is_then_taken_for_too_large() -> None:
    looks = Looks(ABSOLUTE)
    assert looks.look(0, UNKNOWN).bytes_per_second == MIB
    assert looks.look(UNKNOWN_SECONDS - 1, UNKNOWN).bytes_per_second == MIB
    found = looks.look(UNKNOWN_SECONDS, UNKNOWN)
    assert (found.bytes_per_second, found.held_by) == (10 * MIB, HeldBy.LAG_UNKNOWN)
    assert looks.look(UNKNOWN_SECONDS + 1, SOME).held_by is HeldBy.DEADLINE


def test_looks_that_fail_are_a_lag_that_is_unknown() -> None:
    looks = Looks(ABSOLUTE)
    held = looks.look(0, SOME).bytes_per_second
    stale = Observed(1, 1000, 7200 * MIB, fresh=False)
    assert looks.look(5, stale).bytes_per_second == held
    assert looks.look(11, stale).bytes_per_second == 10 * MIB


def test_a_catch_up_keeps_the_time_of_day_that_it_began_with() -> None:
    """What is missed today is not due tomorrow; what begins later is."""
    looks, morning = Looks(DAILY), 8 * 3600
    looks.look(0, SOME)
    late = looks.look(morning + 60, SOME)
    assert (late.late, late.bytes_per_second) == (True, 10 * MIB)
    assert "not done by 2026-11-02 06:00:00 UTC, 0:01:00 ago" in late.words
    looks.look(morning + 120, NOTHING)
    looks.look(morning + 120 + SETTLED_SECONDS, NOTHING)
    again = looks.look(morning + 200, SOME)
    assert (again.late, again.finish_by) == (False, datetime(2026, 11, 3, 6, tzinfo=UTC))


def test_a_clock_that_is_set_back_leaves_the_time_of_day_that_is_next() -> None:
    """It was 22:00, and the clock said 07:00 of the next day: 06:00 is in eight hours, not in thirty-two."""
    looks, morning = Looks(DAILY), datetime(2026, 11, 2, 6, tzinfo=UTC)
    looks.wall_is_ahead = timedelta(hours=9)
    assert looks.look(0, SOME).finish_by == morning + timedelta(days=1)
    looks.wall_is_ahead = timedelta()
    assert looks.look(600, SOME).finish_by == morning
    late = looks.look(8 * 3600 + 60, SOME)
    assert (late.finish_by, late.late) == (morning, True)


def test_a_clock_that_is_set_forward_is_late_as_it_says() -> None:
    """A machine that slept through a deadline is one of those: what it missed is not due tomorrow."""
    looks = Looks(DAILY)
    looks.look(0, SOME)
    looks.wall_is_ahead = timedelta(hours=9)
    assert looks.look(600, SOME).late


def test_what_begins_after_a_deadline_goes_at_the_most_and_is_not_late() -> None:
    found = Looks(ABSOLUTE).look(3601, SOME)
    assert (found.held_by, found.bytes_per_second, found.late) == (HeldBy.PASSED, 10 * MIB, False)


def test_a_connection_that_breaks_does_not_begin_a_new_catch_up() -> None:
    looks = Looks(ABSOLUTE)
    looks.look(3599, SOME)
    looks.look(3600, NOTHING)
    assert looks.look(3603, SOME).late


def test_it_is_late_after_five_seconds_of_too_much_and_no_longer_after_five_of_enough() -> None:
    looks, too_much = Looks(ABSOLUTE), Observed(1, 1000, 72000 * MIB)
    assert [looks.look(second, too_much).late for second in range(7)] == [False] * 5 + [True] * 2
    assert [looks.look(second, SOME).late for second in range(7, 13)] == [True] * 4 + [False] * 2


def test_a_rate_that_is_as_good_as_what_holds_stays() -> None:
    looks = Looks(ABSOLUTE)
    held = looks.look(0, SOME).bytes_per_second
    assert looks.look(1, Observed(1, 1000, 7200 * MIB * 1.01)).bytes_per_second == held
    assert looks.look(2, Observed(1, 1000, 7200 * MIB * 1.1)).bytes_per_second > held


def test_a_catch_up_under_a_rate_without_a_deadline_is_not_followed() -> None:
    """What the deadline before was of may have ended meanwhile: one that is said again is of what is behind then."""
    looks = Looks(DAILY)
    assert looks.look(0, SOME).finish_by == BEGAN + timedelta(hours=8)
    looks.source = RateSource(10 * MIB, MIB, auto=True)
    looks.look(3600, NOTHING)
    looks.look(24 * 3600, SOME)
    looks.source = DAILY
    found = looks.look(24 * 3600 + 1, SOME)
    assert (found.finish_by, found.late) == (BEGAN + timedelta(hours=32), False)
