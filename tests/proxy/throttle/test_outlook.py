"""What a response settles: each grant once, every byte by the role's own count."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy.roles import Role
from proxy.throttle.link import Forward
from tests.proxy.conversation import ENTRY_BYTES, MIB, Conversation, behind

if TYPE_CHECKING:
    from proxy.throttle.outlook import Outlook

KEY = ("t", 0)


def granted(conversation: Conversation) -> Outlook:
    decision = conversation.ask()
    assert isinstance(decision, Forward)
    assert decision.outlook is not None
    return decision.outlook


def learn(outlook: Outlook, *, error: int = 0, high_watermark: int = 2_000_000) -> bool:
    found = outlook.entry(KEY, error=error, high_watermark=high_watermark, log_start_offset=3, now=0.0)
    return found is not None


@pytest.mark.parametrize(("role", "counted"), [(Role.LEADER, 5000 + ENTRY_BYTES), (Role.FOLLOWER, 5000)])
def test_bytes_are_counted_as_kafka_counts_them(role: Role, counted: int) -> None:
    conversation = behind(role=role)
    outlook = granted(conversation)
    learn(outlook)
    outlook.forwarded(KEY, outlook.watched[KEY], entry_bytes=ENTRY_BYTES, record_bytes=5000, now=0.0)
    assert conversation.throttle.statistics.throttled_bytes_catching_up == counted
    assert conversation.throttle.rate.measure(1.0) == counted


def test_answers_without_records_are_not_counted() -> None:
    conversation = behind()
    outlook = granted(conversation)
    learn(outlook)
    outlook.forwarded(KEY, outlook.watched[KEY], entry_bytes=ENTRY_BYTES, record_bytes=0, now=0.0)
    assert conversation.throttle.statistics.throttled_bytes_catching_up == 0


def test_a_response_teaches_what_is_replayed_later() -> None:
    outlook = granted(behind(partitions=2))
    assert learn(outlook)
    replica = outlook.watched[KEY]
    assert (replica.high_watermark, replica.log_start_offset, replica.replayable) == (2_000_000, 3, True)


def test_an_entry_with_an_error_teaches_to_forget_and_is_nobodys() -> None:
    outlook = granted(behind())
    assert not learn(outlook, error=6)
    assert not outlook.watched[KEY].replayable


def test_an_entry_that_nobody_watches_is_left_alone() -> None:
    outlook = granted(behind())
    assert outlook.entry(("other", 0), error=0, high_watermark=1, log_start_offset=0, now=0.0) is None


def test_discarded_records_are_counted_apart_and_their_entry_still_teaches() -> None:
    conversation = behind()
    outlook = granted(conversation)
    outlook.discarded(KEY, high_watermark=9, log_start_offset=1, record_bytes=700)
    statistics = conversation.throttle.statistics
    assert (statistics.substituted_partitions, statistics.withheld_bytes) == (1, 700)
    assert statistics.throttled_bytes_catching_up == 0
    assert outlook.watched[KEY].high_watermark == 9


def test_finishing_twice_gives_back_once() -> None:
    conversation = behind()
    outlook = granted(conversation)
    outlook.finish(0.0)
    outlook.finish(0.0)
    assert conversation.asked_for(conversation.ask())[KEY] <= 0.4 * MIB + 1
