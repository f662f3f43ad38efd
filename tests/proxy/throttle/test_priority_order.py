"""Which replicas of one connection go first, in conversations, and what the others are owed."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from protocol.fetch.walker import RequestEntry
from protocol.metadata import ReplicaCount
from proxy.config.settings import Policy
from proxy.quotas import Quotas, RoleQuota
from proxy.quotas.finer_rates import FinerRates
from proxy.quotas.replicas import EVERY_PARTITION
from proxy.roles import Role
from proxy.throttle.decision import Answer, Hold
from proxy.throttle.priority_order import PriorityOrder
from proxy.throttle.replica import Replica
from proxy.throttle.request_builder import FIRST_CONTACT_BYTES
from tests.proxy.conversation import MIB, Conversation, throttle

if TYPE_CHECKING:
    from collections.abc import Mapping

NEED = {"dying": {0: ReplicaCount(3, 1)}, "short": {0: ReplicaCount(3, 2)}, "moved": {0: ReplicaCount(3, 3)}}


def conversation(
    rate: float = 4 * MIB,
    *,
    topics: tuple[str, ...] = tuple(NEED),
    policy: Policy = Policy.STRICT,
    of_topics: Mapping[str, float] | None = None,
) -> Conversation:
    subject = throttle(rate, role=Role.LEADER, policy=policy)
    quota = RoleQuota(rate, otherwise=EVERY_PARTITION, finer=FinerRates(topics=of_topics or {}))
    subject.apply(Quotas(leader=quota), 0.0)
    subject.urgency.look(NEED)
    subject.urgency.learn(NEED, NEED, 0.0)
    found = Conversation(subject)
    found.offsets = {(topic, 0): 0 for topic in topics}
    found.meet()
    return found


def rounds(subject: Conversation, count: int) -> dict[str, int]:
    """Everything that is granted comes; so many bytes each gets."""
    got = dict.fromkeys((topic for topic, _ in subject.offsets), 0)
    for _ in range(count):
        decision = subject.ask()
        while isinstance(decision, Hold):
            subject.now = decision.until
            decision = subject.decide()
        if isinstance(decision, Answer):
            continue
        asked = {key: size for key, size in subject.asked_for(decision).items() if size > FIRST_CONTACT_BYTES}
        for (topic, _), size in asked.items():
            got[topic] += size
        subject.answer(decision, asked)
        subject.now += 0.001
    return got


def test_what_is_in_greatest_need_is_asked_for_alone() -> None:
    assert list(conversation().asked_for(conversation().ask())) == [("dying", 0)]
    assert list(conversation().asked_for(conversation(topics=("moved", "short")).ask())) == [("short", 0)]


def test_each_class_has_a_share_and_the_first_has_nearly_all() -> None:
    got = rounds(conversation(), 400)
    total = sum(got.values())
    assert 0.93 <= got["dying"] / total <= 0.96
    assert 0.04 <= got["short"] / total <= 0.06
    assert 0.001 <= got["moved"] / total <= 0.01


def test_what_the_first_cannot_use_goes_to_the_others() -> None:
    subject = conversation(40 * MIB)
    subject.now = 1.0  # the bucket is full: 10 MiB, of which one limit is the first's
    assert subject.asked_for(subject.ask()) == {("dying", 0): MIB, ("short", 0): MIB, ("moved", 0): MIB}


def test_without_a_quota_all_have_everything() -> None:
    subject = conversation(math.inf)
    assert set(subject.asked_for(subject.ask()).values()) == {MIB}


def test_a_class_is_owed_nothing_for_what_it_was_granted_as_the_first() -> None:
    subject = conversation(topics=("short", "moved"))
    rounds(subject, 40)
    subject.offsets = {("dying", 0): 0, ("short", 0): subject.offsets["short", 0]}
    subject.meet()
    subject.now += 1.0
    assert list(subject.asked_for(subject.ask())) == [("dying", 0)]


@pytest.mark.parametrize("policy", Policy)
@pytest.mark.parametrize("rate", [0.0, 0.1 * MIB])
def test_what_the_topic_in_greatest_need_may_not_have_the_others_have(rate: float, policy: Policy) -> None:
    """While its rate was used up nothing else was asked for until the bucket was full: half of the quota was lost."""
    subject = conversation(of_topics={"dying": rate}, policy=policy)
    got = rounds(subject, 400)
    assert got["dying"] <= (rate + 0.1 * MIB) * subject.now
    assert sum(got.values()) >= 0.95 * 4 * MIB * subject.now


def test_a_replica_whose_topic_has_no_room_does_not_stand_for_its_class() -> None:
    """It stays the one served longest ago, and nothing of what its class was owed was granted."""
    subject = conversation(topics=("dying", "stopped", "moved"), of_topics={"stopped": 0.0})
    got = rounds(subject, 400)
    assert got["stopped"] == 0
    assert 0.04 <= got["moved"] / sum(got.values()) <= 0.06


@pytest.mark.parametrize("batch_bytes", [16_384, 9 * MIB])
def test_a_class_is_owed_what_its_next_batch_takes_however_large(batch_bytes: int) -> None:
    """With fetches of 10 MiB (replica.fetch.max.bytes) and batches of more than `MAX_DEFICIT_BYTES`."""
    urgency, order = conversation().throttle.urgency, PriorityOrder()
    first, other = (Replica(RequestEntry(topic, 0, -1, 0, 10 * MIB, 0, 0), 0.0) for topic in ("dying", "moved"))
    other.saw_batch(batch_bytes)
    got = 0
    for _ in range(2000):
        ordered = order.order([other, first], urgency, has_spare=False, shut=frozenset())
        granted = {key: wish.limit_bytes for key, wish in zip(ordered.keys, ordered.wishes, strict=True)}
        granted[first.key] = MIB
        got += granted.get(other.key, 0)
        order.granted(granted)
    assert 0.04 <= got / (got + 2000 * MIB) <= 0.06


def test_once_nothing_is_in_need_all_are_alike() -> None:
    subject = conversation()
    rounds(subject, 3)
    assert subject.link.claim.path.fetcher.priority == 2
    subject.throttle.urgency.look([])
    got = rounds(subject, 300)
    assert subject.link.claim.path.fetcher.priority == 0
    assert min(got.values()) >= 0.9 * max(got.values())


def test_a_connection_that_ends_leaves_no_urgency_behind() -> None:
    subject = conversation()
    rounds(subject, 1)
    shares = subject.throttle.budget.shares
    assert shares.has_priorities
    subject.link.close()
    assert not shares.has_priorities
