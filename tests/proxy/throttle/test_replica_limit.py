"""Made-up names do not fill the memory, and who was remembered before them goes on being throttled."""

from __future__ import annotations

import pytest

from protocol.wire.topics import MAX_REMEMBERED, DecodedNames
from proxy.ledger import ledger as ledgers
from proxy.ledger import link_journal
from proxy.ledger.blocks import Position, TrafficKey
from proxy.ledger.ledger import Ledger
from proxy.quotas import Quotas
from proxy.quotas.rules import MAX_RESOLVED, RoleQuota
from proxy.throttle import throttled_lists
from proxy.throttle.decision import Answer, Forward
from proxy.throttle.link import Link
from proxy.throttle.replicas import ReplicaCountLimit
from tests.proxy.conversation import Conversation, behind, throttle


def made_up(count: int, start: int = 0) -> dict[tuple[str, int], int]:
    return {(f"made-up-{n}", 0): 0 for n in range(start, start + count)}


def test_what_is_not_remembered_passes_as_it_came() -> None:
    conversation = behind(partitions=3)
    conversation.throttle.remembered.most_of_connection = 4
    conversation.offsets |= made_up(50)
    asked = conversation.asked_for(conversation.ask())
    assert {key for key in asked if key[0] != "t"} == made_up(50).keys()
    assert [asked[key] for key in list(made_up(50))[1:]] == [1024 * 1024] * 49  # their own limits
    assert len(conversation.link.replicas) == 4
    assert conversation.link.replicas.not_remembered == 49
    assert conversation.throttle.statistics.omitted_partitions == 2


def test_connections_share_what_is_remembered_of_a_role() -> None:
    of = throttle()
    of.remembered.most = 10
    first, second = Conversation(of), Conversation(of)
    first.offsets, second.offsets = made_up(8), made_up(8, 100)
    first.meet()
    second.meet()
    assert (len(first.link.replicas), len(second.link.replicas)) == (8, 2)
    first.link.close()
    second.ask()
    assert len(second.link.replicas) == 2  # until it is counted again
    of.recount()
    assert of.remembered.count == 2
    second.ask()
    assert len(second.link.replicas) == 8


def test_nothing_new_is_remembered_while_memory_is_short() -> None:
    conversation = behind(partitions=2)
    conversation.throttle.remembered.is_memory_short = True
    conversation.offsets |= made_up(5)
    decision = conversation.ask()
    assert isinstance(decision, Forward)
    assert conversation.throttle.statistics.omitted_partitions == 1
    assert len(conversation.link.replicas) == 2


@pytest.mark.parametrize("topics", [None, "listed"])
def test_topics_that_are_looked_up_once_are_forgotten_in_time(topics: str | None) -> None:
    quota = RoleQuota.of_every_topic(1.0) if topics is None else RoleQuota(1.0)
    for number in range(MAX_RESOLVED + 100):
        assert quota.selects(f"t{number}", 0) == (topics is None)
    assert len(quota._resolved) <= MAX_RESOLVED
    assert not quota.selects("t" * 250, 0)
    assert "t" * 250 not in quota._resolved


def test_topics_without_listed_partitions_are_remembered_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throttled_lists, "MAX_FREE_TOPICS", 10)
    of = throttle()
    of.apply(Quotas(leader=RoleQuota(1.0)), 0.0)
    conversation = Conversation(of)
    conversation.offsets = made_up(95)
    conversation.ask()
    assert 0 < len(conversation.link.replicas._chosen.free_topics) <= 10


def test_a_name_that_no_topic_can_have_is_decoded_and_not_kept() -> None:
    names = DecodedNames()
    assert names[b"x" * 250] == "x" * 250
    assert not dict.__len__(names)
    for number in range(MAX_REMEMBERED + 1):
        assert names[str(number).encode()] == str(number)
    assert len(names) <= MAX_REMEMBERED


def test_the_journal_tells_of_so_many_and_counts_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_journal, "MAX_SEEN", 3)
    of = throttle()
    of.ledger = Ledger(0.0)
    conversation = Conversation(of)
    conversation.link = Link(of, "peer")
    conversation.offsets = made_up(5)
    conversation.meet()
    assert of.ledger.dropped == 2
    assert sum(len(traffic.replicas) for block in of.ledger.cut(1.0) for traffic in block.traffic_lines()) == 3


def test_the_journal_tells_of_no_more_if_the_quota_keeps_them_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_journal, "MAX_SEEN", 3)
    of = throttle(0.0)
    of.ledger = Ledger(0.0)
    conversation = Conversation(of)
    conversation.link = Link(of, "peer")
    conversation.offsets = made_up(5)
    conversation.meet()
    conversation.ask()  # held
    conversation.now += 0.6
    assert isinstance(conversation.decide(), Answer)
    assert of.ledger.dropped == 2 + 2
    found = [each for block in of.ledger.cut(1.0) for traffic in block.traffic_lines() for each in traffic.replicas]
    assert sum(each.omitted for each in found) == 3


def test_a_ledger_sums_up_so_many_and_counts_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledgers, "MAX_KEYS", 3)
    monkeypatch.setattr(ledgers, "MAX_KNOWN", 2)
    ledger = Ledger(0.0)
    for partition in range(5):
        key = TrafficKey("leader", "102", "t", partition, throttled=True, in_sync=False)
        ledger.fetched(key, Position(1, 2, 0), record_bytes=10, wire_bytes=20, now=0.0)
    assert ledger.dropped == 2
    (traffic,) = (traffic for block in ledger.cut(1.0) for traffic in block.traffic_lines())
    assert [replica.partition for replica in traffic.replicas] == [0, 1, 2]
    assert len(ledger._known) == 2


def test_counting_admits_until_either_bound() -> None:
    remembered = ReplicaCountLimit(most=3, most_of_connection=2)
    assert [remembered.admits(n) for n in (0, 1, 2, 1, 0)] == [True, True, False, True, False]
