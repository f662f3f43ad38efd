"""A role's quota in force."""

from __future__ import annotations

import math

import pytest

from admission.fetcher import Fetcher
from proxy.quotas import Quotas, RoleQuota
from proxy.quotas.rate_source import RateSource
from proxy.throttle.role_throttle import AUTO_GATE_SECONDS
from tests.proxy.conversation import MIB, quotas, throttle


def test_no_list_means_nothing_to_do() -> None:
    subject = throttle()
    assert not subject.is_idle
    subject.apply(Quotas(), 0.0)
    assert subject.is_idle
    assert math.isinf(subject.quota.bytes_per_second)


@pytest.mark.parametrize(
    ("rate", "enforce", "shapes"), [(4 * MIB, True, True), (4 * MIB, False, False), (math.inf, True, False)]
)
def test_requests_are_shaped_only_under_a_quota_that_is_enforced(rate: float, *, enforce: bool, shapes: bool) -> None:
    subject = throttle()
    subject.apply(quotas(rate, enforce=enforce), 0.0)
    assert subject.shapes is shapes


def test_when_a_rate_was_lowered_is_known() -> None:
    subject = throttle(4 * MIB)
    assert subject.lowered_at == 0.0
    for now, rate in ((1.0, 8 * MIB), (2.0, 8 * MIB), (3.0, 2 * MIB), (4.0, 2 * MIB)):
        subject.apply(quotas(rate), now)
    assert subject.lowered_at == 3.0
    subject.change_rate(MIB, 5.0)
    subject.change_rate(3 * MIB, 6.0)
    assert subject.lowered_at == 5.0
    for now, enforce in ((7.0, False), (8.0, True), (9.0, True)):
        subject.apply(quotas(3 * MIB, enforce=enforce), now)
    assert subject.lowered_at == 8.0


def test_a_rate_with_auto_is_granted_in_small_portions() -> None:
    """acks=all records on the same connection wait for what catches up before them."""
    fixed, auto = RoleQuota(100.0 * MIB), RoleQuota(source=RateSource(400.0 * MIB, 100.0 * MIB, auto=True))
    subject, beside = throttle(), []
    claim = subject.budget.join(Fetcher())
    for now, quota in enumerate((fixed, auto, fixed), 1):
        subject.apply(Quotas(leader=quota), float(now))
        claim.fetcher.ask(now + 0.9)
        beside.append(subject.budget.room(claim, now + 0.9, beside_in_sync=True) / MIB)
    before, meanwhile, after = beside
    assert meanwhile == pytest.approx(100 * AUTO_GATE_SECONDS)
    assert min(before, after) >= 4.99
