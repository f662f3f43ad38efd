"""Fetch sessions (v7 to v18): what is forgotten, listed again, answered here, and when one starts again."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.quotas import Quotas, RoleQuota
from proxy.quotas.replicas import EVERY_PARTITION, Partitions
from proxy.quotas.rules import METADATA_TOPIC_ID
from proxy.settings import Policy
from proxy.throttle.link import FIRST_CONTACT_BYTES, Answer, Forward, Hold
from proxy.throttle.replica import LEAST_NEED_BYTES
from tests.proxy.conversation import LIMIT, MIB, quotas, throttle
from tests.proxy.session_conversation import MESSAGE_BYTES, SessionConversation, SessionLeader, topic_of

NOTHING = Quotas(leader=RoleQuota(4 * MIB), follower=RoleQuota(4 * MIB))
END = 100_000
GATE = 4 * MIB // 10
each_version = pytest.mark.parametrize("version", [7, 12, 17])


def only(topic: str, bytes_per_second: float = 4 * MIB, partitions: Partitions = EVERY_PARTITION) -> Quotas:
    quota = RoleQuota(bytes_per_second, topics={topic: partitions})
    return Quotas(leader=quota, follower=quota)


def conversation(
    bytes_per_second: float = 4 * MIB, *, version: int = 12, partitions: int = 3, in_sync: int = 0, slots: int = 1000
) -> SessionConversation:
    """So many partitions of "t", of which the last `in_sync` are at the end of their logs; nothing asked yet."""
    keys = [(topic_of(version), p) for p in range(partitions)]
    wants = {key: END if p >= partitions - in_sync else 0 for p, key in enumerate(keys)}
    leader = SessionLeader(dict.fromkeys(keys, END), slots=slots)
    return SessionConversation(throttle(bytes_per_second), wants, leader, version)


def opened(bytes_per_second: float = 4 * MIB, **options: int) -> SessionConversation:
    """A session whose high watermarks are known."""
    talk = conversation(bytes_per_second, **options)
    assert talk.fetch().error_code == 0
    return talk


def numbers(keys: object) -> list[int]:
    return [key[1] for key in keys]  # type: ignore[attr-defined]


def cached(talk: SessionConversation) -> list[int]:
    """Partitions of the leader's only session."""
    (session,) = talk.leader.cache.sessions.values()
    return sorted(numbers(session.partitions))


@each_version
def test_a_session_is_created_with_one_batch_at_most_when_the_gate_is_closed(version: int) -> None:
    talk = conversation(0, version=version)
    decision = talk.ask()
    assert set(talk.asked_for(decision).values()) == {FIRST_CONTACT_BYTES}
    assert talk.sent_on(decision).session_epoch == 0
    assert isinstance(decision, Forward)
    response = talk.hear(decision)
    assert numbers(response.entries) == [0, 1, 2]
    assert sum(read.records_size for read in response.entries.values()) == MESSAGE_BYTES
    assert talk.session_id == response.session_id > 0
    assert len(talk.throttle.sessions) == 1


@each_version
def test_what_is_omitted_is_forgotten_and_listed_again_when_granted(version: int) -> None:
    talk = opened(version=version, in_sync=1)
    assert cached(talk) == [0, 1, 2]
    spent = talk.ask()
    sent = talk.sent_on(spent)
    assert sorted(numbers(sent.forgotten)) == [0, 1]
    assert talk.asked_for(spent) == {(topic_of(version), 2): LIMIT}  # in sync, asked for 1 byte before
    assert 10 <= sent.max_wait_ms <= 200
    assert isinstance(spent, Forward)
    talk.hear(spent)
    assert cached(talk) == [2]
    talk.now = 1.0
    again = talk.ask()
    assert numbers(talk.asked_for(again)) == [1]
    assert isinstance(again, Forward)
    assert numbers(talk.hear(again).entries) == [1]
    assert cached(talk) == [1, 2]
    assert talk.leader.cache.emptied == 0
    assert talk.follower.complaints == talk.follower.errors == []


