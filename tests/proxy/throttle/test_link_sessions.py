"""Fetch sessions (v7 to v18): what is forgotten, listed again, answered here, and when one starts again."""

from __future__ import annotations

import pytest

from proxy.quotas import Quotas, RoleQuota
from proxy.quotas.replicas import Partitions
from proxy.quotas.rules import METADATA_TOPIC_ID
from proxy.throttle.decision import Answer, Forward, Hold
from proxy.throttle.link import REFRESH_AT_ONCE, REFRESH_CHECK_SECONDS, REFRESH_SECONDS
from proxy.throttle.replica import MIN_NEED_BYTES
from proxy.throttle.request_builder import FIRST_CONTACT_BYTES
from tests.proxy.conversation import LIMIT, MIB, quotas, throttle
from tests.proxy.session_conversation import MESSAGE_BYTES, SessionConversation, SessionLeader, only, topic_of

NOTHING = Quotas(leader=RoleQuota(4 * MIB), follower=RoleQuota(4 * MIB))
END = 100_000
GATE = 4 * MIB // 10
each_version = pytest.mark.parametrize("version", [7, 12, 17])


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
    return [key[1] for key in keys]


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
    assert numbers(talk.asked_for(again)) == [0]
    assert isinstance(again, Forward)
    assert numbers(talk.hear(again).entries) == [0]
    assert cached(talk) == [0, 2]
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
    talk.throttle.selection.names.learn({topic_of(version): "t"} if version >= 13 else {})
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
    assert decision.pending is not None
    assert decision.pending.grants
    decision.pending.lost(talk.now)
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
    names = talk.throttle.selection.names
    first = talk.ask()
    assert set(talk.asked_for(first).values()) == {FIRST_CONTACT_BYTES}
    assert isinstance(first, Forward)
    talk.hear(first)
    names.learn({topic_of(17, "other"): "other"}, [topic_of(17)])
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
    talk.throttle.selection.names.learn({topic_of(17): "t"})
    assert talk.fetch().error_code == 0
    assert isinstance(talk.ask(), Hold)


def test_lists_of_every_topic_need_no_name() -> None:
    talk = conversation(0, version=17)
    talk.fetch()
    assert not talk.throttle.selection.names.is_awaited(topic_of(17))
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
    assert not talk.throttle.selection.names.is_awaited(METADATA_TOPIC_ID)


@each_version
def test_a_grant_that_brings_nothing_is_worth_more_next_time_until_something_comes(version: int) -> None:
    """Within a session the leader takes another first: a batch larger than the grant does not come."""
    talk = opened(version=version, partitions=2)
    replicas = [talk.link.replicas.known[key] for key in talk.wants]
    talk.leader.gives_nothing = True
    most = [0, 0]
    for _ in range(16):
        talk.now += 1
        talk.fetch()
        most = [max(size, replica.need_bytes) for size, replica in zip(most, replicas, strict=True)]
    assert most == [LIMIT, LIMIT]
    assert all(replica.stalls for replica in replicas)
    talk.leader.gives_nothing = False
    for _ in range(4):
        talk.now += 5
        talk.fetch()
    assert [replica.need_bytes for replica in replicas] == [MIN_NEED_BYTES, MIN_NEED_BYTES]


@each_version
def test_each_grant_that_brings_nothing_doubles_what_the_next_is_worth(version: int) -> None:
    """Two are granted at once; whichever the leader takes first, neither comes first for certain."""
    talk = opened(40 * MIB, version=version, partitions=2)
    replicas = [talk.link.replicas.known[key] for key in talk.wants]
    before = [replica.need_bytes for replica in replicas]
    talk.now += 5
    decision = talk.waited(talk.ask())
    assert isinstance(decision, Forward)
    assert decision.pending is not None
    assert set(decision.pending.grants) == set(talk.wants)
    decision.pending.finish(talk.now)
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


@each_version
def test_at_quota_0_high_watermarks_are_still_heard_of_within_a_session(version: int) -> None:
    """A leader tells a high watermark when a partition is listed again, so to list it for a moment is enough."""
    talk = opened(0, version=version)
    talk.fetch()
    moved = dict.fromkeys(talk.leader.ends, 3 * END)
    talk.leader.ends.update(moved)
    talk.now += REFRESH_SECONDS
    decision = talk.waited(talk.ask())
    assert set(talk.asked_for(decision).values()) == {FIRST_CONTACT_BYTES}
    assert isinstance(decision, Forward)
    assert talk.hear(decision).error_code == 0
    known = talk.link.replicas.known
    assert {replica.high_watermark for replica in known.values()} == {3 * END}
    assert isinstance(talk.ask(), Hold)
    assert talk.leader.cache.emptied == 0
    assert talk.follower.complaints == talk.follower.errors == []


@pytest.mark.parametrize("rate", [0, 4 * MIB])
def test_of_many_some_are_asked_for_at_once_and_the_others_with_the_next_grants(rate: int) -> None:
    """All of 20 000 at once, every five seconds, held up other connections for 0.1 s. Without grants each such fetch
    brings a batch in vain, so the next ones wait."""
    talk = opened(rate, partitions=5 * REFRESH_AT_ONCE // 2)
    talk.leader.ends.update(dict.fromkeys(talk.leader.ends, 3 * END))
    talk.now += REFRESH_SECONDS
    began, portions = talk.now, 0
    known = talk.link.replicas.known.values()
    while any(replica.high_watermark != 3 * END for replica in known):
        decision = talk.waited(talk.ask())
        if isinstance(decision, Forward):
            probed = [key for key, limit in talk.asked_for(decision).items() if limit == FIRST_CONTACT_BYTES]
            assert len(probed) <= REFRESH_AT_ONCE
            portions += bool(probed)
        talk.hear(decision)
    assert portions == (2 if rate else 3)  # the others were granted something meanwhile
    assert (talk.now - began < REFRESH_CHECK_SECONDS) is (rate > 0)
    assert talk.follower.complaints == talk.follower.errors == []
