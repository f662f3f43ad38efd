"""docs/quotas.md and examples/quotas.toml: what is shown there is taken as it is told."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from proxy.quotas import advise, changes_ahead, effective, parse_quotas

ROOT = Path(__file__).parents[3]
SHOWN = re.findall(r"^```toml\n(.*?)^```", (ROOT / "docs" / "quotas.md").read_text(), re.DOTALL | re.MULTILINE)
RATES = {"day": 50 * 2**20, "night": 200 * 2**20}


@pytest.mark.parametrize(
    ("at", "leader", "enforce"),
    [
        ("2026-11-23T20:59:59+00:00", "day", False),  # a Monday, 21:59:59 in Berlin
        ("2026-11-23T21:00:00+00:00", "night", False),
        ("2026-11-28T04:59:59+00:00", "night", False),  # Saturday morning: the night began on Friday
        ("2026-11-28T21:00:00+00:00", "day", False),
        ("2026-12-01T06:00:00+00:00", "day", True),
    ],
)
def test_the_document_says_what_holds(at: str, leader: str, *, enforce: bool) -> None:
    (shown,) = (example for example in SHOWN if "[[schedules]]" in example)
    quotas = effective(parse_quotas(shown.encode()), 101, datetime.fromisoformat(at))
    assert (quotas.leader.bytes_per_second, quotas.enforce) == (RATES[leader], enforce)


@pytest.mark.parametrize("shown", SHOWN)
def test_what_the_document_shows_can_be_read(shown: str) -> None:
    assert parse_quotas(shown.encode()).sections()


def test_the_example_is_good_and_has_a_night() -> None:
    quota_file = parse_quotas((ROOT / "examples" / "quotas.toml").read_bytes())
    now = datetime(2026, 11, 23, 12, tzinfo=UTC)
    assert effective(quota_file, 103, now).leader.bytes_per_second == RATES["day"]
    change = next(changes_ahead(quota_file, 103, now))
    assert (change.at, change.after.leader.bytes_per_second) == (datetime(2026, 11, 23, 21, tzinfo=UTC), RATES["night"])
    assert advise(quota_file, 101, now) == [
        (
            "schedules[0].brokers.default.leader.replication.throttled.rate: brokers.101 has a rate of its own, which "
            "goes first: changes nothing here (it would in [schedules.brokers.101])"
        )
    ]