@each_version
def test_when_everything_is_omitted_it_is_held_then_answered_here_and_the_leaders_epoch_stays(version: int) -> None:
    talk = opened(0, version=version)
    talk.fetch()
    (session,) = talk.leader.cache.sessions.values()
    before, asked = session.epoch, len(talk.leader.asked)
    held = talk.ask()
    assert isinstance(held, Hold)
    began, mine = talk.now, talk.follower.epoch
    answer = talk.waited(held)
    assert isinstance(answer, Answer)
    assert talk.now - began == pytest.approx(0.5)
    response = talk.hear(answer)
    assert (response.entries, response.error_code, response.session_id) == ({}, 0, talk.session_id)
    assert (session.epoch, len(talk.leader.asked)) == (before, asked)
    assert talk.follower.epoch == mine + 1
    talk.throttle.apply(quotas(4 * MIB), talk.now)
    talk.now += 1
    assert talk.fetch().error_code == 0  # and the epochs fit
    assert talk.leader.cache.emptied == 0


@each_version
def test_while_everything_is_answered_here_new_records_of_others_are_not_missed(version: int) -> None:
    talk = opened(0, version=version)
    for _ in range(3):
        talk.fetch()
    talk.wants[topic_of(version), 3] = 0
    talk.leader.ends[topic_of(version), 3] = 10
    listed = talk.ask()
    assert talk.asked_for(listed) == {(topic_of(version), 3): FIRST_CONTACT_BYTES}


@each_version
def test_quotas_off_in_mid_session_starts_it_again_with_everything(version: int) -> None:
    talk = opened(0, version=version)
    talk.fetch()
    talk.throttle.apply(NOTHING, talk.now)
    assert talk.fetch().error_code == 70
    full = talk.ask()
    assert full == Forward(None, None)
    assert numbers(talk.asked_for(full)) == [0, 1, 2]
    talk.hear(Forward(None, None))
    for _ in range(500):
        talk.fetch()
    assert talk.lag == 0
    assert talk.follower.errors == [70]


@each_version
def test_quotas_off_while_a_request_is_held_lets_it_go_on_with_everything(version: int) -> None:
    talk = opened(0, version=version)
    talk.fetch()
    assert isinstance(talk.ask(), Hold)
    talk.throttle.apply(NOTHING, talk.now)
    decision = talk.decide()
    assert isinstance(decision, Forward)
    talk.hear(decision)
    assert cached(talk) == [0, 1, 2]
    talk.throttle.apply(quotas(0), talk.now)
    assert talk.fetch().error_code == 70  # high watermarks that nobody noted are not told again
    assert talk.fetch().error_code == 0


@each_version
def test_a_list_that_selects_more_starts_the_session_again_one_that_selects_less_does_not(version: int) -> None:
    talk = opened(0, version=version)
    talk.throttle.names.learn({topic_of(version): "t"} if version >= 13 else {})  # type: ignore[dict-item]
    talk.throttle.apply(only("t", 0, Partitions(frozenset({0, 1}))), talk.now)
    less = talk.waited(talk.ask())
    assert isinstance(less, Forward)
    assert talk.hear(less).error_code == 0
    assert numbers(talk.link.replicas.known) == [0, 1]
    assert talk.wants[topic_of(version), 2] > 0
    talk.throttle.apply(only("t", 0), talk.now)
    assert talk.fetch().error_code == 70
    assert talk.fetch().error_code == 0
    assert sorted(numbers(talk.link.replicas.known)) == [0, 1, 2]


@each_version
def test_a_session_met_in_the_middle_starts_again(version: int) -> None:
    """After a restart of the sidecar: nobody knows what was omitted last."""
    talk = opened(version=version)
    talk.throttle = throttle()
    talk.reconnect()
    assert talk.fetch().error_code == 70
    assert talk.fetch().error_code == 0


@each_version
def test_a_session_met_in_the_middle_starts_again_even_if_nothing_is_throttled(version: int) -> None:
    talk = opened(version=version)
    talk.throttle = throttle()
    talk.throttle.apply(NOTHING, 0.0)
    talk.reconnect()
    assert talk.fetch().error_code == 70


