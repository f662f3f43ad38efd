"""Rates of racks, peers and topics inside a role's, in conversations of one link with its follower."""

from __future__ import annotations

import pytest

from admission.budget import Kip73Budget, StrictBudget
from admission.shares import ROLE, BudgetNode
from proxy.config.settings import Policy
from proxy.quotas import Quotas, RoleQuota
from proxy.quotas.finer_rates import FinerRates
from proxy.quotas.replicas import EVERY_PARTITION
from proxy.roles import Role
from proxy.statistics.counters import RoleStatistics
from proxy.throttle.decision import Answer, Hold
from proxy.throttle.link import Link
from proxy.throttle.role_throttle import RoleThrottle
from proxy.topology.topic_names import TopicNames
from tests.protocol.pieces import in_pieces
from tests.proxy.conversation import ENTRY_BYTES, MIB, Conversation, response_entry, settings, throttle

GATE = int(0.1 * MIB)
NONE = FinerRates()


def quotas(finer: FinerRates, rate: float = 40 * MIB, *, enforce: bool = True) -> Quotas:
    quota = RoleQuota(rate, otherwise=EVERY_PARTITION, finer=finer)
    return Quotas(leader=quota, follower=quota, enforce=enforce)


def conversation(
    finer: FinerRates, *, rate: float = 40 * MIB, role: Role = Role.LEADER, policy: Policy = Policy.STRICT
) -> Conversation:
    """Of a follower, broker 102, that is behind in x-0, y-0 and z-0."""
    subject = throttle(rate, role=role, policy=policy)
    subject.apply(quotas(finer, rate), 0.0)
    found = Conversation(subject)
    found.link.peer = "102" if role is Role.FOLLOWER else "10.0.0.1"
    found.offsets = {(topic, 0): 0 for topic in "xyz"}
    found.meet()
    return found


def granted(subject: Conversation) -> dict[str, int]:
    return {topic: size for (topic, _), size in subject.asked_for(subject.ask()).items()}


def reserved(budget: BudgetNode) -> float:
    assert isinstance(budget, StrictBudget)
    return budget._bucket._reserved


def passed(subject: Conversation) -> dict[str, int]:
    return {str(entity): node.passed_bytes for entity, node in subject.throttle.tree.inner.items()}


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("rate", [40 * MIB, float("inf")])
def test_what_goes_to_a_peer_keeps_to_its_rate(role: Role, rate: float) -> None:
    """Whom a connection is with, in the leader's role its first Fetch tells: the replica id of conversations is 102."""
    assert sum(granted(conversation(FinerRates(peers={102: 1.0 * MIB}), rate=rate, role=role)).values()) == GATE
    assert set(granted(conversation(FinerRates(peers={103: 1.0 * MIB}), rate=rate, role=role)).values()) == {MIB}


def test_what_goes_of_a_topic_keeps_to_its_rate_and_what_it_leaves_the_others_have() -> None:
    assert granted(conversation(FinerRates(topics={"x": 1.0 * MIB}))) == {"x": GATE, "y": MIB, "z": MIB}


def test_a_grant_is_the_least_of_its_path() -> None:
    subject = conversation(FinerRates(peers={102: 8.0 * MIB}, topics={"x": 1.0 * MIB}), rate=40 * MIB)
    sizes = granted(subject)
    assert sizes["x"] == GATE
    assert sum(sizes.values()) == int(0.8 * MIB)


def test_brokers_of_a_rack_share_its_rate_and_keep_to_their_own() -> None:
    subject = conversation(FinerRates(racks={"b": 2.0 * MIB, "c": 1.0 * MIB}, peers={103: 0.5 * MIB}))
    subject.throttle.racks.learn({102: "b", 103: "b", 104: "c"})
    subject.throttle.racks_changed()
    other = Conversation(subject.throttle)
    other.offsets = {("x", 0): 0}
    other.meet()
    other.link.peer = "103"
    assert [node.entity for node in other.throttle.tree.trunk("103")] == [ROLE, ("rack", "b"), ("peer", "103")]
    decision = subject.ask()
    asked_for = subject.asked_for(decision)
    assert sum(asked_for.values()) == int(0.2 * MIB)
    subject.answer(decision, asked_for)
    assert passed(subject) == {"rack b": int(0.2 * MIB) + ENTRY_BYTES * len(asked_for), "rack c": 0, "peer 103": 0}


