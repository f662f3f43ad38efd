"""What clients say of themselves, and when that is an outcome."""

from __future__ import annotations

import pytest

from lab.clients.quota_client import Outcome, QuotaClient, outcome_of
from lab.errors import LabError

CLIENT = QuotaClient(None, codecs=("gzip",), records=1)
GOOD = """\
acked a-gzip 1000 100
acked a-gzip 1500 100
acked a-gzip 3000 300
committed a-gzip 1600 x1
aborted a-gzip 1700 x2
committed a-gzip 3100 x3
retried a-gzip 2900 CONCURRENT_TRANSACTIONS
metrics a-gzip 80 5 300 0
assigned a-first 4000 1
read a-first 4100 100 x1
assigned a-first 4200 0
assigned a-second 4200 1
read a-second 5100 100 x3
metrics a-first 70 5 200 0
metrics a-second 0 5 200 0
"""


def outcome(said: str) -> Outcome:
    return outcome_of(CLIENT, [line.split() for line in said.splitlines()])


def test_an_outcome_is_of_each_client_id() -> None:
    found = outcome(GOOD)
    assert list(found.producers) == ["a-gzip"]
    assert list(found.members) == ["a-first", "a-second"]
    assert found.rebalances == 0
    flow = found.producers["a-gzip"]
    assert (flow.throttle_ms, flow.latency_ms, flow.closed) == (80, 300, 0)
    assert flow.retries == ("CONCURRENT_TRANSACTIONS",)
    assert found.members["a-first"].retries == ()
    assert flow.bytes_per_second == 400 / 2
    assert flow.worst_bytes(1) == 300
    assert flow._replace(carried=flow.carried[:1] * 2).bytes_per_second == 0.0, "in the same millisecond"
    assert flow._replace(carried=()).bytes_per_second == 0.0


@pytest.mark.parametrize(
    ("replaced", "by"),
    [
        ("read a-second 5100 100 x3\n", ""),  # lost
        ("read a-second 5100 100 x3\n", "read a-second 5100 100 x3\nread a-first 5200 100 x3\n"),  # twice
        ("read a-second 5100 100 x3\n", "read a-second 5100 100 x2\n"),  # of the aborted
        ("acked a-gzip 1500 100\n", "failed a-gzip 1500 timeout\n"),
        ("assigned a-second 4200 1\n", "lost a-second 4200\n"),
    ],
)
def test_what_was_lost_or_failed_is_no_outcome(replaced: str, by: str) -> None:
    with pytest.raises(LabError, match="librdkafka"):
        outcome(GOOD.replace(replaced, by))


def test_a_rebalance_after_the_second_joined_is_counted() -> None:
    again = "assigned a-first 4300 1\n"
    assert outcome(GOOD.replace("read a-second", again * 2 + "read a-second")).rebalances == 1