@each_version
def test_a_session_that_moves_to_another_connection_starts_again(version: int) -> None:
    """What was forwarded to its replicas is known to the connection before."""
    talk = opened(version=version)
    talk.reconnect()
    assert talk.fetch().error_code == 70
    assert len(talk.throttle.sessions) == 0
    assert talk.fetch().error_code == 0
    assert len(talk.leader.cache.sessions) == 1  # the one before was closed with that request


@each_version
@pytest.mark.parametrize("error", [70, 71])
def test_an_error_of_the_leader_ends_the_session(version: int, error: int) -> None:
    talk = opened(version=version)
    if error == 70:
        talk.leader.cache.sessions.clear()
    else:
        talk.leader.cache.sessions[talk.session_id].epoch += 5
    assert talk.fetch().error_code == error
    assert len(talk.throttle.sessions) == 0
    assert talk.fetch().error_code == 0
    assert talk.session_id > 0
    assert talk.follower.errors == [error]


@each_version
def test_without_a_session_every_request_is_full_and_every_answer_complete(version: int) -> None:
    """The leader's only slot is another's."""
    talk = conversation(version=version, in_sync=1, slots=0)
    for _ in range(6):
        response = talk.fetch()
        assert sorted(numbers(response.entries)) == [0, 1, 2]
        assert (response.session_id, response.error_code) == (0, 0)
        assert {read.high_watermark for read in response.entries.values()} == {END}
    assert any(len(request.listed) < 3 for request in talk.leader.asked)
    assert talk.follower.complaints == []


@each_version
def test_a_full_request_with_everything_omitted_is_answered_here_and_opens_no_session(version: int) -> None:
    talk = conversation(0, version=version, slots=0)
    talk.fetch()
    talk.fetch()
    asked = len(talk.leader.asked)
    response = talk.fetch()
    assert len(talk.leader.asked) == asked
    assert numbers(response.entries) == [0, 1, 2]
    assert response.session_id == 0


@each_version
def test_a_lost_response_ends_the_session_and_gives_grants_back(version: int) -> None:
    talk = opened(version=version)
    talk.now = 5.0
    decision = talk.waited(talk.ask())
    assert isinstance(decision, Forward)
    assert decision.outlook is not None
    assert decision.outlook.grants
    decision.outlook.lost(talk.now)
    talk.follower.epoch += 1  # it would go on, had it heard
    assert isinstance(talk.ask(), Answer)
    talk.follower.epoch -= 1
    assert talk.fetch().error_code == 70
    assert max(talk.asked_for(talk.ask()).values()) == pytest.approx(GATE * 2.5)


@each_version
def test_a_request_that_is_not_understood_ends_a_translated_session(version: int) -> None:
    talk = opened(version=version)
    assert talk.link.translator.undecoded()  # the relay ends the connection
    talk.reconnect()
    assert talk.fetch().error_code == 70


def test_a_topic_whose_name_is_awaited_counts_as_listed_one_without_a_name_does_not() -> None:
    talk = conversation(0, version=17)
    talk.throttle.apply(only("other", 0), 0.0)
    names = talk.throttle.names
    first = talk.ask()
    assert set(talk.asked_for(first).values()) == {FIRST_CONTACT_BYTES}
    assert isinstance(first, Forward)
    talk.hear(first)
    names.learn({topic_of(17, "other"): "other"})
    assert names.unnamed == 1
    decision = talk.ask()
    assert set(talk.asked_for(decision).values()) == {LIMIT}  # restored: it passes
    assert talk.link.replicas.known == {}
    assert isinstance(decision, Forward)
    assert talk.hear(decision).error_code == 0


def test_a_topic_that_turns_out_to_be_listed_stays_throttled() -> None:
    talk = conversation(0, version=17)
    talk.throttle.apply(only("t", 0), 0.0)
    talk.fetch()
    talk.throttle.names.learn({topic_of(17): "t"})  # type: ignore[dict-item]
    assert talk.fetch().error_code == 0
    assert isinstance(talk.ask(), Hold)


def test_lists_of_every_topic_need_no_name() -> None:
    talk = conversation(0, version=17)
    talk.fetch()
    assert not talk.throttle.names.is_awaited(topic_of(17))  # type: ignore[arg-type]
    assert len(talk.link.replicas.known) == 3


