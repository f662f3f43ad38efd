"""Which partitions are in need, by what a broker tells."""

from __future__ import annotations

import pytest

from protocol.metadata import ReplicaCount
from proxy.quotas.priorities import Need, Priorities
from proxy.topology import partition_urgency as module
from proxy.topology.partition_urgency import AGAIN_SECONDS, PartitionUrgency
from proxy.topology.topic_names import TopicNames

COUNTS = {0: ReplicaCount(3, 1), 1: ReplicaCount(3, 2), 2: ReplicaCount(4, 3)}


@pytest.fixture
def urgency() -> PartitionUrgency:
    found = PartitionUrgency(TopicNames())
    found.look(["t", "u"])
    found.learn({"t": COUNTS}, ["t", "u"], 0.0)
    return found


def test_what_lacks_most_is_most_urgent_and_what_nobody_told_is_not(urgency: PartitionUrgency) -> None:
    assert [urgency.urgency_of(("t", partition)) for partition in range(4)] == [2, 1, 0, 0]
    assert urgency.urgency_of(("u", 0)) == urgency.urgency_of(("other", 0)) == 0
    assert urgency.is_any
    assert urgency.known == {("t", 0): Need.UNDER_MIN_ISR, ("t", 1): Need.UNDER_REPLICATED}


def test_topics_are_asked_for_again_and_forgotten_once_nothing_of_them_is_behind(urgency: PartitionUrgency) -> None:
    assert urgency.due(AGAIN_SECONDS / 2) == []
    urgency.look(["t", "u", "v"])
    assert urgency.due(AGAIN_SECONDS / 2) == ["v"]
    assert urgency.due(AGAIN_SECONDS) == ["v", "t", "u"]
    urgency.look(["u"])
    assert not urgency.is_any
    assert urgency.known == {}


@pytest.mark.parametrize("told", [None, {}])
def test_what_is_not_told_any_more_is_urgent_no_more(
    urgency: PartitionUrgency, told: dict[str, dict[int, ReplicaCount]] | None
) -> None:
    urgency.learn(told, ["t"], 5.0)
    assert not urgency.is_any


def test_other_priorities_hold_at_once(urgency: PartitionUrgency) -> None:
    urgency.apply(Priorities(("u", Need.UNDER_REPLICATED)))
    assert [urgency.urgency_of(key) for key in (("u", 7), ("t", 1), ("t", 0))] == [2, 1, 0]
    urgency.apply(Priorities(()))
    assert not urgency.is_any
    assert urgency.due(100.0) == []


def test_a_topic_that_is_named_is_urgent_once_its_id_is_known() -> None:
    names = TopicNames()
    urgency = PartitionUrgency(names)
    urgency.apply(Priorities(("pay*",)))
    topic_id = b"p" * 16
    urgency.look([topic_id])
    assert urgency.urgency_of((topic_id, 0)) == 0
    names.learn({topic_id: "payments"}, [topic_id], 0.0)
    urgency.look([topic_id])
    assert urgency.urgency_of((topic_id, 0)) == 1


def test_what_is_remembered_is_bounded(urgency: PartitionUrgency, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_TOPICS", 3)
    monkeypatch.setattr(module, "MAX_PARTITIONS", 2)
    urgency.look([f"t{each}" for each in range(10)])
    assert len(urgency.due(100.0)) == 3
    asked = urgency.due(100.0)
    urgency.learn({topic: dict.fromkeys(range(5), ReplicaCount(3, 1)) for topic in asked}, asked, 100.0)
    assert len(urgency.known) == 2
