"""A link that is put onto another process' in the middle of a conversation: neither follower nor leader notices."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from proxy.handover.connection_state import link_message, restore_link
from proxy.handover.messages import LinkMessage
from proxy.ledger.ledger import Ledger
from proxy.throttle.decision import Answer, Forward
from proxy.throttle.link import Link
from tests.proxy.conversation import MIB, Conversation, response_entry, throttle
from tests.proxy.session_conversation import LEADER, MESSAGE_BYTES, SessionConversation, SessionLeader, topic_of

END = 900


def written(state: LinkMessage) -> LinkMessage:
    """As it comes out at the other end."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(state), type=LinkMessage)


def hand_over(talk: SessionConversation, *, clock: float = 0.0, ledger: Ledger | None = None) -> None:
    """To a process whose clock shows `clock` more."""
    state = written(link_message(talk.link, talk.now))
    available = talk.throttle.budget.state(talk.now)
    talk.now += clock
    talk.throttle = throttle(4 * MIB)
    talk.throttle.ledger = ledger
    talk.throttle.budget.restore(available, talk.now)
    talk.link = Link(talk.throttle, "peer", leader=LEADER)
    restore_link(talk.link, state, talk.now)


def move(talk: Conversation, rounds: int) -> Counter[int]:
    """All that is granted comes; return the bytes by partition."""
    got: Counter[int] = Counter()
    for _ in range(rounds):
        talk.now += 0.1
        decision = talk.ask()
        if isinstance(decision, Forward):
            granted = talk.asked_for(decision)
            talk.answer(decision, granted)
            got.update({partition: size for (_, partition), size in granted.items()})
    return got


@pytest.mark.parametrize("version", [7, 12, 17])
@pytest.mark.parametrize("every", [1, 3])
def test_a_session_goes_on_whenever_it_is_handed_over(version: int, every: int) -> None:
    keys = [(topic_of(version), partition) for partition in range(6)]
    wants = {key: END if key[1] == 5 else 0 for key in keys}
    talk = SessionConversation(throttle(4 * MIB), wants, SessionLeader(dict.fromkeys(keys, END)), version)
    assert talk.fetch().error_code == 0
    session_id, began, asked = talk.session_id, talk.now, 0
    while talk.lag:
        asked += 1
        if asked % every == 0:
            hand_over(talk, clock=1000.0 * asked)
            began += 1000.0 * asked
        before = talk.now
        response = talk.fetch()
        assert response.error_code == 0
        assert talk.session_id == session_id
        talk.now = max(talk.now, before + 0.001)
        assert asked < 5000
    # The quota holds across all of them: a burst, and what is given back anew at most once.
    moved = 5 * END * MESSAGE_BYTES
    assert (moved - 2 * MIB) / max(talk.now - began, 0.001) <= 1.05 * 4 * MIB
    assert len(talk.leader.cache.sessions) == 1


def test_the_journal_goes_on_with_the_offsets_of_the_session() -> None:
    """A request of a session lists only what has changed. Of other replicas an offset of -1 was written: by as many
    messages as their partition has they were behind, and made that good in the next second."""
    keys = [(topic_of(12), partition) for partition in range(6)]
    talk = SessionConversation(throttle(4 * MIB), dict.fromkeys(keys, 100), SessionLeader(dict.fromkeys(keys, END)))
    for _ in range(3):
        talk.fetch()
    ledger = Ledger(talk.now)
    hand_over(talk, ledger=ledger)
    for _ in range(10):
        talk.fetch()
    lines = (line for block in ledger.cut(talk.now + 1) for line in block.traffic_lines())
    positions = [each.position for line in lines for each in line.replicas]
    assert len({*positions}) > 1
    assert min(each.fetch_offset for each in positions) >= 100


def test_what_was_forwarded_is_replayed_by_the_other_process() -> None:
    """v3: while the quota is spent, the follower is answered with the high watermarks that the first one forwarded."""
    talk = Conversation(throttle(4 * MIB))
    talk.offsets = {("t", 0): 0, ("t", 1): 0}
    first = talk.ask()
    assert isinstance(first, Forward)
    assert first.pending is not None
    first.pending.forwards((response_entry("t", 0, 10, high_watermark=70, log_start=3),), b"", 0, 0.0)
    first.pending.forwards((response_entry("t", 1, 0, high_watermark=80, log_start=4),), b"", 0, 0.0)
    first.pending.finish(0.0)
    state = written(link_message(talk.link, talk.now))
    other = Conversation(throttle(0), now=500.0, offsets={("t", 0): 1, ("t", 1): 0})
    restore_link(other.link, state, other.now)
    decision = other.ask(max_wait_ms=0)
    assert isinstance(decision, Answer)
    replicas = other.link.replicas.known
    assert {key[1]: (each.high_watermark, each.lag) for key, each in replicas.items()} == {0: (70, 69), 1: (80, 80)}