@pytest.mark.parametrize("to", [quotas(0), only("t", 0)], ids=["every topic", "a topic"])
def test_the_metadata_topic_is_never_throttled(to: Quotas) -> None:
    key = (METADATA_TOPIC_ID, 0)
    talk = SessionConversation(throttle(0), {key: 0}, SessionLeader({key: END}), 17)
    talk.throttle.apply(to, 0.0)
    for _ in range(3):
        decision = talk.ask()
        assert talk.sent_on(decision).max_wait_ms == 500
        assert set(talk.asked_for(decision).values()) == {LIMIT}
        assert isinstance(decision, Forward)
        talk.hear(decision)
    assert not talk.throttle.names.is_awaited(METADATA_TOPIC_ID)


@each_version
def test_a_grant_that_brings_nothing_is_worth_more_next_time_until_something_comes(version: int) -> None:
    """Within a session the leader takes another first: a batch larger than the grant does not come."""
    talk = opened(version=version, partitions=2)
    replicas = [talk.link.replicas.known[key] for key in talk.wants]
    talk.leader.gives_nothing = True
    for _ in range(12):
        talk.now += 1
        talk.fetch()
    assert [replica.need_bytes for replica in replicas] == [LIMIT, LIMIT]
    assert all(replica.stalls for replica in replicas)
    talk.leader.gives_nothing = False
    for _ in range(4):
        talk.now += 5
        talk.fetch()
    assert [replica.need_bytes for replica in replicas] == [LEAST_NEED_BYTES, LEAST_NEED_BYTES]


@each_version
def test_each_grant_that_brings_nothing_doubles_what_the_next_is_worth(version: int) -> None:
    """Two are granted at once; whichever the leader takes first, neither comes first for certain."""
    talk = opened(40 * MIB, version=version, partitions=2)
    replicas = [talk.link.replicas.known[key] for key in talk.wants]
    before = [replica.need_bytes for replica in replicas]
    talk.now += 5
    decision = talk.waited(talk.ask())
    assert isinstance(decision, Forward)
    assert decision.outlook is not None
    assert set(decision.outlook.grants) == set(talk.wants)
    decision.outlook.finish(talk.now)
    assert [replica.need_bytes for replica in replicas] == [min(2 * need, LIMIT) for need in before]


@each_version
def test_observing_omits_nothing(version: int) -> None:
    talk = opened(0, version=version, in_sync=1)
    talk.fetch()
    assert cached(talk) == [2]
    talk.throttle.apply(quotas(0, enforce=False), talk.now)
    talk.fetch()
    assert cached(talk) == [0, 1, 2]
    partitions = talk.leader.cache.sessions[talk.session_id].partitions
    assert {each.ask.partition_max_bytes for each in partitions.values()} == {LIMIT}
    assert talk.follower.errors == []


# Whatever happens, in any order.

HAPPENS = st.lists(
    st.one_of(
        st.just(("fetch",)),
        st.just(("fetch",)),
        st.tuples(st.just("rate"), st.sampled_from([0, 64 * 1024, 4 * MIB, 400 * MIB, float("inf")])),
        st.tuples(st.just("list"), st.sampled_from(["all", "none", "t", "u", "t:0"])),
        st.tuples(st.just("enforce"), st.booleans()),
        st.tuples(st.just("produce"), st.integers(0, 4)),
        st.tuples(st.just("assign"), st.integers(0, 4)),
        st.tuples(st.just("hold"), st.sampled_from([0.001, 0.1, 0.7])),
        st.just(("reconnect",)),
        st.just(("restart",)),
        st.just(("evict",)),
        st.just(("names",)),
    ),
    min_size=5,
    max_size=50,
)


