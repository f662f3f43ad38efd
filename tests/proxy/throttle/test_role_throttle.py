"""A role's lag, ETA and quota, as `status` shows them."""

from __future__ import annotations

import math

import pytest

from proxy.quotas import Quotas
from proxy.throttle.replicas import COUNTED_SECONDS
from proxy.throttle.role_throttle import LONGEST_ETA_SECONDS, ReplicaCounts, eta_seconds
from tests.proxy.conversation import MIB, Conversation, behind, quotas, throttle

KEY = ("t", 0)


def test_lag_is_the_sum_over_connections() -> None:
    shared = throttle()
    for offset in (999_000, 999_900):
        conversation = Conversation(shared, offsets={KEY: offset})
        conversation.meet()
    assert shared.lag_messages(0.0) == 1100


def test_replicas_are_counted_by_whether_they_are_behind() -> None:
    shared = throttle()
    links = [Conversation(shared, offsets={KEY: offset}) for offset in (999_000, 999_900, 1_000_000)]
    for link in links:
        link.meet()
    assert shared.replica_counts(0.0) == ReplicaCounts(in_sync=3, behind=0)  # known by the next request
    for link in links:
        link.ask()
    assert shared.replica_counts(0.0) == ReplicaCounts(in_sync=1, behind=2)


def test_eta_is_lag_over_what_it_shrinks_by() -> None:
    conversation = behind()
    for step in range(1, 300):
        conversation.now = step * 0.1
        conversation.answer(conversation.ask(), {KEY: 10_000})  # 10 messages each 100 ms
    lag = conversation.throttle.lag_messages(conversation.now)
    assert conversation.throttle.eta_seconds(conversation.now) == pytest.approx(lag / 100, rel=0.05)


def test_eta_is_unknown_while_the_lag_grows_and_0_without_any() -> None:
    conversation = behind()
    for step in range(1, 50):
        conversation.now = step * 0.1
        conversation.answer(conversation.ask(), {KEY: 10_000}, high_watermark=1_000_000 + 50 * step)
    assert conversation.throttle.eta_seconds(conversation.now) is None
    assert throttle().eta_seconds(0.0) == 0.0


def test_what_nobody_asks_for_any_more_counts_no_longer() -> None:
    """A reassignment was cancelled: its follower sends nothing more on this connection, which stays open."""
    conversation = behind(2)
    conversation.ask()
    subject, last = conversation.throttle, conversation.now
    assert subject.lag_messages(last + COUNTED_SECONDS - 1) == 2_000_000
    assert subject.lag_messages(last + COUNTED_SECONDS) == 0
    assert subject.replica_counts(last + COUNTED_SECONDS) == ReplicaCounts(in_sync=0, behind=0)
    assert subject.eta_seconds(last + COUNTED_SECONDS) == 0.0
    conversation.now = last + COUNTED_SECONDS + 1
    conversation.ask()
    assert subject.lag_messages(conversation.now) == 2_000_000


def test_one_that_is_missing_from_requests_counts_by_when_it_was_asked_for() -> None:
    conversation = behind(2)
    conversation.now = 20.0
    conversation.ask()
    del conversation.offsets["t", 1]
    conversation.now = 25.0
    conversation.ask()
    assert conversation.throttle.lag_messages(25.0) == 2_000_000
    assert conversation.throttle.lag_messages(20.0 + COUNTED_SECONDS) == 1_000_000
    assert conversation.throttle.lag_messages(25.0 + COUNTED_SECONDS) == 0


def test_the_eta_of_what_has_stopped_is_unknown_instead_of_growing() -> None:
    """147 000 messages behind, and the last of them long ago: the gain of a while ago, fading, made 9e52 s of it."""
    conversation = behind()
    for step in range(1, 50):
        conversation.now = step * 0.1
        conversation.answer(conversation.ask(), {KEY: 10_000})
    stopped = conversation.now
    seen = [conversation.throttle.eta_seconds(stopped + waited) for waited in (0, 5, 30)]
    assert seen[0] is not None
    assert seen[1] is not None
    assert seen[2] == 0.0  # nobody asks for it any more
    while conversation.now < stopped + 60:  # it is asked for, and nothing comes
        conversation.now += 1.0
        conversation.answer(conversation.ask())
    assert conversation.throttle.eta_seconds(conversation.now) is None


@pytest.mark.parametrize(
    ("lag", "gain", "eta"),
    [
        (0, 0.0, 0.0),
        (0, -1.0, 0.0),
        (5, 0.0, None),
        (5, -1.0, None),
        (100, 4.0, 25.0),
        (2**63, 1e-300, None),
        (99 * 86400, 1.0, None),
        (99 * 86400 - 1, 1.0, LONGEST_ETA_SECONDS - 1),
    ],
)
def test_an_eta_is_never_longer_than_99_days(lag: int, gain: float, eta: float | None) -> None:
    assert eta_seconds(lag, gain) == eta


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
