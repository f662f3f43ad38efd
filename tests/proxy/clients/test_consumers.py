"""The tail rule, what is free and what is charged, and what a consumer sees in its fetch sessions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from lab.embedded.session_handler import FetchSessionHandler
from protocol.fetch.request import parse_fetch_request
from protocol.fetch.walker import RequestEntry
from protocol.work_in_steps import run_through
from proxy.clients.consumers import CatchUp, asked, asked_again, end_offset, stable_end_offset
from proxy.config.settings import Policy
from proxy.quotas import Quotas
from proxy.throttle.decision import Demand, Forward
from proxy.throttle.replica import Replica, Standing
from tests.proxy.conversation import LIMIT, MIB, fetch_frame, pass_answer, response_entry, settings
from tests.proxy.session_conversation import LEADER, MESSAGE_BYTES, SessionConversation, SessionLeader, topic_of

if TYPE_CHECKING:
    from protocol.session.requests import PartitionKey

KB = 1000
NEW, TRUNCATED, AT_TAIL, BEHIND = Standing.NEW, Standing.TRUNCATED, Standing.IN_SYNC, Standing.BEHIND
FETCH_MESSAGES = LIMIT // KB
"""How many messages one fetch brings."""


@dataclass
class Counted:
    free: int = 0
    charged: int = 0

    def __call__(self, free: int, charged: int, now: float) -> None:
        self.free += free
        self.charged += charged


def catch_up(
    rate: float = MIB, *, counted: Counted | None = None, enforce: bool = True, policy: Policy = Policy.STRICT
) -> CatchUp:
    return CatchUp(settings(policy), rate, Quotas(enforce=enforce), 0.0, counted=counted or Counted())


def requested(offset: int, *, epoch: int = 5, limit: int = LIMIT) -> RequestEntry:
    return RequestEntry("t", 0, epoch, offset, limit, 0, 0)


def partition() -> Replica:
    return Replica(requested(0), 0.0)


def told(it: Replica, end: int, *, size: int = 0, stable: int = -1) -> None:
    """An answer of so many bytes of records goes on."""
    it.answered(high_watermark=end, log_start_offset=0)
    it.last_stable_offset = stable
    if size:
        it.delivered(size, 0, 0.0)


def at_tail(messages: int = 1000) -> Replica:
    """One that has read all of its messages, a kilobyte each."""
    it = partition()
    told(it, messages, size=messages * KB)
    asked(end_offset, it, requested(messages))
    assert it.standing is AT_TAIL
    return it


def test_it_is_new_until_an_answer_tells_its_end() -> None:
    assert partition().standing is NEW


@pytest.mark.parametrize(
    ("offset", "end", "standing"), [(0, 0, AT_TAIL), (7, 7, AT_TAIL), (8, 7, AT_TAIL), (6, 7, BEHIND), (0, 7, BEHIND)]
)
def test_a_new_one_is_behind_up_to_its_end(offset: int, end: int, standing: Standing) -> None:
    it = partition()
    told(it, end)
    asked(end_offset, it, requested(offset))
    assert it.standing is standing


@pytest.mark.parametrize(
    ("more", "standing"),
    [(0, AT_TAIL), (1, AT_TAIL), (FETCH_MESSAGES, AT_TAIL), (FETCH_MESSAGES + 2, BEHIND), (10**9, BEHIND)],
)
@pytest.mark.parametrize("listed", [True, False])
def test_at_the_tail_it_stays_as_far_as_one_fetch_brings(more: int, standing: Standing, *, listed: bool) -> None:
    it = at_tail()
    told(it, 1000 + more)
    if listed:
        asked(end_offset, it, requested(1000))
    else:
        asked_again(end_offset, [it])
    assert it.standing is standing


def test_one_whose_messages_are_not_known_is_at_the_tail_until_a_full_answer_leaves_it_behind() -> None:
    it = partition()
    told(it, 0)
    asked(end_offset, it, requested(0))
    told(it, 10**6)
    asked_again(end_offset, [it])
    assert it.standing is AT_TAIL
    told(it, 10**6, size=LIMIT)
    asked(end_offset, it, requested(10))
    assert it.standing is BEHIND


def test_one_that_a_full_answer_did_not_bring_to_its_end_is_behind_however_near_it_is() -> None:
    """More was there than one fetch brings, so it is not read at the tail."""
    it = at_tail()
    told(it, 1000 + FETCH_MESSAGES + 100, size=LIMIT)
    asked(end_offset, it, requested(1000 + FETCH_MESSAGES))
    assert it.standing is BEHIND


def test_what_a_seek_skipped_is_not_taken_for_small_messages_for_long() -> None:
    it = at_tail()
    told(it, 10**9, size=LIMIT)
    asked(end_offset, it, requested(10**8))  # a seek, with bytes of another place delivered before
    assert it.standing is BEHIND


def test_behind_it_stays_behind_up_to_the_end_itself() -> None:
    it = partition()
    told(it, 1000, size=999 * KB)
    asked(end_offset, it, requested(999))
    assert it.standing is BEHIND
    told(it, 1000, size=KB)
    asked(end_offset, it, requested(1000))
    assert it.standing is AT_TAIL


@pytest.mark.parametrize(("to", "standing"), [(999, AT_TAIL), (0, AT_TAIL), (-10_000, BEHIND)])
def test_a_seek_back_is_behind_at_once_if_one_fetch_does_not_bring_it_back(to: int, standing: Standing) -> None:
    it = at_tail(100_000)
    asked(end_offset, it, requested(99_000 + to))
    assert (it.standing, it.high_watermark) == (standing, 100_000)


def test_a_seek_to_the_end_is_at_the_tail() -> None:
    it = partition()
    told(it, 100_000)
    asked(end_offset, it, requested(5))
    asked(end_offset, it, requested(100_000))
    assert it.standing is AT_TAIL


def test_another_leader_epoch_is_unknown_and_at_the_tail_only_if_it_was_there() -> None:
    it = at_tail()
    asked(end_offset, it, requested(1000, epoch=6))
    assert (it.standing, it.replayable) == (TRUNCATED, False)
    behind = partition()
    told(behind, 1000)
    asked(end_offset, behind, requested(1))
    asked(end_offset, behind, requested(1, epoch=6))
    assert behind.standing is NEW


def test_another_leader_epoch_does_not_make_a_seek_back_free() -> None:
    """With another epoch in each request, all of a log was read as if it were its tail."""
    it = at_tail(100_000)
    asked(end_offset, it, requested(0, epoch=6))
    assert it.standing is NEW


def test_committed_reads_end_at_the_last_stable_offset() -> None:
    for end, standing in ((stable_end_offset, AT_TAIL), (end_offset, BEHIND)):
        it = partition()
        told(it, 1000, stable=10)
        asked(end, it, requested(10))
        assert it.standing is standing
    it = partition()
    told(it, 1000)  # before v4 there is none
    asked(stable_end_offset, it, requested(10))
    assert it.standing is BEHIND


def test_a_stable_offset_that_moves_alone_classifies_the_partition_anew() -> None:
    link = catch_up().link("peer", leader=LEADER, reads_committed=True)
    frame = fetch_frame({("t", 0): 10}, version=6, replica_id=-1)
    for stable, is_news in ((10, True), (10, False), (500, True)):
        demand = run_through(link.begin(frame, parse_fetch_request(frame), 0.0, is_same=True))
        assert isinstance(demand, Demand)
        decision = run_through(link.decide(demand, 0.0))
        assert isinstance(decision, Forward)
        assert decision.pending is not None
        pass_answer(decision.pending, [(response_entry("t", 0, high_watermark=10**6, stable=stable), b"")], 0.0)
        assert bool(link.replicas.changed) is is_news


seen = st.tuples(
    st.integers(-3000, 3000),  # a step of the consumer's offset
    st.integers(0, 5000),  # of the end
    st.integers(0, 2 * LIMIT),  # bytes that came
    st.booleans(),  # left out of the request before
    st.sampled_from([5, 5, 5, 6]),  # leader epoch
)


@given(st.lists(seen, max_size=30))
def test_whatever_a_consumer_does_it_is_at_the_tail_only_within_one_fetch_of_its_end(
    steps: list[tuple[int, int, int, bool, int]],
) -> None:
    it, offset, end = partition(), 0, 1000
    for step, growth, size, returns, epoch in steps:
        end += growth
        told(it, end, size=size)
        offset = min(max(offset + step, 0), end)
        asked(end_offset, it, requested(offset, epoch=epoch), returns=returns)
        if it.standing is AT_TAIL:
            assert offset >= end or it.lag * it.bytes_per_message <= LIMIT
        if offset >= end:
            assert it.standing in (AT_TAIL, TRUNCATED, NEW)


@dataclass
class Consumer(SessionConversation):
    """One consumer and a broker with a link between them."""

    throttle: CatchUp
    positions: dict[PartitionKey, int] = field(default_factory=dict)

    def reconnect(self) -> None:
        if hasattr(self, "link"):
            self.link.close()
            self.follower = FetchSessionHandler(self.version)
        self.link = self.throttle.link("peer", leader=LEADER)


def consumer(
    partitions: dict[int, tuple[int, int]], *, version: int = 12, rate: float = MIB, counted: Counted | None = None
) -> Consumer:
    """A consumer of partitions with an offset and an end each."""
    topic = topic_of(version)
    leader = SessionLeader({(topic, number): end for number, (_, end) in partitions.items()})
    wants = {(topic, number): offset for number, (offset, _) in partitions.items()}
    return Consumer(catch_up(rate, counted=counted), wants, leader, version)


def test_what_is_read_at_the_tail_is_free_and_what_is_behind_keeps_to_the_rate() -> None:
    counted = Counted()
    it = consumer({0: (0, 100_000), 1: (500, 500)}, counted=counted)
    tail = (topic_of(12), 1)
    it.fetch()
    while it.now < 10:
        it.leader.ends[tail] += 100
        before = it.wants[tail]
        it.fetch(max_wait_ms=50)
        assert it.wants[tail] == it.leader.ends[tail] == before + 100  # in the very answer to this Fetch
        it.now += 0.01
    assert 9 * MIB < counted.charged < 11 * MIB
    assert counted.free > 10 * MIB
    assert it.throttle.throttle.rate.measure(it.now) < 1.1 * MIB


def test_what_waits_for_its_turn_is_not_asked_for_all_at_once() -> None:
    """As it is for followers, whose lag is shown: the tail would wait while the broker looks into 100 logs."""
    it = consumer(dict.fromkeys(range(100), (0, 10000)) | {100: (0, 0)}, rate=100 * KB)
    for _ in range(3):
        it.fetch()
    asked = len(it.leader.asked)
    while it.now < 20:
        it.leader.ends[topic_of(12), 100] += 1
        it.fetch(max_wait_ms=50)
        it.now += 0.05
    assert max(len(request.listed) for request in it.leader.asked[asked:]) < 20


def test_a_fetch_of_which_all_is_behind_waits_as_one_without_news_does() -> None:
    it = consumer({0: (0, 100_000)})
    for _ in range(20):
        began = it.now
        response = it.fetch()
        assert response.error_code == 0
        assert it.now - began <= 0.5
        it.now += 0.001
    assert it.throttle.throttle.statistics.local_answers == 0 or it.throttle.throttle.statistics.omitted_partitions


def test_with_observe_mode_nothing_is_left_out_and_all_is_counted() -> None:
    counted = Counted()
    it = consumer({0: (0, 10_000), 1: (500, 500)})
    it.throttle = catch_up(counted=counted, enforce=False)
    it.reconnect()
    for _ in range(20):
        it.fetch()
    assert it.lag == 0
    assert counted.charged >= 9_000 * MESSAGE_BYTES


def test_kip73_charges_only_what_is_behind() -> None:
    counted = Counted()
    it = consumer({0: (0, 20_000), 1: (500, 500)})
    it.throttle = catch_up(counted=counted, policy=Policy.KIP73)
    it.reconnect()
    tail = (topic_of(12), 1)
    while it.now < 20:
        it.leader.ends[tail] += 100
        it.fetch(max_wait_ms=50)
        it.now += 0.05
        if it.now > 1:
            assert it.wants[tail] == it.leader.ends[tail]
    assert counted.free > 15 * MIB
    assert counted.charged < 1.25 * 20 * MIB


def test_after_the_throttle_is_lifted_a_session_is_refused_and_a_full_request_goes_on() -> None:
    it = consumer({0: (0, 100_000), 1: (500, 500)})
    it.fetch()
    it.fetch()
    it.throttle.lift(it.now)
    assert it.fetch().error_code == 70
    it.wants[topic_of(12), 1] = 400
    decision = it.ask()
    assert decision == Forward(None, None)


class Happening:
    """A consumer to which things happen; every Fetch is checked against the broker."""

    def __init__(self, version: int, policy: Policy) -> None:
        self.topic = topic_of(version)
        self.it = consumer({0: (0, 500), 1: (100, 100), 2: (0, 40), 3: (200, 300)}, version=version)
        self.it.throttle = catch_up(100 * KB, policy=policy)
        self.it.reconnect()
        self.paused: dict[PartitionKey, int] = {}

    def happens(self, what: str, number: int, value: int) -> None:
        getattr(self, what)((self.topic, number), value)

    def fetch(self, *_: object) -> None:
        """What comes is of what was asked for, each offset once, with a high watermark that the broker has told."""
        it = self.it
        asked = dict(it.wants)
        response = it.fetch()
        assert response.error_code in (0, 70)
        for key, read in response.entries.items():
            assert key in asked
            assert read.high_watermark <= it.leader.ends[key]
            assert it.wants[key] == asked[key] + read.records_size // MESSAGE_BYTES <= it.leader.ends[key]

    def produce(self, key: PartitionKey, value: int) -> None:
        self.it.leader.ends[key] += value

    def seek(self, key: PartitionKey, value: int) -> None:
        (self.paused if key in self.paused else self.it.wants)[key] = min(value, self.it.leader.ends[key])

    def pause(self, key: PartitionKey, _: int) -> None:
        if len(self.it.wants) > 1 and key in self.it.wants:
            self.paused[key] = self.it.wants.pop(key)

    def resume(self, key: PartitionKey, _: int) -> None:
        if key in self.paused:
            self.it.wants[key] = self.paused.pop(key)

    def reconnect(self, *_: object) -> None:
        self.it.reconnect()

    def wait(self, _: PartitionKey, value: int) -> None:
        self.it.now += value / 25

    def quota(self, _: PartitionKey, value: int) -> None:
        self.it.throttle.change(10 * KB * (value + 1), Quotas(enforce=value % 10 > 0), self.it.now)


happenings = st.lists(
    st.tuples(
        st.sampled_from(
            ["fetch", "fetch", "fetch", "produce", "seek", "pause", "resume", "reconnect", "wait", "quota"]
        ),
        st.integers(0, 3),
        st.integers(0, 300),
    ),
    max_size=40,
)


@hypothesis_settings(deadline=None)
@given(happenings, st.sampled_from([7, 11, 12, 13, 17, 18]), st.sampled_from(Policy))
def test_a_consumer_sees_what_the_broker_alone_would_show_it_only_later(
    happened: list[tuple[str, int, int]], version: int, policy: Policy
) -> None:
    """And once nothing happens any more, everything comes."""
    subject = Happening(version, policy)
    for each in happened:
        subject.happens(*each)
    subject.it.wants |= subject.paused
    subject.it.throttle.change(10 * MIB, Quotas(), subject.it.now)
    for _ in range(200):
        if not subject.it.lag:
            return
        subject.fetch()
        subject.it.now += 0.1
    raise AssertionError(f"{subject.it.lag} messages did not come")
