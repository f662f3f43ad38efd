"""Budgets under strange traffic: nothing leaks, nobody starves, whatever followers ask and leaders answer.

Conversations without sockets; what a connection's bytes do is tested next door.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.token_bucket import TokenBucket
from protocol.fetch.request import FetchRequest, parse_fetch_request
from protocol.fetch.tables import request_layout
from protocol.wire.headers import request_header
from protocol.work_in_steps import run_through
from proxy.config.settings import Policy
from proxy.roles import Role
from proxy.throttle.decision import Answer, Forward, Hold
from tests.proxy.conversation import MIB, Conversation, behind, quotas, response_entry, throttle

from .wire import T0, T1, T2, reserved_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

GATE = 4 * MIB // 10


def request_of(entries: Sequence[tuple[int, int, int]]) -> tuple[bytes, FetchRequest]:
    """A Fetch v3 of these (partition, fetch_offset, partition_max_bytes), as they stand."""
    partitions = [
        {"partition": p, "fetch_offset": offset, "log_start_offset": 0, "partition_max_bytes": limit}
        for p, offset, limit in entries
    ]
    head = {"api_key": 1, "api_version": 3, "correlation_id": 7, "client_id": None}
    body = {
        "replica_id": 102,
        "max_wait_ms": 500,
        "min_bytes": 1,
        "max_bytes": 10 * MIB,
        "topics": [{"topic": "t", "partitions": partitions}],
    }
    frame = bytes(request_header(1).build(head) + request_layout(3).build(body))
    return frame, parse_fetch_request(frame)


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 3), st.sampled_from([-(2**31), -1, 0, 1, 70_000, MIB])),
        max_size=8,
    ),
    st.booleans(),
    st.booleans(),
)
def test_whatever_is_asked_every_reservation_is_given_back_and_none_is_negative(
    entries: list[tuple[int, int, int]], enforce: bool, answered: bool
) -> None:
    """A partition may be listed twice, with any limit: the budget belongs to everybody."""
    talk = behind(partitions=3, enforce=enforce)
    for now in (0.0, 0.3):
        frame, request = request_of(entries)
        demand = run_through(talk.link.begin(frame, request, now))
        decision = run_through(talk.link.decide(demand, now))
        held = reserved_bytes(talk.throttle)
        assert 0 <= held <= len(entries) * MIB
        if not isinstance(decision, Forward):
            assert held == 0
            continue
        assert decision.pending is None or held <= sum(decision.pending.grants.values())
        asked = parse_fetch_request(frame if decision.frame is None else decision.frame)
        own = {(e.topic, e.partition): e.partition_max_bytes for e in request.entries}
        limits = [limit for _, _, limit in entries]
        assert all(e.partition_max_bytes <= max(limits) for e in asked.entries)
        replayed = decision.pending.replays if decision.pending else []
        answers = [(e.topic, e.partition) for e in asked.entries] + [(r.topic, r.partition) for r in replayed]
        if decision.frame is not None:  # what is listed twice counts once, as at the leader
            assert len(answers) == len(own)
        assert set(own) == set(answers)
        if decision.pending is not None:
            for key in [*own, *own] if answered else []:
                decision.pending.forwards([response_entry(*key, 10)], b"", 0, now)
            decision.pending.finish(now)
    assert reserved_bytes(talk.throttle) == 0


def test_a_partition_that_answers_empty_does_not_keep_the_others_waiting() -> None:
    """Its leader throttles it natively, or by a sidecar of its own: it may not take every grant and waste it."""
    talk = behind(partitions=3)
    had = {T0: 0, T1: 0, T2: 0}
    for step in range(30):
        talk.now = step * 0.11
        decision = talk.ask()
        if isinstance(decision, Forward):
            sizes = {key: size for key, size in talk.asked_for(decision).items() if key != T0}
            talk.answer(decision, sizes)
            for key, size in sizes.items():
                had[key] += size
    assert had[T1] > 8 * GATE
    assert had[T2] == pytest.approx(had[T1], abs=MIB)


def test_a_link_that_answers_empty_does_not_keep_the_other_links_waiting() -> None:
    shared = throttle(role=Role.FOLLOWER)
    stuck, flowing = (Conversation(shared, offsets={("t", i): 0}) for i in range(2))
    stuck.meet()
    flowing.meet()
    had = 0
    waits: tuple[float, Forward] | None = None
    for step in range(1000):
        now = stuck.now = flowing.now = step * 0.005
        if waits is None and isinstance(decision := stuck.ask(), Forward):
            waits = (now + 0.5, decision)
        if waits is not None and now >= waits[0]:
            stuck.answer(waits[1])
            waits = None
        decision = flowing.ask()
        if isinstance(decision, Forward):
            sizes = flowing.asked_for(decision)
            flowing.answer(decision, sizes)
            had += sum(sizes.values())
    assert had == pytest.approx(5 * 4 * MIB, rel=0.1)


@pytest.mark.parametrize("first", ["old", "new"])
def test_a_new_link_starts_level_with_one_that_has_had_much_before(first: str) -> None:
    """While all got what they wanted nobody waited, and what they got then gives nobody a claim to catch up."""
    shared = throttle(math.inf)
    old = Conversation(shared, offsets={T0: 0})
    old.meet()
    for _ in range(500):
        decision = old.ask()
        old.answer(decision, old.asked_for(decision))
    new = Conversation(shared, offsets={T1: 0})
    new.meet()
    shared.apply(quotas(4 * MIB), 0.0)
    had = {"old": 0, "new": 0}
    order = [("old", old), ("new", new)] if first == "old" else [("new", new), ("old", old)]
    for step in range(800):
        for name, talk in order:
            talk.now = step * 0.005
            decision = talk.ask()
            if isinstance(decision, Forward):
                sizes = talk.asked_for(decision)
                talk.answer(decision, sizes)
                had[name] += sum(sizes.values())
    assert had["old"] == pytest.approx(had["new"], abs=1.5 * MIB)


def test_what_arrives_while_the_quota_is_zero_is_repaid_once_it_is_not() -> None:
    bucket = TokenBucket(rate=4 * MIB, gate_seconds=0.1, burst_seconds=0.25, now=0.0)
    bucket.reserve(GATE)
    bucket.change_rate(0, 0.0)
    bucket.settle(reserved=GATE, used=4 * MIB + GATE, now=0.0)
    bucket.change_rate(4 * MIB, 0.0)
    assert bucket.seconds_until(bucket.gate_bytes, 0.0) == pytest.approx(1.1 + (64 * 1024 - GATE) / 4 / MIB, abs=0.2)


def test_a_partition_that_is_no_longer_throttled_goes_on_though_it_was_held() -> None:
    talk = behind(partitions=1, bytes_per_second=0)
    assert isinstance(talk.ask(), Hold)
    talk.throttle.apply(quotas(0, enforce=False), 0.1)
    decision = talk.decide()
    assert isinstance(decision, Forward)
    assert decision.frame is None


def test_a_partition_that_becomes_throttled_while_another_is_held_goes_on_unwatched() -> None:
    """Nothing is known of it yet; its next fetch is its first contact."""
    talk = behind(partitions=1, bytes_per_second=0)
    talk.offsets[T1] = 5
    only_t0 = quotas(0)
    assert talk.link.throttle.quota.selects(*T1)
    talk.throttle.apply(only_t0, 0.0)
    decision = talk.ask()
    assert T1 in talk.asked_for(decision)
    assert isinstance(decision, Forward)
    assert [(r.topic, r.partition) for r in decision.pending.replays] == [T0]  # type: ignore[union-attr]


def test_enforcing_begins_in_flight() -> None:
    """A request that went on complete is answered complete; the next is decided anew."""
    talk = behind(partitions=2, bytes_per_second=0, enforce=False)
    decision = talk.ask()
    assert isinstance(decision, Forward)
    assert decision.pending is not None
    assert not decision.pending.replays
    talk.throttle.apply(quotas(0), 0.1)
    talk.answer(decision, {T0: 5000})
    assert isinstance(talk.ask(), Hold)


def test_the_clock_may_stand_still_or_step_back() -> None:
    talk = behind(partitions=1)
    for talk.now in (5.0, 4.0, 4.0, 5.0):
        decision = talk.ask()
        if isinstance(decision, Forward):
            talk.answer(decision, {T0: GATE})
    assert isinstance(decision, Hold)
    assert 5.0 < decision.until <= 5.5


@pytest.mark.parametrize("policy", list(Policy))
def test_without_a_wait_the_answer_comes_at_once(policy: Policy) -> None:
    talk = behind(partitions=1, bytes_per_second=0, policy=policy)
    talk.throttle.rate.record(1, 0.0)
    talk.throttle.account(talk.link.claim.path, 0.0, 100, 0, reserved=0, granted=0, ungranted=100, observed=0)
    assert isinstance(talk.ask(max_wait_ms=0), Answer)
    assert isinstance(talk.ask(max_wait_ms=-5), Answer)