def test_a_rack_that_becomes_known_bounds_what_waits_and_what_was_granted_before_is_settled() -> None:
    subject = conversation(FinerRates(racks={"b": 1.0 * MIB}, topics={"x": 30.0 * MIB}))
    on_its_way = subject.ask()
    assert sum(subject.asked_for(on_its_way).values()) == 3 * MIB
    subject.throttle.racks.learn({102: "b"})
    subject.throttle.racks_changed()
    subject.answer(on_its_way, dict.fromkeys([("x", 0), ("y", 0), ("z", 0)], MIB))
    subject.now = 1.0
    assert sum(granted(subject).values()) == int(0.25 * MIB)
    subject.throttle.racks.learn({102: "c"})
    subject.throttle.racks_changed()
    subject.now = 2.0
    assert sum(granted(subject).values()) == 3 * MIB
    subject.link.close()
    assert all(not node.shares._claims for node in subject.throttle.tree.inner.values())


def test_a_rack_that_changes_while_a_long_request_is_decided_leaves_nothing_reserved() -> None:
    """The grants were reserved in the budget of the old rack and settled in that of the new one."""
    subject = conversation(FinerRates(racks={"b": 4.0 * MIB, "c": 4.0 * MIB}))
    subject.throttle.racks.learn({102: "b"})
    subject.throttle.racks_changed()
    subject.offsets = {(f"t{number}", 0): 0 for number in range(200)}
    subject.answer(subject.ask())
    subject.now = 1.0

    def moves(_: int) -> None:
        if reserved(subject.throttle.budget) and subject.throttle.racks.learn({102: "c"}):
            subject.throttle.racks_changed()

    decision = in_pieces(subject.ask_in_steps(), moves)
    assert subject.throttle.racks.brokers_in("c") == [102]
    subject.answer(decision, dict.fromkeys(list(subject.offsets)[:2], 1000))
    inner = subject.throttle.tree.inner.values()
    assert [reserved(budget) for budget in (subject.throttle.budget, *inner)] == [0, 0, 0]


@pytest.mark.parametrize(("told", "held"), [({}, False), ({102: ""}, False), ({102: "b"}, True)])
def test_a_broker_of_no_rack_or_of_one_that_nobody_told_is_not_held_by_a_racks_rate(
    told: dict[int, str], *, held: bool
) -> None:
    subject = conversation(FinerRates(racks={"b": 0.0}))
    subject.throttle.racks.learn(told)
    subject.throttle.racks_changed()
    assert isinstance(subject.ask(), Hold) is held
    subject.link.replicas.fetch_version = 3
    assert subject.throttle.rack_warnings().unknown == (("102",) if not told else ())


def test_topics_of_a_glob_share_its_rate_but_for_those_that_are_exempt() -> None:
    finer = FinerRates(topics={"y": float("inf")}, globs=(("[x-z]", 1.0 * MIB),))
    assert granted(conversation(finer)) == {"x": GATE, "y": MIB}


def test_a_topic_without_room_is_left_out_and_everything_without_room_waits_for_it() -> None:
    subject = conversation(FinerRates(topics={"x": 1.0 * MIB}))
    subject.answer(subject.ask(), {("x", 0): GATE})
    subject.now = 0.01
    assert granted(subject) == {"y": MIB, "z": MIB}
    subject = conversation(FinerRates(topics=dict.fromkeys("xyz", 1.0 * MIB)))
    subject.answer(subject.ask(), {(topic, 0): GATE for topic in "xyz"})
    decision = subject.ask()
    assert isinstance(decision, Hold)
    assert decision.until == pytest.approx(0.1, abs=0.01)
    subject.now = decision.until
    assert subject.asked_for(subject.decide()).keys() == {("x", 0), ("y", 0), ("z", 0)}


