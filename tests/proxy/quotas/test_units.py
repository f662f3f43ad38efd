"""Times on clocks that jump, worked out by hand; and how times of day and zones may be written."""

from __future__ import annotations

import math
from datetime import UTC, datetime, time
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.errors import InvalidValueError
from proxy.quotas.units import (
    first_moment,
    format_bytes,
    format_rate,
    format_size,
    parse_rate,
    parse_size,
    parse_time,
    parse_zone,
)


@pytest.mark.parametrize(
    ("written", "bytes_per_second"),
    [
        (0, 0),
        (52428800, 52428800),
        ("52428800", 52428800),
        ("50MiB/s", 50 * 2**20),
        ("50 MiB/s", 50 * 2**20),
        ("50MiB", 50 * 2**20),
        ("20MB/s", 20_000_000),
        ("1.5KiB/s", 1536),
        ("1kB/s", 1000),
        ("1KB", 1000),
        ("2GB", 2 * 10**9),
        ("2GiB/s", 2 * 2**30),
        ("1TB/s", 10**12),
        ("1TiB/s", 2**40),
        ("7B/s", 7),
        ("0", 0),
        (" 5B ", 5),
        ("unlimited", math.inf),
        (2**63 - 1, math.inf),  # Long.MaxValue, Kafka's own "no throttle"
    ],
)
def test_a_rate_is_read(written: object, bytes_per_second: float) -> None:
    assert parse_rate(written) == bytes_per_second


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (-1, "negative"),
        (True, "found true"),
        (1.5, "found 1.5"),
        (None, "found None"),
        ([], "found a list"),
        ({}, "found a table"),
        (2**63, "more than"),
        ("", 'found ""'),
        ("-5MB/s", 'found "-5MB/s"'),
        ("50mb/s", "write MB"),
        ("50mib/s", "write MiB"),
        ("1gb", "write GB"),
        ("50Mb/s", 'bits are not taken: write "6.25MB/s"'),
        ("1Gbit/s", 'write "125MB/s"'),
        ("800kbps", 'write "0.1MB/s"'),
        ("5XB/s", 'unknown unit "XB"'),
        ("5MBps", 'unknown unit "MBps"'),
        ("5MB/m", "found"),
        ("1e6", "found"),
        ("0.2B", "less than one byte"),
        ("5.5", 'a number with a point needs its unit, like "5.5MiB/s"'),
        ("50.0/s", 'a number with a point needs its unit, like "50.0MiB/s"'),
        ("Unlimited", "found"),
        ("٣MB/s", "found"),
        ("9" * 5000, "found"),
    ],
)
def test_what_is_ambiguous_is_refused(written: object, said: str) -> None:
    with pytest.raises(InvalidValueError, match="expected bytes per second") as caught:
        parse_rate(written)
    assert said in str(caught.value)


def test_a_size_is_no_rate() -> None:
    assert parse_size("8MiB") == 8 * 2**20
    with pytest.raises(InvalidValueError, match='like "8MiB", found "8MiB/s"'):
        parse_size("8MiB/s")
    with pytest.raises(InvalidValueError, match=r'a number with a point needs its unit, like "5\.5MiB"'):
        parse_size("5.5")


@pytest.mark.parametrize(
    ("bytes_per_second", "text"),
    [
        (4194304, "4.00 MiB/s (4194304 B/s)"),
        (20_000_000, "19.07 MiB/s (20000000 B/s)"),
        (1024, "1.00 KiB/s (1024 B/s)"),
        (1023, "1023 B/s"),
        (0, "0 B/s"),
        (math.inf, "unlimited"),
    ],
)
def test_a_rate_is_shown_both_ways(bytes_per_second: float, text: str) -> None:
    assert format_rate(bytes_per_second) == text


def test_sizes_reach_tebibytes() -> None:
    assert format_bytes(3 * 2**40) == "3.00 TiB"
    assert format_bytes(3 * 2**30) == "3.00 GiB"


@given(st.integers(0, 2**63 - 2))
def test_what_is_shown_in_bytes_can_be_typed_back(bytes_per_second: int) -> None:
    assert parse_rate(f"{bytes_per_second} B/s") == float(bytes_per_second)


@given(st.one_of(st.text(), st.floats(), st.none(), st.integers(), st.booleans()))
def test_anything_is_a_rate_or_refused_as_a_value(written: object) -> None:
    try:
        rate = parse_rate(written)
    except InvalidValueError:
        return
    assert rate >= 0


@given(st.integers(0, 2**50))
def test_a_size_is_read_as_it_is_written(size_bytes: int) -> None:
    assert parse_size(format_size(size_bytes)) == size_bytes


@pytest.mark.parametrize(("size_bytes", "written"), [(0, "0"), (1000, "1000"), (2**24, "16MiB"), (3 * 2**9, "1536")])
def test_a_size_is_written_in_the_largest_unit_it_is_whole_in(size_bytes: int, written: str) -> None:
    assert format_size(size_bytes) == written


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
