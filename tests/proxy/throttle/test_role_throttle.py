"""A role's quota in force."""

from __future__ import annotations

import math

import pytest

from proxy.quotas import Quotas
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
