"""What a response settles: each grant once, every byte by the role's own count."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from protocol.work_in_steps import run_through
from proxy.ledger.ledger import Ledger
from proxy.roles import Role
from proxy.throttle.decision import Forward
from proxy.throttle.link import Link
from tests.proxy.conversation import ENTRY_BYTES, MIB, Conversation, behind, quotas, response_entry

if TYPE_CHECKING:
    from proxy.throttle.pending_fetch import PendingFetch

KEY = ("t", 0)


def granted(conversation: Conversation) -> PendingFetch:
    decision = conversation.ask()
    assert isinstance(decision, Forward)
    assert decision.pending is not None
    return decision.pending


def tell(pending: PendingFetch, record_bytes: int = 0, *, error: int = 0) -> None:
    entry = response_entry(*KEY, record_bytes, error=error, high_watermark=2_000_000, log_start=3)
    pending.forwards([entry], b"", 0, 0.0)


@pytest.mark.parametrize(("role", "counted"), [(Role.LEADER, 5000 + ENTRY_BYTES), (Role.FOLLOWER, 5000)])
def test_bytes_are_counted_as_kafka_counts_them(role: Role, counted: int) -> None:
    conversation = behind(role=role)
    tell(granted(conversation), 5000)
    assert conversation.throttle.statistics.throttled_bytes_catching_up == counted
    assert conversation.throttle.rate.measure(1.0) == counted


@pytest.mark.parametrize("record_bytes", [0, -1])
def test_answers_without_records_are_not_counted(record_bytes: int) -> None:
    conversation = behind()
    tell(granted(conversation), record_bytes)
    assert conversation.throttle.statistics.throttled_bytes_catching_up == 0


def test_a_response_teaches_what_is_replayed_later() -> None:
    conversation = behind(partitions=2)
    tell(granted(conversation))
    replica = conversation.link.replicas.known[KEY]
    assert (replica.high_watermark, replica.log_start_offset, replica.replayable) == (2_000_000, 3, True)


def test_an_entry_with_an_error_teaches_to_forget_and_is_not_counted() -> None:
    conversation = behind()
    tell(granted(conversation), 5000, error=6)
    assert not conversation.link.replicas.known[KEY].replayable
    assert conversation.throttle.statistics.throttled_bytes_catching_up == 0


def test_an_entry_that_is_not_throttled_is_left_alone() -> None:
    conversation = behind()
    granted(conversation).forwards([response_entry("other", 0, 5000)], b"", 0, 0.0)
    assert conversation.throttle.statistics.throttled_bytes_catching_up == 0


def test_the_first_batch_of_one_that_is_behind_tells_what_a_grant_is_worth() -> None:
    conversation = behind()
    records = bytes(8) + (900_000 - 12).to_bytes(4)
    entry = response_entry(*KEY, len(records))
    granted(conversation).forwards([entry], bytes(ENTRY_BYTES) + records, ENTRY_BYTES + len(records), 0.0)
    assert conversation.link.replicas.known[KEY].batches.seen == 900_000


def test_records_that_end_where_their_grant_does_tell_of_the_batch_that_was_cut() -> None:
    """And what batches of the topic's other partitions are like. Of many small batches it makes no difference."""
    conversation = behind(partitions=2)
    pending, batch = granted(conversation), bytes(8) + (100_000 - 12).to_bytes(4) + bytes(100_000 - 12)
    size = pending.grants[KEY]
    entry = response_entry(*KEY, size)
    assert pending.watch(entry) is not None
    records = (batch * 11)[:size]
    pending.forwards([entry], bytes(ENTRY_BYTES) + records, ENTRY_BYTES + size, 0.0)
    replicas = conversation.link.replicas
    run_through(replicas.asked_more((), (), 0.0))
    one, other = (replicas.known["t", partition].batches for partition in range(2))
    assert (one.next, other.next, other.largest) == (100_000, 0, 100_000)


def test_where_batches_are_small_beside_a_grant_nobody_looks_where_they_end() -> None:
    conversation = behind()
    pending = granted(conversation)
    size = pending.grants[KEY]
    conversation.link.replicas.known[KEY].saw_batch(size // 50)
    assert pending.watch(response_entry(*KEY, size)) is None


def test_only_records_of_one_that_is_behind_are_withheld() -> None:
    conversation = behind()
    pending = granted(conversation)
    assert not pending.must_discard(0.0)
    assert not pending.withholds(response_entry(*KEY, 700))
    conversation.throttle.apply(quotas(0.01 * MIB), 1.0)
    conversation.throttle.account(pending.path, 1.0, 0, 0, reserved=0, granted=0, ungranted=MIB, observed=0)
    assert pending.must_discard(1.0)
    assert pending.withholds(response_entry(*KEY, 700))
    assert not pending.withholds(response_entry(*KEY, 700, error=6))
    assert not pending.withholds(response_entry(*KEY, 0))
    assert not pending.withholds(response_entry("other", 0, 700))


def test_what_is_withheld_stays_so_although_the_follower_asks_for_more_meanwhile() -> None:
    """One that does not wait for its answers, and has caught up by another way. What had been taken from the answer
    counted as brought."""
    conversation = behind()
    pending = granted(conversation)
    conversation.throttle.apply(quotas(0.01 * MIB), 1.0)
    conversation.throttle.account(pending.path, 1.0, 0, 0, reserved=0, granted=0, ungranted=MIB, observed=0)
    assert pending.must_discard(1.0)
    conversation.offsets[KEY] = 10_000_000
    conversation.ask()
    assert pending.withholds(response_entry(*KEY, 700))


def test_discarded_records_are_counted_apart_and_their_entry_still_teaches() -> None:
    conversation = behind()
    pending = granted(conversation)
    pending.confirms = frozenset({KEY})
    pending.forwards([response_entry(*KEY, 700, high_watermark=9, log_start=1)], b"", 0, 0.0)
    statistics = conversation.throttle.statistics
    assert (statistics.substituted_partitions, statistics.withheld_bytes) == (1, 700)
    assert statistics.throttled_bytes_catching_up == 0
    assert conversation.link.replicas.known[KEY].high_watermark == 9


def test_finishing_twice_gives_back_once() -> None:
    conversation = behind()
    pending = granted(conversation)
    pending.finish(0.0)
    pending.finish(0.0)
    assert conversation.asked_for(conversation.ask())[KEY] <= 0.4 * MIB + 1


@pytest.mark.parametrize("journal", [False, True])
def test_a_follower_that_does_not_wait_for_its_answers(*, journal: bool) -> None:
    """Its next request, without one of the partitions, is decided before the answer that brings records of that one."""
    conversation = behind(partitions=2)
    if journal:
        conversation.throttle.ledger = Ledger(0.0)
        conversation.link = Link(conversation.throttle, "peer")
        conversation.meet()
    decision = conversation.ask()
    assert isinstance(decision, Forward)
    first = decision.pending
    assert first is not None
    conversation.offsets = {("t", 1): 0}
    conversation.ask()
    first.confirms = frozenset({KEY, ("t", 1)})
    for key in (KEY, ("t", 1)):
        assert first.withholds(response_entry(*key, 700))
        first.forwards([response_entry(*key, 700, high_watermark=2_000_000)], b"", 0, 0.0)
    first.finish(0.0)
    assert conversation.throttle.statistics.withheld_bytes == 1400
    known = conversation.link.replicas.known
    assert {key: replica.high_watermark for key, replica in known.items()} == {("t", 1): 2_000_000}