@pytest.mark.parametrize("numbered_from", [0, 1_000_000])
def test_partitions_go_on_taking_turns(numbered_from: int) -> None:
    """Versions that numbered turns went on from the numbers of the first process, and counted from 1: whichever
    partition was served first stayed the first, and one of six had all of the quota."""
    talk = Conversation(throttle(4 * MIB), offsets={("t", partition): 0 for partition in range(6)})
    talk.meet()
    move(talk, 60)
    state = written(link_message(talk.link, talk.now))
    numbered = [each._replace(served=numbered_from + number) for number, each in enumerate(state.replicas)]
    talk.throttle = throttle(4 * MIB)
    talk.link = Link(talk.throttle, "peer")
    restore_link(talk.link, msgspec.structs.replace(state, replicas=numbered), talk.now)
    got = move(talk, 60)
    assert min(got.values()) >= 0.8 * max(got.values()), got


def test_a_debt_is_handed_over() -> None:
    old, new = throttle(4 * MIB), throttle(4 * MIB)
    Link(old, "peer").claim.path.settle(reserved=0, used=8 * MIB, now=0.0)
    available = old.budget.state(0.0)
    assert available is not None
    assert available < -7 * MIB
    new.budget.restore(available, 900.0)
    assert new.budget.state(900.0) == available
    new.budget.restore(10**9, 900.0)
    assert new.budget.state(900.0) == available, "nobody begins with more than its own"


def test_replicas_that_the_new_quotas_do_not_list_are_not_remembered() -> None:
    talk = Conversation(throttle(4 * MIB))
    talk.offsets = {("t", 0): 0}
    talk.ask()
    state = written(link_message(talk.link, talk.now))
    from proxy.quotas import Quotas

    silent = throttle(4 * MIB)
    silent.apply(Quotas(), 0.0)
    link = Link(silent, "peer")
    restore_link(link, state, 0.0)
    assert not link.replicas.known


def test_how_long_a_connection_has_brought_records_is_handed_over() -> None:
    """Otherwise whoever connects after a hand-over would soon have as much of a say as the broker itself."""
    conversation = Conversation(throttle(), offsets={("t", 0): 0})
    conversation.meet()
    for now in (1.0, 1.5, 2.5):
        conversation.now = now
        conversation.answer(conversation.ask(), {("t", 0): 5_000})
    state = written(link_message(conversation.link, conversation.now))
    link = Link(throttle(), "peer")
    restore_link(link, state, 2.5)
    assert link.replicas.timings.proven_seconds == 2


def test_a_replica_s_state_goes_over_as_the_array_that_other_versions_know() -> None:
    """Processes of two versions hand over to each other as long as their messages have one schema."""
    talk = Conversation(throttle(4 * MIB), offsets={("t", 0): 5})
    talk.meet()
    (state,) = link_message(talk.link, talk.now).replicas
    wire = msgspec.msgpack.decode(msgspec.msgpack.encode(state))
    assert wire == ["t", 0, 5, -1, MIB, 1_000_000, -1, "NEW", 0, 0, 0, 0, True, False, None, True, None]


def test_the_new_link_tells_what_was_taken_off_the_old_one() -> None:
    talk = Conversation(throttle(4 * MIB), offsets={("t", 0): 0, ("t", 1): 0, ("t", 2): 0})
    talk.meet()
    for now in (1.0, 2.0):
        talk.now = now
        talk.answer(talk.ask(), {("t", 0): 5000})
    del talk.offsets["t", 2]
    talk.ask()
    (first, *_) = talk.link.replicas.known.values()
    first.saw_batch(5000)
    state = talk.link.state(talk.now)
    assert [each.largest_batch_bytes for each in state.replicas] == [5000, 0, 0]
    assert [each.missing_seconds for each in state.replicas] == [None, None, 0.0]
    other = Link(throttle(4 * MIB), "peer")
    restore_link(other, written(link_message(talk.link, talk.now)), 900.0)
    assert other.state(900.0) == state
