"""One connection's decisions: every rule of KIP-73's enforcement as a short conversation."""

from __future__ import annotations

import pytest

from protocol.fetch.request import parse_fetch_request
from protocol.fetch.tables import response_layout
from protocol.work_in_steps import run_through
from proxy.quotas import Partitions, Quotas, RoleQuota
from proxy.roles import Role
from proxy.throttle.decision import Answer, Forward, Hold
from proxy.throttle.link import REFRESH_CHECK_SECONDS, REFRESH_SECONDS
from proxy.throttle.replica import MIN_NEED_BYTES
from proxy.throttle.replicas import ABSENCE_SECONDS
from proxy.throttle.request_builder import FIRST_CONTACT_BYTES
from tests.proxy.conversation import LIMIT, MIB, Conversation, behind, fetch_frame, quotas, response_entry, throttle
from tests.proxy.diagnostics.surveys import surveyed

T0, T1, T2 = ("t", 0), ("t", 1), ("t", 2)
GATE = 4 * MIB // 10


def drained(conversation: Conversation) -> Conversation:
    """Spend what the budget holds, so that the gate is closed."""
    decision = conversation.ask()
    conversation.answer(decision, {next(iter(conversation.asked_for(decision))): GATE})
    return conversation


def test_first_contact_takes_no_turn_and_goes_on_complete_with_the_least() -> None:
    """Nobody knows yet whether the leader has anything for this follower, or refuses it."""
    conversation = Conversation(throttle(), offsets={T0: 0, T1: 5})
    decision = conversation.ask()
    assert conversation.asked_for(decision) == {T0: FIRST_CONTACT_BYTES, T1: FIRST_CONTACT_BYTES}
    assert conversation.sent_on(decision).max_wait_ms == 500
    assert not conversation.link.claim.path.trunk[0].wants


def test_first_contact_with_the_gate_closed_goes_on_all_the_same() -> None:
    conversation = Conversation(throttle(bytes_per_second=0), offsets={T0: 0, T1: 5})
    assert conversation.asked_for(conversation.ask()) == {T0: FIRST_CONTACT_BYTES, T1: FIRST_CONTACT_BYTES}


def test_a_replica_that_is_behind_is_asked_for_what_the_budget_holds_and_others_are_left_out() -> None:
    conversation = behind(partitions=3)
    decision = conversation.ask()
    assert conversation.asked_for(decision) == {T0: GATE}
    assert isinstance(decision, Forward)
    assert decision.pending is not None
    assert [(r.topic, r.partition, r.high_watermark) for r in decision.pending.replays] == [
        ("t", 1, 1_000_000),
        ("t", 2, 1_000_000),
    ]


def test_everything_over_quota_is_held_until_the_gate_opens() -> None:
    conversation = drained(behind(partitions=2))
    decision = conversation.ask()
    assert isinstance(decision, Hold)
    assert decision.until == pytest.approx(0.1, abs=0.01)
    conversation.now = decision.until + 0.001
    assert conversation.asked_for(conversation.decide()) == {T1: pytest.approx(GATE, rel=0.05)}


def test_at_max_wait_an_honest_empty_answer_is_given_here() -> None:
    conversation = behind(partitions=2, bytes_per_second=0)
    decision = conversation.ask()
    assert isinstance(decision, Hold)
    assert decision.until == 0.5  # quota 0 never opens: the follower's own max_wait_ms
    conversation.now = 0.5
    answer = conversation.decide()
    assert isinstance(answer, Answer)
    body = response_layout(3).parse(answer.frame[4:])
    assert body.throttle_time_ms == 0
    entries = [
        (t.topic, p.partition_index, p.error_code, p.high_watermark) for t in body.responses for p in t.partitions
    ]
    assert entries == [("t", 0, 0, 1_000_000), ("t", 1, 0, 1_000_000)]


def test_a_request_with_an_in_sync_replica_is_never_held_but_waits_no_longer_than_the_gate() -> None:
    conversation = drained(behind(partitions=2))
    conversation.offsets[T1] = 1_000_000
    conversation.answer(conversation.ask())  # its jump was not ours: the high watermark is learnt again
    conversation.now = 0.01
    decision = conversation.ask()
    assert conversation.asked_for(decision) == {T1: LIMIT}
    assert 10 <= conversation.sent_on(decision).max_wait_ms <= 100


def beside_in_sync(*, comes_back_at: float) -> Conversation:
    """T0 behind and T1 in sync, the budget spent at 0; the follower's next fetch comes back from the leader then."""
    conversation = behind(partitions=2)
    conversation.offsets[T1] = 1_000_000
    conversation.answer(conversation.ask(), {T0: GATE})
    conversation.now = 0.01
    decision = conversation.ask()
    assert conversation.asked_for(decision) == {T1: LIMIT}
    conversation.now = comes_back_at
    conversation.answer(decision)
    return conversation


