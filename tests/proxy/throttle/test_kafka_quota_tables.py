"""ReplicaManagerQuotasTest, re-expressed: which of two throttled partitions get records, by what the quota answers.

There the broker asks its quota per partition and leaves out records; here the request leaves out the partition. The
table is the same: (exceeded, replicas in sync) -> which of both are fetched. Consumers never come this far.
"""

from __future__ import annotations

import pytest

from admission.budget_path import BudgetPath
from proxy.config.settings import Policy
from proxy.throttle.decision import Forward, Hold
from tests.proxy.conversation import MIB, Conversation, throttle

BOTH = [("t", 0), ("t", 1)]


def follower(policy: Policy, *, in_sync: bool) -> Conversation:
    conversation = Conversation(throttle(policy=policy), offsets=dict.fromkeys(BOTH, 3))
    conversation.meet(high_watermark=3 if in_sync else 5)  # ReplicaManagerQuotasTest: high watermark 5, fetch offset 3
    return conversation


def spend(conversation: Conversation) -> None:
    """Exceed the quota for a second or two, as other connections' traffic does."""
    BudgetPath(conversation.throttle.budget).settle(reserved=0, used=8 * MIB, now=conversation.now)


@pytest.mark.parametrize("policy", list(Policy))
@pytest.mark.parametrize(
    ("exceeded", "in_sync", "fetched"),
    [
        (False, False, True),  # shouldGetBothMessagesIfQuotasAllow
        (True, False, False),  # shouldExcludeSubsequentThrottledPartitions / shouldGetNoMessagesIfQuotasExceeded...
        (True, True, True),  # shouldIncludeInSyncThrottledReplicas
        (False, True, True),
    ],
)
def test_what_is_fetched(policy: Policy, *, exceeded: bool, in_sync: bool, fetched: bool) -> None:
    conversation = follower(policy, in_sync=in_sync)
    if exceeded:
        spend(conversation)
    decision = conversation.ask()
    assert isinstance(decision, Forward if fetched else Hold)


def test_kip73_fetches_both_with_the_followers_own_limit() -> None:
    conversation = follower(Policy.KIP73, in_sync=False)
    assert conversation.asked_for(conversation.ask()) == dict.fromkeys(BOTH, MIB)


def test_in_sync_first_and_throttled_second() -> None:
    """shouldIncludeThrottledReplicasOnlyWhenInSync: one of each on one fetcher."""
    conversation = follower(Policy.KIP73, in_sync=False)
    conversation.link.replicas.known["t", 0].answered(high_watermark=3, log_start_offset=-1)
    spend(conversation)
    assert list(conversation.asked_for(conversation.ask())) == [("t", 0)]
