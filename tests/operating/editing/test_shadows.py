from __future__ import annotations

from datetime import UTC, datetime

import pytest

from operating.editing.editing import Assign
from operating.editing.facts import Place
from operating.editing.shadows import shadow_of
from proxy.quotas import parse_quotas

RATE = "leader.replication.throttled.rate"
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (f"[brokers.101]\n{RATE} = 5\n", None),
        (f"[brokers.101]\n{RATE} = 5\nuntil = 2020-01-01T00:00:00Z\n",
         "brokers.101 has ended, so nothing sets this value"),
        (f"[brokers.101]\n{RATE} = 5\n[[schedules]]\ndays = ['mon-sun']\n[schedules.brokers.101]\n{RATE} = 7\n",
         "schedules[0].brokers.101 goes first on broker 101, and says 7 B/s"),
        # Told in UTC, wherever the operator is who wrote it.
        ((f"[brokers.101]\n{RATE} = 5\n[[schedules]]\nuntil = 2027-12-01T06:00:00+05:00\n"
          f"[schedules.brokers.101]\n{RATE} = 7\n"),
         "schedules[0].brokers.101 goes first on broker 101 until 2027-12-01T01:00:00Z, and says 7 B/s"),
    ],
)  # fmt: skip
def test_what_goes_before_a_value_is_told(content: str, said: str | None) -> None:
    place = Place(("brokers", "101"), RATE)
    found = shadow_of(parse_quotas(content.encode()), place, Assign(5), (101, 101), NOW)
    assert (None if found is None else str(found)) == said
