"""Client budgets: the arithmetic of both policies, annotated; and that the rate is kept, whatever clients do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.simple_rate import Rate
from proxy.clients.budgets import ByDebt, ByRate, ClientBudget, client_budget
from proxy.config.settings import Policy
from tests.proxy.conversation import settings

RATE = 1000.0
POLICIES = list(Policy)


def strict(rate: float = RATE) -> ByDebt:
    return ByDebt(rate, burst_seconds=0.25, now=0.0)


def kip73(rate: float = RATE) -> ByRate:
    return ByRate(rate, samples=11, sample_seconds=1.0)


def test_strict_is_throttled_until_the_debt_is_paid() -> None:
    budget = strict()  # a burst of 250 B
    budget.charge(250, 0.0)
    assert budget.throttle_seconds(0.0) == 0
    budget.charge(500, 0.0)  # 500 B of debt at 1000 B/s
    assert budget.throttle_seconds(0.0) == pytest.approx(0.5)
    assert budget.throttle_seconds(0.2) == pytest.approx(0.3)
    assert budget.throttle_seconds(0.2, more=100) == pytest.approx(0.4)
    assert budget.throttle_seconds(0.2) == pytest.approx(0.3)  # nothing was charged
    assert budget.throttle_seconds(0.5) == pytest.approx(0)


def test_strict_holds_no_more_than_a_burst() -> None:
    budget = strict()
    budget.charge(1000, 100.0)
    assert budget.throttle_seconds(100.0) == pytest.approx(0.75)


def test_strict_keeps_its_debt_when_the_rate_changes() -> None:
    budget = strict()
    budget.charge(1250, 0.0)  # 1000 B of debt
    budget.change_rate(10_000.0, 0.0)
    assert budget.throttle_seconds(0.0) == pytest.approx(0.1)


@pytest.mark.parametrize("budget", [strict(), kip73()], ids=["strict", "kip73"])
def test_a_budget_that_begins_with_debt_is_throttled_for_so_long(budget: ClientBudget) -> None:
    budget.begin_with_debt(7.0, 100.0)
    assert budget.throttle_seconds(100.0) == pytest.approx(7.0, abs=0.01)
    assert budget.throttle_seconds(100.5) == pytest.approx(6.5, abs=0.01)


def test_kip73_is_kafkas_arithmetic() -> None:
    budget = kip73()
    budget.charge(10_000, 0.0)  # over ten full samples: 1000 B/s, which is not over it
    assert budget.throttle_seconds(0.0) == 0
    budget.charge(2000, 0.0)
    # (O - T) / T * W = (1200 - 1000) / 1000 * 10 s
    assert budget.throttle_seconds(0.0) == pytest.approx(2.0)
    # W is ten seconds and the part of the last sample: (12000 / 10.5 - 1000) / 1000 * 10.5
    assert budget.throttle_seconds(0.5) == pytest.approx(1.5)
    assert budget.throttle_seconds(0.5, more=1000) == pytest.approx(2.5)


@pytest.mark.parametrize(
    ("elapsed", "window"),
    [(0.0, 10.0), (0.5, 10.5), (1.0, 10.0), (1.5, 10.5), (9.9, 10.9), (10.0, 10.0), (10.5, 10.5), (10.9, 10.9)],
)
def test_the_window_of_kafkas_rate(elapsed: float, window: float) -> None:
    """`Rate.windowSize`: all samples but one, and the elapsed part of the last."""
    rate = Rate()
    rate.record(0, 0.0)
    rate.record(1000, elapsed)
    assert rate.measure(elapsed) == pytest.approx(1000 / window)


@pytest.mark.parametrize(("rate", "most"), [(100.0, 1000), (2e5, 2**20), (5e6, 5_000_000)])
def test_a_response_brings_a_second_of_the_quota_and_at_least_a_partitions_default(rate: float, most: int) -> None:
    assert strict(rate).largest_response_bytes == most


def test_kip73_lets_a_response_bring_what_a_broker_does() -> None:
    assert kip73(5e6).largest_response_bytes == 50_000_000


@given(
    policy=st.sampled_from(POLICIES),
    sizes=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5000)), min_size=1, max_size=60),
)
def test_connections_that_wait_keep_the_rate(policy: Policy, sizes: list[tuple[int, int]]) -> None:
    """Each of four connections sends as soon as its throttle time is over: over any span, no more passes than the
    quota, a burst, and what each connection sent last."""
    budget: ClientBudget = client_budget(settings(policy), RATE, 0.0)
    free_at, sent = [0.0] * 4, list[tuple[float, int, int]]()
    for connection, size in sizes:
        now = max(free_at[connection], sent[-1][0] if sent else 0.0)
        budget.charge(size, now)
        free_at[connection] = now + budget.throttle_seconds(now)
        sent.append((now, connection, size))
    burst = RATE * (0.25 if policy is Policy.STRICT else 11)
    for first, (began, _, _) in enumerate(sent):
        total = 0
        for ended, _, size in sent[first:]:
            total += size
            last = {each: bytes_ for at, each, bytes_ in sent[first:] if at <= ended}
            assert total <= RATE * (ended - began) + burst + sum(last.values()) + 1