class Flips:
    """A conversation to which things happen, and what must be true of it all the while."""

    def __init__(self, version: int, policy: Policy, slots: int) -> None:
        self.keys = [(topic_of(version, name), p) for name, p in (("t", 0), ("t", 1), ("t", 2), ("u", 0), ("u", 1))]
        self.policy = policy
        self.rate, self.listed, self.enforce = 4.0 * MIB, "all", True
        leader = SessionLeader(dict.fromkeys(self.keys, 3000), slots=slots)
        wants = {key: 3000 if number % 2 else 0 for number, key in enumerate(self.keys)}
        self.talk = SessionConversation(throttle(self.rate, policy=policy), wants, leader, version)

    def happen(self, what: str, *how: object) -> None:
        getattr(self, what)(*how)
        talk = self.talk
        assert talk.follower.complaints == []
        assert talk.leader.cache.emptied == 0
        assert len(talk.leader.cache.sessions) <= 3

    def fetch(self) -> None:
        self.talk.fetch()
        self.talk.now += 0.01

    def hold(self, seconds: float) -> None:
        """Time passes between the first decision and the last, and quotas change meanwhile."""
        decision = self.talk.ask()
        if isinstance(decision, Hold):
            self.talk.now += seconds
            self.rate, before = 4.0 * MIB, self.rate
            self.apply()
            decision = self.talk.decide()
            self.rate = before
            self.apply()
        self.talk.hear(self.talk.waited(decision))

    def apply(self) -> None:
        self.talk.throttle.apply(self.quotas(), self.talk.now)

    def quotas(self) -> Quotas:
        match self.listed:
            case "all":
                found = quotas(self.rate)
            case "none":
                found = Quotas(leader=RoleQuota(self.rate), follower=RoleQuota(self.rate))
            case "t:0":
                found = only("t", self.rate, Partitions(frozenset({0})))
            case name:
                found = only(name, self.rate)
        return replace(found, enforce=self.enforce)

    def change_rate(self, rate: float) -> None:
        self.rate = rate
        self.apply()

    def lift(self, how: str) -> None:
        match how:
            case "list":
                self.list("none")
            case "rate":
                self.change_rate(float("inf"))
            case _:
                self.enforced(False)
        self.talk.now += 20  # whatever debt there was is forgotten

    def list(self, which: str) -> None:
        self.listed = which
        self.apply()

    def enforced(self, enforce: bool) -> None:
        self.enforce = enforce
        self.apply()

    def produce(self, number: int, count: int = 50) -> None:
        self.talk.leader.ends[self.keys[number]] += count

    def assign(self, number: int) -> None:
        """Another partition is this follower's, or no longer; one stays."""
        key, wants = self.keys[number], self.talk.wants
        if key not in wants:
            wants[key] = min(self.talk.leader.ends[key], 1000)
        elif len(wants) > 1:
            del wants[key]

    def reconnect(self) -> None:
        self.talk.reconnect()
        self.talk.follower.failed()

    def restart(self) -> None:
        self.talk.link.close()
        self.talk.throttle = throttle(self.rate, policy=self.policy)
        self.apply()
        del self.talk.link
        self.talk.reconnect()

    def evict(self) -> None:
        self.talk.leader.cache.sessions.clear()

    def names(self) -> None:
        if self.talk.version >= 13:
            self.talk.throttle.names.learn({key[0]: bytes(key[0]).decode()[0] for key in self.keys})  # type: ignore[arg-type]


@given(
    happens=HAPPENS,
    version=st.sampled_from([7, 11, 12, 13, 17, 18]),
    policy=st.sampled_from([Policy.STRICT, Policy.KIP73]),
    slots=st.sampled_from([0, 1000]),
    lifted=st.sampled_from(["list", "rate", "enforce"]),
)
@settings(max_examples=150, deadline=None)
def test_whatever_happens_every_partition_reaches_the_end_once_the_throttle_is_lifted(
    happens: list[tuple[object, ...]], version: int, policy: Policy, slots: int, lifted: str
) -> None:
    """Where lists stay as they are, within the session that was translated."""
    flips = Flips(version, policy, slots)
    for what, *how in happens:
        flips.happen({"rate": "change_rate", "enforce": "enforced"}.get(str(what), str(what)), *how)
    for number in range(len(flips.keys)):
        flips.happen("produce", number, 2000)
    for _ in range(4):  # whatever came last, something is omitted now, if anything may be
        flips.happen("fetch")
    flips.lift(lifted)
    for _ in range(25):
        flips.happen("fetch")
    assert flips.talk.lag == 0
