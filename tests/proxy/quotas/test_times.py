"""Times on clocks that jump, worked out by hand; and how times of day and zones may be written."""

from __future__ import annotations

from datetime import UTC, datetime, time
from zoneinfo import ZoneInfo

import pytest

from proxy.errors import InvalidValueError
from proxy.quotas.times import first_moment, parse_time, parse_zone


# Berlin: 2026-03-29 02:00 -> 03:00 at 01:00 UTC; 2026-10-25 03:00 -> 02:00 at 01:00 UTC. Lord Howe moves by 30 minutes.
@pytest.mark.parametrize(
    ("shown", "zone", "moment"),
    [
        ("2026-03-29T01:59", "Europe/Berlin", "2026-03-29T00:59"),
        ("2026-03-29T02:00", "Europe/Berlin", "2026-03-29T01:00"),  # skipped: when the clock jumps
        ("2026-03-29T02:30", "Europe/Berlin", "2026-03-29T01:00"),
        ("2026-03-29T03:00", "Europe/Berlin", "2026-03-29T01:00"),
        ("2026-03-29T03:30", "Europe/Berlin", "2026-03-29T01:30"),
        ("2026-10-25T02:30", "Europe/Berlin", "2026-10-25T00:30"),  # shown twice: the first time
        ("2026-10-25T03:00", "Europe/Berlin", "2026-10-25T02:00"),
        ("2026-10-04T02:15", "Australia/Lord_Howe", "2026-10-03T15:30"),
        ("2011-12-30T12:00", "Pacific/Apia", "2011-12-30T10:00"),  # a day that never was
        ("2026-06-01T12:00", "UTC", "2026-06-01T12:00"),
    ],
)
def test_a_time_is_the_first_moment_at_which_the_clock_shows_it_or_later(shown: str, zone: str, moment: str) -> None:
    assert first_moment(datetime.fromisoformat(shown), ZoneInfo(zone)) == datetime.fromisoformat(moment).replace(
        tzinfo=UTC
    )


@pytest.mark.parametrize(
    ("written", "meant"),
    [("22:00", time(22)), (" 06:30:15 ", time(6, 30, 15)), (time(7, 45), time(7, 45)), ("00:00", time())],
)
def test_a_time(written: object, meant: time) -> None:
    assert parse_time(written) == meant


@pytest.mark.parametrize("written", ["24:00", "7:00", "07:60", "7pm", "", 22, 2200, time(1, 2, 3, 4), None, True])
def test_no_time(written: object) -> None:
    with pytest.raises(InvalidValueError, match='expected a time of day like "22:00" or 22:00:00, found '):
        parse_time(written)


def test_midnight_is_not_24() -> None:
    with pytest.raises(InvalidValueError, match='midnight is "00:00"'):
        parse_time("24:00")


def test_zones() -> None:
    assert parse_zone("UTC") is UTC
    assert parse_zone("Europe/Berlin") == ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize("written", ["Mars/Phobos", "", 1, "../../etc/passwd", "/etc/localtime", "Europe", "CEST\0"])
def test_no_zone(written: object) -> None:
    with pytest.raises(InvalidValueError, match='expected a time zone like "Europe/Berlin" or "UTC", found '):
        parse_zone(written)


def test_a_zone_that_is_nearly_right_is_suggested() -> None:
    with pytest.raises(InvalidValueError, match=r"did you mean Europe/Berlin\?"):
        parse_zone("Europe/Berlln")
