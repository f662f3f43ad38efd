"""Whose turn it is among the replicas of one connection: who had least lately goes first."""

from __future__ import annotations

import pytest

from proxy.throttle.decision import Forward
from proxy.throttle.replicas import ABSENCE_SECONDS
from proxy.throttle.service_order import SERVED
from tests.proxy.conversation import LIMIT, MIB, behind

T0, T1, T2 = ("t", 0), ("t", 1), ("t", 2)
GATE = 4 * MIB // 10


def test_partitions_take_turns() -> None:
    conversation = behind(partitions=3)
    asked = []
    for _ in range(6):
        decision = conversation.ask()
        asked += list(conversation.asked_for(decision))
        conversation.answer(decision, {asked[-1]: GATE})
        conversation.now += 0.11
    assert asked == [T0, T1, T2, T0, T1, T2]


@pytest.mark.parametrize("batch_bytes", [0, 60_000])
@pytest.mark.parametrize("partitions", [2, 3, 4, 5, 6, 11])
@pytest.mark.parametrize("room", [0.4, 1.2, 1.9, 2.1, 3.0, 3.5])
def test_what_had_less_than_others_of_one_fetch_goes_before_them_in_the_next(
    partitions: int, room: float, batch_bytes: int
) -> None:
    """With room for 2.1 of three partitions in each fetch, one of them had 0.1 every time, and the others 1. With room
    for 1.2 of eleven every other one had 0.2."""
    conversation = behind(partitions=partitions, bytes_per_second=10 * room * MIB)
    for replica in conversation.link.replicas.known.values():
        replica.saw_batch(batch_bytes)  # grants end where batches do, below what is asked for
    had = dict.fromkeys(conversation.offsets, 0)
    for _ in range(30 * partitions):
        decision = conversation.ask()
        asked = conversation.asked_for(decision)
        conversation.answer(decision, asked)
        for key, size in asked.items():
            had[key] += size
        conversation.now += 0.102
    assert min(had.values()) >= 0.8 * max(had.values()), had


def test_a_fetch_in_which_each_had_all_leaves_the_order_as_it_was() -> None:
    """By turns there is room for all three partitions, and for 2.25 of them: whoever came last the one time comes first
    the next, whatever was in between."""
    conversation = behind(partitions=3, bytes_per_second=21 * MIB)
    scarce = dict.fromkeys((T0, T1, T2), 0)
    for _ in range(30):
        conversation.now += 1.0
        decision = conversation.ask()
        assert conversation.asked_for(decision) == dict.fromkeys((T0, T1, T2), LIMIT)
        conversation.answer(decision, conversation.asked_for(decision))
        conversation.now += 0.001
        decision = conversation.ask()
        asked = conversation.asked_for(decision)
        assert sum(asked.values()) < 3 * LIMIT
        conversation.answer(decision, asked)
        for key, size in asked.items():
            scarce[key] += size
    assert min(scarce.values()) >= 0.9 * max(scarce.values()), scarce


def test_of_those_that_were_granted_all_the_ones_that_were_brought_nothing_go_before_the_others() -> None:
    """A leader's answer ends at replica.fetch.response.max.bytes, wherever in the request that is."""
    conversation = behind(partitions=3, bytes_per_second=40 * MIB)
    firsts = []
    for brought in ((T0, T1), (T2, T0)):
        conversation.now += 1.0
        decision = conversation.ask()
        assert conversation.asked_for(decision) == dict.fromkeys((T0, T1, T2), LIMIT)
        conversation.answer(decision, dict.fromkeys(brought, LIMIT))
        order = sorted(conversation.link.replicas.behind.values(), key=SERVED)
        firsts.append(order[0].key)
    assert firsts == [T2, T1]


def test_one_that_falls_behind_later_shares_evenly_and_does_not_make_up_for_the_past() -> None:
    """It had all of the budget until it had had as much as the other: 40 MB before 0.4."""
    conversation = behind(partitions=1)
    had = dict.fromkeys((T0, T1), 0)
    for step in range(60):
        conversation.now += 0.11
        if step == 30:
            conversation.offsets[T1] = 0
            conversation.meet()
            had = dict.fromkeys(had, 0)
            continue
        decision = conversation.ask()
        if isinstance(decision, Forward):
            asked = conversation.asked_for(decision)
            conversation.answer(decision, asked)
            for key, size in asked.items():
                had[key] += size
    assert min(had.values()) >= 0.8 * max(had.values()), had


def test_one_that_was_left_out_for_long_is_new_when_it_is_asked_for_again() -> None:
    """What was known of it is too old to tell whether it is behind."""
    conversation = behind(partitions=2)
    decision = conversation.ask()
    conversation.answer(decision, {next(iter(conversation.asked_for(decision))): GATE})
    offset = conversation.offsets.pop(T1)
    conversation.now += 1.0
    decision = conversation.ask()
    conversation.answer(decision, {T0: GATE})
    conversation.now += ABSENCE_SECONDS + 1.0
    conversation.offsets[T1] = offset
    conversation.ask()
    assert list(conversation.link.replicas.new) == [T1]
