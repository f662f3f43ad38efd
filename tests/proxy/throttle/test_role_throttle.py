"""A role's lag, ETA and quota, as `status` shows them."""

from __future__ import annotations

import math

import pytest

from proxy.quotas import Quotas
from proxy.throttle.role_throttle import ReplicaCounts
from tests.proxy.conversation import MIB, Conversation, behind, quotas, throttle

KEY = ("t", 0)


def test_lag_is_the_sum_over_connections() -> None:
    shared = throttle()
    for offset in (999_000, 999_900):
        conversation = Conversation(shared, offsets={KEY: offset})
        conversation.meet()
    assert shared.lag_messages() == 1100


def test_replicas_are_counted_by_whether_they_are_behind() -> None:
    shared = throttle()
    links = [Conversation(shared, offsets={KEY: offset}) for offset in (999_000, 999_900, 1_000_000)]
    for link in links:
        link.meet()
    assert shared.replica_counts() == ReplicaCounts(in_sync=3, behind=0)  # not known to be behind until they ask again
    for link in links:
        link.ask()
    assert shared.replica_counts() == ReplicaCounts(in_sync=1, behind=2)


def test_eta_is_lag_over_what_it_shrinks_by() -> None:
    conversation = behind()
    for step in range(1, 300):
        conversation.now = step * 0.1
        conversation.answer(conversation.ask(), {KEY: 10_000})  # 10 messages each 100 ms
    lag = conversation.throttle.lag_messages()
    assert conversation.throttle.eta_seconds(conversation.now) == pytest.approx(lag / 100, rel=0.05)


def test_eta_is_unknown_while_the_lag_grows_and_0_without_any() -> None:
    conversation = behind()
    for step in range(1, 50):
        conversation.now = step * 0.1
        conversation.answer(conversation.ask(), {KEY: 10_000}, high_watermark=1_000_000 + 50 * step)
    assert conversation.throttle.eta_seconds(conversation.now) is None
    assert throttle().eta_seconds(0.0) == 0.0


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
