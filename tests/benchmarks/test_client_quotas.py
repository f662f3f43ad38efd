from __future__ import annotations

from benchmarks.client_quotas import OWN, RATE, SIDECAR, figures, table
from lab.clients.quota_client import Flow, Outcome


def row(way: str, produced: float, retries: int = 0, case: str = "librdkafka") -> dict[str, object]:
    return {
        "case": case, "brokers": "4.1.0", "way": way, "produced": produced, "produced_worst_second": 1.25,
        "consumed_worst_second": 2.0, "throttle_ms": 80, "request_ms": 300, "disconnects": 0, "retries": retries,
        "rebalances": 0,
    }  # fmt: skip


def test_a_case_is_one_row_with_what_came_of_it_last_each_way() -> None:
    rows = [
        row(OWN, 1.9),
        row(SIDECAR, 5.0),
        row(SIDECAR, 1.01, retries=1),
        row(SIDECAR, 1.0, case="kafka-clients 3.9.1"),
    ]
    cells = "1.90, **1.01** | 1.25, **1.25** | 2.00, **2.00** | 80, **80** | 300, **300** | 0, **1**"
    assert table(rows).splitlines()[2:] == [f"| librdkafka, 4.1.0 | {cells} |"]


def test_the_figures_are_those_of_the_worst() -> None:
    slow = Flow(((0.0, RATE), (1.0, RATE), (2.0, RATE)), throttle_ms=10, latency_ms=90, closed=0, retries=())
    fast = Flow(
        ((0.0, RATE), (0.4, RATE), (1.0, RATE)),
        throttle_ms=80,
        latency_ms=20,
        closed=1,
        retries=("A", "B"),
    )
    found = figures(Outcome({"a": slow, "b": fast}, {"first": slow}, rebalances=1))
    assert found == {
        "produced": 1.5, "produced_worst_second": 2.0, "consumed_worst_second": 1.0, "throttle_ms": 80,
        "request_ms": 90, "disconnects": 1, "retries": 2, "rebalances": 1,
    }  # fmt: skip
