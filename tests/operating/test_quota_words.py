from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from operating.quota_words import (
    differences,
    format_count,
    format_distance,
    format_duration,
    format_eta,
    format_rate_in_brief,
    format_time,
    parse_moment,
)
from proxy.errors import InvalidValueError
from proxy.quotas import Partitions, Quotas, RoleQuota, changes_ahead, effective
from proxy.quotas.reading import parse_quotas

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
RATE = "leader.replication.throttled.rate"


def test_what_differs_is_told_with_units() -> None:
    before = Quotas(leader=RoleQuota(1024.0), hash="a")
    assert differences(before, replace(before, hash="b")) == []
    after = Quotas(
        leader=RoleQuota(0.0, topics={"a": Partitions(frozenset({1, 2}))}),
        follower=RoleQuota.of_every_topic(5.0),
        enforce=False,
    )
    assert differences(before, after) == [
        "leader 1.00 KiB/s (1024 B/s) -> 0 B/s",
        'leader replicas none -> a="1,2"',
        "follower unlimited -> 5 B/s",
        'follower replicas none -> *="*"',
        "enforcing -> observing only",
    ]


@pytest.mark.parametrize(
    ("before", "changed", "told"),
    [
        ({"o*": 5}, {"orders": "unlimited"}, ["leader topic orders 5 B/s shared with topic o* -> unlimited"]),
        ({"o*": 5}, {"orders": 5}, ["leader topic orders 5 B/s shared with topic o* -> 5 B/s"]),
        ({"o*": 5, "orders": 2}, {"orders": "unlimited"}, ["leader topic orders 2 B/s -> unlimited"]),
        ({"o*": 5}, {"or*": "unlimited"}, ["leader topic or* no rate of its own -> unlimited"]),
        ({"o*": 5, "or*": "unlimited"}, {"orders": 2}, ["leader topic orders unlimited -> 2 B/s"]),
        ({"o*": 5, "orders": "unlimited"}, {"o*": "unlimited"}, ["leader topic o* 5 B/s -> unlimited"]),
        ({"orders": "unlimited"}, {"o*": 5}, ["leader topic o* unlimited -> 5 B/s"]),
        ({}, {"orders": "unlimited"}, None),
        ({"o*": 5}, {"payments": "unlimited"}, None),
        ({"or*": 5}, {"o*": "unlimited"}, None),
    ],
)
def test_every_change_has_words(before: dict[str, object], changed: dict[str, object], told: list[str] | None) -> None:
    """Unless it is none that traffic meets (`told` is None)."""

    def quotas(rates: dict[str, object]) -> Quotas:
        said = {name: f'"{rate}"' if isinstance(rate, str) else rate for name, rate in rates.items()}
        file = "".join(f'[topics."{name}"]\n{RATE} = {rate}\n' for name, rate in said.items())
        return effective(parse_quotas(file.encode()), 101, NOON)

    old, new = quotas(before), quotas(before | changed)
    assert old.means_the_same_as(new) is (told is None)
    assert differences(old, new) == (told or [])
    assert bool(differences(new, old)) is (told is not None)


@pytest.mark.parametrize("of", ["peers.102", 'racks."eu-1b"'])
def test_an_unlimited_peer_or_rack_is_no_change(of: str) -> None:
    file = f'[{of}]\n{RATE} = "unlimited"\nuntil = {NOON + timedelta(hours=1)}\n'
    assert list(changes_ahead(parse_quotas(file.encode()), 101, NOON, moments=2)) == []


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(None, "-"), (0.0, "0s"), (90.0, "1m30s"), (99 * 86400.0, "99d00h"), (99 * 86400.0 + 1, "-"), (9e52, "-"),
     (float("inf"), "-"), (float("nan"), "-"), (-1.0, "-")],
)  # fmt: skip
def test_an_eta_has_room_in_its_column(seconds: float | None, told: str) -> None:
    assert format_eta(seconds) == told


@pytest.mark.parametrize(
    ("rate", "told"),
    [
        (None, "unlimited"),
        (float("inf"), "unlimited"),
        (0.0, "0 B/s"),
        (-0.2, "0 B/s"),
        (1023.4, "1023 B/s"),
        (1023.6, "1.00 KiB/s"),
        (9.996 * 2**20, "10.0 MiB/s"),
        (99.96 * 2**20, "100 MiB/s"),
        (1023.4 * 2**20, "1023 MiB/s"),
        (2.0**63, "8.00 EiB/s"),
        (1e300, "9999 EiB/s"),
    ],
)
def test_a_rate_has_room_in_its_column(rate: float | None, told: str) -> None:
    assert format_rate_in_brief(rate) == told
    assert len(told) <= 10


@pytest.mark.parametrize(
    ("count", "told"),
    [(0, "0"), (147_000, "147000"), (99_999_999, "99999999"), (100_000_000, "100.0M"), (2**63 - 1, "9.2E"),
     (999_999_999, "1000.0M")],
)  # fmt: skip
def test_a_count_has_room_in_its_column(count: int, told: str) -> None:
    assert format_count(count) == told


def test_times_have_an_offset() -> None:
    assert format_time(NOON.astimezone(timezone(timedelta(hours=2)))) == "2026-11-01 12:00:00 UTC"
    assert format_distance(NOON, NOON - timedelta(minutes=5)) == "in 5m00s"
    assert format_distance(NOON, NOON + timedelta(minutes=5)) == "5m00s ago"


@pytest.mark.parametrize("text", ["2026-11-01T12:00:00Z", "2026-11-01T13:00:00+01:00", "2026-11-01 12:00+00:00"])
def test_a_moment(text: str) -> None:
    assert parse_moment(text) == NOON


@pytest.mark.parametrize("text", ["", "now", "2026-11-01", "2026-11-01T12:00:00", "0001-01-01T00:00:00Z"])
def test_no_moment(text: str) -> None:
    with pytest.raises(InvalidValueError, match="expected a date and time with an offset"):
        parse_moment(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (0, "0s"),
        (12.4, "12s"),
        (59.6, "1m00s"),
        (185, "3m05s"),
        (7800, "2h10m"),
        (90000, "25h00m"),
        (172800, "2d00h"),
        (180000, "2d02h"),
    ],
)
def test_durations_are_short(seconds: float | None, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("0001-01-01T00:00:00+14:00", "0001-01-01 00:00:00+14:00"),
        ("9999-12-31T23:59:59-14:00", "9999-12-31 23:59:59-14:00"),
        ("9999-12-31T23:59:59+00:00", "9999-12-31 23:59:59 UTC"),
    ],
)
def test_a_date_that_a_sidecar_makes_up_is_told_as_it_is(said: str, told: str) -> None:
    """Or it would end the table of all sidecars."""
    moment = datetime.fromisoformat(said)
    assert format_time(moment) == told
    assert format_distance(moment, NOON)
