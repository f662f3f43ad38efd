from __future__ import annotations

from datetime import UTC, time
from zoneinfo import ZoneInfo

import pytest

from proxy.errors import InvalidValueError
from proxy.quotas.daily_window import EVERY_DAY, DailyWindow
from proxy.quotas.window_values import parse_days, parse_time, parse_window, parse_zone


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


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (["mon"], {0}),
        (["sat-sun"], {5, 6}),
        (["fri-mon", "WED"], {4, 5, 6, 0, 2}),
        (["mon-mon"], {0}),
    ],
)
def test_days(written: object, meant: set[int]) -> None:
    assert parse_days(written) == meant


@pytest.mark.parametrize("written", [[], "mon", ["monday"], ["mon-"], ["mon-wed-fri"], [1], ["mon", 2], {}])
def test_no_days(written: object) -> None:
    with pytest.raises(InvalidValueError, match=r"expected .*mon.*, found "):
        parse_days(written)


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


def test_a_window() -> None:
    window, problems = parse_window({"from": "22:00", "to": "06:00", "timezone": "Europe/Berlin", "days": ["mon-fri"]})
    assert problems == {}
    assert window == DailyWindow(time(22), time(6), ZoneInfo("Europe/Berlin"), frozenset(range(5)))
    assert parse_window({}) == (None, {})
    assert parse_window({"days": ["sat"]})[0] == DailyWindow(days=frozenset({5}))
    assert parse_window({"from": "01:00", "to": "02:00"})[0] == DailyWindow(time(1), time(2), UTC, EVERY_DAY)


@pytest.mark.parametrize(
    ("written", "problems"),
    [
        ({"from": "22:00"}, {"to": "missing, and there is from: expected a time of day"}),
        ({"to": "22:00"}, {"from": "missing, and there is to: expected a time of day"}),
        ({"from": "22:00", "to": "22:00"}, {"to": "expected another time than from"}),
        ({"from": "x", "to": "y", "days": []}, {"from": "found", "to": "found", "days": "found none"}),
        ({"timezone": "UTC"}, {"timezone": "applies to from, to and days, and none of them is set"}),
    ],
)
def test_each_problem_is_told_by_its_key(written: dict[str, object], problems: dict[str, str]) -> None:
    window, found = parse_window(written)
    assert window is None
    assert found.keys() == problems.keys()
    for key, part in problems.items():
        assert part in found[key]