def test_at_rate_0_a_peer_gets_answers_without_records() -> None:
    subject = conversation(FinerRates(peers={102: 0.0}))
    assert isinstance(subject.ask(), Hold)
    subject.now = 0.5
    assert isinstance(subject.decide(), Answer)


def test_what_was_granted_and_did_not_come_goes_back_to_every_budget() -> None:
    subject = conversation(FinerRates(peers={102: 1.0 * MIB}, topics={"x": 1.0 * MIB}))
    for _ in range(3):
        decision = subject.ask()
        assert sum(subject.asked_for(decision).values()) == GATE
        subject.link.claim.path.fetcher.rest(-1.0)
        pending = subject.answer(decision)
        assert not pending.grants
    assert passed(subject) == {"peer 102": 0, "topic x": 0}


def test_replicas_in_sync_are_counted_and_never_held() -> None:
    subject = conversation(FinerRates(peers={102: 1.0 * MIB}, topics={"x": 1.0 * MIB}))
    for topic in "xyz":
        subject.offsets[topic, 0] = 1_000_000
    subject.answer(subject.ask(), {("x", 0): 3 * MIB, ("y", 0): MIB})
    assert passed(subject) == {"peer 102": 4 * MIB + 2 * ENTRY_BYTES, "topic x": 3 * MIB + ENTRY_BYTES}
    decision = subject.ask()
    assert subject.asked_for(decision).keys() == subject.offsets.keys()
    subject.answer(decision, {("x", 0): MIB})
    assert passed(subject) == {"peer 102": 5 * MIB + 3 * ENTRY_BYTES, "topic x": 4 * MIB + 2 * ENTRY_BYTES}


def test_rates_change_while_answers_are_on_their_way() -> None:
    subject = conversation(FinerRates(peers={102: 1.0 * MIB}))
    on_its_way = subject.ask()
    subject.throttle.apply(quotas(FinerRates(peers={102: 2.0 * MIB}, topics={"x": 1.0 * MIB})), 0.0)
    subject.answer(on_its_way, {("x", 0): GATE})
    assert passed(subject) == {"peer 102": GATE + ENTRY_BYTES, "topic x": 0}
    subject.now = 0.24
    on_its_way = subject.ask()
    assert sum(subject.asked_for(on_its_way).values()) == pytest.approx(0.48 * MIB, rel=0.001)
    subject.throttle.apply(quotas(NONE), 0.24)
    assert not subject.throttle.tree.inner
    subject.answer(on_its_way, dict.fromkeys([("y", 0), ("z", 0)], GATE))
    assert set(granted(subject).values()) == {MIB}
    subject.throttle.apply(quotas(FinerRates(topics={"x": 1.0 * MIB})), 2.0)
    subject.link.close()
    assert all(not node.shares._claims for node in subject.throttle.tree.inner.values())


def test_records_that_a_lowered_rate_cannot_bear_are_discarded() -> None:
    subject = conversation(FinerRates(topics={"x": 100.0 * MIB}), rate=400 * MIB)
    decision = subject.ask()
    pending = decision.pending  # type: ignore[union-attr]
    assert pending is not None
    subject.throttle.apply(quotas(FinerRates(topics={"x": 0.5 * MIB}), 400 * MIB), 0.01)
    assert pending.must_discard(0.1)
    assert pending.withholds(response_entry("x", 0, MIB))
    assert not pending.withholds(response_entry("y", 0, MIB))