def test_what_rides_along_with_live_in_sync_replicas_comes_in_small_pieces_and_before_the_gate() -> None:
    """An acks=all record behind a whole gate's worth of catch-up would wait for all of it."""
    conversation = beside_in_sync(comes_back_at=0.06)
    decision = conversation.ask()
    assert conversation.asked_for(decision) == {T0: GATE // 2, T1: LIMIT}
    conversation.answer(decision, {T0: GATE // 2})
    conversation.now = 0.08
    assert conversation.asked_for(conversation.ask()) == {T1: LIMIT}
    conversation.now = 0.11
    assert conversation.asked_for(conversation.ask()) == {T0: GATE // 2, T1: LIMIT}


def test_beside_in_sync_replicas_that_nobody_writes_to_catch_up_waits_for_the_gate() -> None:
    """Small pieces would cost fetches, and there is nobody whom they would help."""
    conversation = beside_in_sync(comes_back_at=0.2)
    assert conversation.asked_for(conversation.ask())[T0] > GATE // 2


def test_in_sync_replicas_are_counted_against_the_quota() -> None:
    conversation = Conversation(throttle(), offsets={T0: 0})
    conversation.meet(high_watermark=0)
    conversation.answer(conversation.ask(), {T0: 8 * MIB}, high_watermark=0)
    assert conversation.throttle.statistics.throttled_bytes_in_sync == 8 * MIB + 18
    assert conversation.link.claim.path.seconds_until_turn(0.0) > 1.9


def test_a_burst_of_in_sync_traffic_is_forgotten_after_the_window_of_kip73() -> None:
    """As in the broker, whose samples leave the window: it must not freeze catch-up for minutes."""
    conversation = Conversation(throttle(), offsets={T0: 0})
    conversation.meet(high_watermark=0)
    conversation.answer(conversation.ask(), {T0: 10_000 * MIB}, high_watermark=0)
    assert conversation.link.claim.path.seconds_until_turn(0.0) == pytest.approx(11.1)


def test_when_fetch_offset_goes_back_the_replica_goes_on_with_its_own_partition_max_bytes() -> None:
    """An ISR member of an old protocol truncates to its high watermark: held, it would stall acks=all."""
    conversation = drained(behind(partitions=2))
    conversation.ask()
    conversation.offsets[T0] -= 1
    assert conversation.asked_for(conversation.ask()) == {T0: LIMIT}


def test_a_replica_that_was_missing_is_asked_for_again_but_not_replayed() -> None:
    """Its follower's own sidecar left it out, or it had another leader meanwhile: nobody can tell."""
    conversation = drained(behind(partitions=2))
    offset = conversation.offsets.pop(T1)
    conversation.ask()
    conversation.offsets[T1] = offset
    held = conversation.ask()
    assert isinstance(held, Hold)  # behind by all we know, so it can wait
    conversation.now = 0.2
    assert T1 in conversation.asked_for(conversation.decide())


def test_a_replica_that_was_missing_is_not_answered_here_but_asked_for_at_the_deadline() -> None:
    conversation = behind(partitions=2, bytes_per_second=0)
    offset = conversation.offsets.pop(T1)
    conversation.ask()
    conversation.offsets[T1] = offset
    assert isinstance(conversation.ask(), Hold)
    conversation.now = 0.5
    assert conversation.asked_for(conversation.decide()) == {T1: FIRST_CONTACT_BYTES}
    conversation.answer(conversation.decide())
    assert isinstance(conversation.ask(), Hold)
    conversation.now = 1.0
    assert isinstance(conversation.decide(), Answer)  # confirmed by the leader: may be replayed


def test_a_replica_that_was_missing_for_long_is_met_anew() -> None:
    conversation = behind(partitions=2, bytes_per_second=0)
    offset = conversation.offsets.pop(T1)
    for conversation.now in (0.0, 5.0, ABSENCE_SECONDS + 0.1):
        conversation.ask()
    conversation.offsets[T1] = offset
    assert conversation.asked_for(conversation.ask())[T1] == FIRST_CONTACT_BYTES


def test_an_error_makes_the_high_watermark_unknown_again() -> None:
    conversation = behind(partitions=1, bytes_per_second=0)
    assert isinstance(conversation.ask(), Hold)
    conversation.link.replicas.refused(T0, 6)
    assert conversation.asked_for(conversation.decide()) == {T0: FIRST_CONTACT_BYTES}


def test_offsets_that_move_without_our_records_make_the_high_watermark_unknown_again() -> None:
    conversation = drained(behind(partitions=2))
    conversation.offsets[T1] += 10
    assert conversation.asked_for(conversation.ask()) == {T1: FIRST_CONTACT_BYTES}


def test_an_empty_answer_gives_the_grant_back() -> None:
    conversation = behind(partitions=1)
    conversation.answer(conversation.ask())
    assert conversation.asked_for(conversation.ask()) == {T0: GATE}


def test_a_batch_larger_than_the_grant_is_debt() -> None:
    conversation = behind(partitions=1)
    conversation.answer(conversation.ask(), {T0: 4 * MIB + GATE})
    decision = conversation.ask(max_wait_ms=60_000)
    assert isinstance(decision, Hold)
    assert decision.until == pytest.approx(1.1, abs=0.01)


def test_large_batches_raise_what_a_grant_is_worth() -> None:
    conversation = behind(partitions=2, bytes_per_second=8 * MIB)
    replica = conversation.link.replicas.known[T1]
    assert replica.need_bytes == MIN_NEED_BYTES
    replica.saw_batch(900_000)
    assert replica.need_bytes == 900_012, "and the header of the next one"
    assert T1 not in conversation.asked_for(conversation.ask())  # what T0 leaves is less than one batch


@pytest.mark.parametrize("version", [0, 1, 2])
def test_below_v3_partition_max_bytes_is_left_alone(version: int) -> None:
    """A smaller one would yield half a message, which an old follower takes for an error."""
    conversation = Conversation(throttle(), offsets={T0: 0})
    decision = conversation.ask(version=version)
    assert conversation.asked_for(decision) == {T0: LIMIT}
    conversation.answer(decision)
    assert conversation.asked_for(conversation.ask(version=version)) == {T0: LIMIT}


def test_raising_the_quota_opens_the_gate_for_a_request_that_waits() -> None:
    conversation = drained(behind(partitions=1))
    assert isinstance(conversation.ask(), Hold)
    conversation.throttle.apply(quotas(1000 * MIB), 0.0)
    conversation.now = 0.11
    assert conversation.asked_for(conversation.decide()) == {T0: LIMIT}


def test_unlimited_changes_nothing_but_counts() -> None:
    conversation = Conversation(throttle(float("inf")), offsets={T0: 0})
    decision = conversation.ask()
    assert isinstance(decision, Forward)
    assert decision.frame is None
    conversation.answer(decision, {T0: 5000})
    assert conversation.throttle.statistics.throttled_bytes_in_sync == 5018


def test_observe_mode_changes_nothing_and_counts_what_would_be_withheld() -> None:
    conversation = behind(partitions=2, enforce=False)
    decision = conversation.ask()
    assert isinstance(decision, Forward)
    assert decision.frame is None
    conversation.answer(decision, {T0: LIMIT, T1: LIMIT})
    statistics = conversation.throttle.statistics
    assert statistics.omitted_partitions == 1
    assert statistics.withheld_bytes == LIMIT + 18
    assert statistics.throttled_bytes_catching_up == 2 * (LIMIT + 18)


def test_a_follower_is_called_by_its_broker_id() -> None:
    assert behind().link.peer == "102"
    assert behind(role=Role.FOLLOWER).link.peer == "peer"  # there the request carries this broker's own id


def test_a_grant_is_given_back_when_its_answer_never_comes() -> None:
    conversation = behind(partitions=1)
    decision = conversation.ask()
    assert isinstance(decision, Forward)
    assert decision.pending is not None
    decision.pending.finish(0.0)
    assert conversation.asked_for(conversation.ask()) == {T0: GATE}


def test_two_connections_share_one_budget_fairly() -> None:
    shared = throttle()
    followers = [Conversation(shared, offsets={("t", i): 0}) for i in range(2)]
    for follower in followers:
        follower.meet()
    had = [0, 0]
    for step in range(200):
        for index, follower in enumerate(followers):
            follower.now = step * 0.01
            decision = follower.ask()
            if isinstance(decision, Forward) and decision.pending is not None:
                sizes = follower.asked_for(decision)
                follower.answer(decision, sizes)
                had[index] += sum(sizes.values())
    assert sum(had) == pytest.approx(2 * 4 * MIB, rel=0.1)
    assert abs(had[0] - had[1]) <= GATE * 1.1


def test_at_quota_0_high_watermarks_are_asked_for_every_few_seconds_and_records_go_no_further() -> None:
    """The lag of a replica that is granted nothing grows by what producers write; nobody else tells."""
    conversation = behind(partitions=2, bytes_per_second=0)
    conversation.now = REFRESH_SECONDS - REFRESH_CHECK_SECONDS
    assert isinstance(conversation.ask(), Hold)
    conversation.now = REFRESH_SECONDS
    assert isinstance(conversation.ask(), Hold)  # its turn may come
    conversation.now += 0.5
    decision = conversation.decide()
    assert conversation.asked_for(decision) == {T0: FIRST_CONTACT_BYTES, T1: FIRST_CONTACT_BYTES}
    assert isinstance(decision, Forward)
    assert decision.pending is not None
    assert decision.pending.must_discard(conversation.now)
    assert decision.pending.withholds(response_entry("t", 0, 16384))
    conversation.answer(decision, high_watermark=3_000_000)
    assert surveyed(conversation.throttle, conversation.now).lag_messages == 2 * 3_000_000
    assert isinstance(conversation.ask(), Hold)


def test_those_that_wait_for_their_turn_are_asked_for_their_high_watermarks_behind_the_grants() -> None:
    conversation = behind(partitions=3)
    conversation.answer(conversation.ask(), {T0: GATE})
    conversation.now = 2.0
    conversation.answer(conversation.ask(), {T1: GATE})
    conversation.now = 1.0 + REFRESH_SECONDS
    decision = conversation.ask()
    assert list(conversation.asked_for(decision).items())[1:] == [(T0, FIRST_CONTACT_BYTES)]
    assert next(iter(conversation.asked_for(decision))) == T2
    assert isinstance(decision, Forward)
    assert decision.pending is not None
    assert not decision.pending.must_discard(conversation.now)


def test_after_a_hold_the_other_end_has_all_of_the_time_for_its_own() -> None:
    """It would answer without records at the follower's deadline, however soon its turn came."""
    conversation = behind()
    conversation.answer(conversation.ask(), {T0: 4 * GATE})
    assert isinstance(conversation.ask(max_wait_ms=500), Hold)
    conversation.now += 0.49
    assert conversation.sent_on(conversation.decide()).max_wait_ms == 500


def test_in_a_drain_nobody_is_asked_for_the_sake_of_a_gauge() -> None:
    conversation = behind(partitions=1, bytes_per_second=0)
    conversation.now = REFRESH_SECONDS
    conversation.ask()
    conversation.now += 0.5
    decision = conversation.decide()
    assert isinstance(decision, Forward)
    conversation.answer(decision)
    conversation.now = 2 * REFRESH_SECONDS
    conversation.ask()
    conversation.now = 3 * REFRESH_SECONDS  # its deadline has passed
    assert isinstance(
        run_through(conversation.link.decide(conversation.demand, conversation.now, may_hold=False)), Answer
    )


@pytest.mark.parametrize("version", [0, 1, 2])
def test_below_v3_nobody_is_asked_for_a_high_watermark_alone(version: int) -> None:
    """There partition_max_bytes cannot be lowered: it would bring everything, to be discarded."""
    conversation = Conversation(throttle(bytes_per_second=0), offsets={T0: 0})
    conversation.answer(conversation.ask(version=version))
    conversation.now = REFRESH_SECONDS
    assert isinstance(conversation.ask(version=version), Hold)


def test_a_partition_that_is_listed_from_now_on_is_known_though_the_request_is_the_same_as_before() -> None:
    held = throttle(0)
    held.apply(Quotas(leader=RoleQuota(0.0, topics={"t": Partitions(frozenset({0}))})), 0.0)
    conversation = Conversation(held, offsets={("t", 0): 0, ("t", 1): 0})
    conversation.answer(conversation.ask())
    frame = fetch_frame(conversation.offsets, version=3, max_wait_ms=500)
    request = parse_fetch_request(frame)
    run_through(conversation.link.begin(frame, request, 0.1))
    assert conversation.link.replicas.known.keys() == {("t", 0)}
    held.apply(Quotas(leader=RoleQuota(0.0, topics={"t": Partitions(frozenset({0, 1}))})), 0.2)
    run_through(conversation.link.begin(frame, request, 0.3, is_same=True))
    assert conversation.link.replicas.known.keys() == {("t", 0), ("t", 1)}


def test_lists_that_change_before_a_request_is_decided_hold_for_the_next_one_even_if_that_is_equal() -> None:
    one, both = (
        Quotas(leader=RoleQuota(0.0, topics={"t": Partitions(frozenset(ids))})) for ids in ({0}, {0, 1})
    )  # fmt: skip
    conversation = Conversation(throttle(), offsets={T0: 0, T1: 0})
    conversation.throttle.apply(one, 0.0)
    conversation.meet()
    link, frame = conversation.link, fetch_frame(conversation.offsets)
    request = parse_fetch_request(frame)
    demand = run_through(link.begin(frame, request, 0.0))
    assert not isinstance(demand, Answer)
    assert link.replicas.known.keys() == {T0}
    conversation.throttle.apply(both, 0.1)
    run_through(link.decide(demand, 0.1))
    run_through(link.begin(frame, request, 0.2, is_same=True))
    assert link.replicas.known.keys() == {T0, T1}