@pytest.mark.parametrize("finer", [FinerRates(peers={102: 1.0 * MIB}), FinerRates(topics={"x": 1.0 * MIB})])
def test_kip73_has_its_own_arithmetic_for_each(finer: FinerRates) -> None:
    subject = conversation(finer, policy=Policy.KIP73)
    first = subject.ask()
    assert ("x", 0) in subject.asked_for(first)
    subject.answer(first, {("x", 0): 5 * MIB})
    bounded = {("x", 0), ("y", 0), ("z", 0)} if finer.peers else {("x", 0)}
    decision = subject.ask()
    asked = set() if isinstance(decision, Hold) else set(subject.asked_for(decision))
    assert asked == subject.offsets.keys() - bounded


@pytest.mark.parametrize("finer", [FinerRates(peers={102: 1.0 * MIB}), FinerRates(topics={"x": 1.0 * MIB})])
def test_kip73_counts_in_each_what_has_begun(finer: FinerRates) -> None:
    """Two connections of one follower are answered at once: when the second answer begins, the first one counts."""
    subject = conversation(finer, policy=Policy.KIP73)
    first, second = subject.ask().pending, subject.ask().pending  # type: ignore[union-attr]
    assert first is not None
    assert second is not None
    assert not first.must_discard(0.0)
    first.charge_on_send([response_entry("x", 0, 12 * MIB)], 0.0)
    assert second.must_discard(0.0)
    assert second.withholds(response_entry("x", 0, MIB))
    assert second.withholds(response_entry("y", 0, MIB)) == bool(finer.peers)
    first.forwards([response_entry("x", 0, 12 * MIB)], b"", 0, 0.0)
    (node,) = subject.throttle.tree.inner.values()
    assert isinstance(node, Kip73Budget)
    assert node._charged.measure(0.0) == node.passed_bytes == 12 * MIB + ENTRY_BYTES


@pytest.mark.parametrize("finer", [FinerRates(peers={102: 1.0 * MIB}), FinerRates(topics={"x": 1.0 * MIB})])
def test_what_had_begun_is_forgotten_in_each_at_the_end_of_the_answer(finer: FinerRates) -> None:
    subject = conversation(finer, policy=Policy.KIP73)
    pending = subject.ask().pending  # type: ignore[union-attr]
    assert pending is not None
    pending.charge_on_send([response_entry("x", 0, MIB)], 0.0)
    (node,) = subject.throttle.tree.inner.values()
    assert [claim.charged_early_bytes for claim in node.shares._claims] == [MIB + ENTRY_BYTES]
    pending.finish(0.0)
    assert [claim.charged_early_bytes for claim in node.shares._claims] == [0]


def test_observed_rates_hold_nothing_back() -> None:
    subject = conversation(FinerRates(peers={102: 1.0 * MIB}))
    subject.throttle.apply(quotas(FinerRates(peers={102: 1.0 * MIB}), enforce=False), 0.0)
    decision = subject.ask()
    assert set(subject.asked_for(decision).values()) == {MIB}
    subject.answer(decision, {("x", 0): MIB, ("y", 0): MIB})
    assert passed(subject) == {"peer 102": 2 * (MIB + ENTRY_BYTES)}


def test_without_such_rates_there_are_no_such_budgets() -> None:
    subject = conversation(NONE)
    assert not subject.throttle.tree.inner
    assert [claim.budget for claim in subject.link.claim.path.trunk] == [subject.throttle.budget]


def test_a_topic_is_bounded_once_its_name_is_known() -> None:
    names, topic_id = TopicNames(), b"x" * 16
    subject = RoleThrottle(
        Role.LEADER, settings(), quotas=quotas(FinerRates(topics={"x": 1.0})), statistics=RoleStatistics(), now=0.0,
        names=names,
    )  # fmt: skip
    path = Link(subject, "102").claim.path
    assert subject.tree.branches([(topic_id, 0)], path) == [None]
    assert names.wanted(0.0) == [topic_id]
    names.learn({topic_id: "x"}, [topic_id], 0.0)
    branch, none = subject.tree.branches([(topic_id, 0), ("y", 0)], path)
    assert (branch is not None, none) == (True, None)
