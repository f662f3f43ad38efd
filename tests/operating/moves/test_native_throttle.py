"""What a move left in Kafka's own configs: as kafka-reassign-partitions writes it, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from operating.moves.cluster_view import ClusterView, NativeConfigs, NativeThrottle, PartitionState
from operating.moves.native_throttle import native_findings, needs_every_list
from reassignment import Document, Ongoing, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping

LEADER, FOLLOWER = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"
LEADER_RATE, FOLLOWER_RATE = "leader.replication.throttled.rate", "follower.replication.throttled.rate"
DISKS = "replica.alter.log.dirs.io.max.bytes.per.second"
A, B, CLICKS = TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("clicks", 0)
MOVE = Document({A: (102, 103)})
"""orders-0 was on 101 and 102; 103 is new."""
BROKERS = frozenset({101, 102, 103})
DONE = {A: PartitionState(102, (102, 103), (102, 103)), B: PartitionState(101, (101,), (101,))}
VIEW = ClusterView(DONE, {}, {}, BROKERS)
OWN = (f"orders {LEADER} 0:101,0:102", f"orders {FOLLOWER} 0:103")
RATES = tuple(f"{broker} {key} 5" for broker in (101, 102, 103) for key in (LEADER_RATE, FOLLOWER_RATE))


def throttle(text: str) -> NativeThrottle:
    """`orders KEY VALUE` of a topic, `101 KEY VALUE` of a broker."""
    name, key, value = text.split(" ", 2)
    return NativeThrottle("broker" if name.isdecimal() or name == "-" else "topic", name.strip("-"), key, value)


class Case(NamedTuple):
    throttles: tuple[str, ...]
    left: tuple[str, ...]
    becomes: tuple[str, ...] = ()
    note: str = ""
    waits_for: str = ""
    silent: tuple[int, ...] = ()
    move: Document = MOVE
    view: ClusterView = VIEW
    answered: frozenset[int] = BROKERS
    copying: Mapping[int, str] = {}
    under_way: tuple[TopicPartition, ...] = ()


CASES = {
    "nothing": Case((), ()),
    "as the tool leaves it": Case(OWN + RATES, OWN + RATES),
    "one side, by hand": Case((OWN[1], RATES[5]), (OWN[1], RATES[5])),
    "another partition of the topic moves": Case(
        OWN + RATES, OWN + RATES, waits_for="orders-1 is still moving",
        view=VIEW._replace(ongoing={B: Ongoing((101, 103), (103,), ())}),
    ),
    "another topic moves": Case(
        OWN, OWN, waits_for="clicks-0 is still moving", view=VIEW._replace(ongoing={CLICKS: Ongoing((1, 2), (2,), ())})
    ),
    "it is not in sync": Case(OWN, OWN, waits_for="orders-0 is still moving", under_way=(A,)),
    "before 2.4 nobody tells what moves": Case(OWN + RATES, OWN + RATES, view=VIEW._replace(ongoing=None)),
    "a broker that the lists name does not answer": Case(
        OWN + RATES[2:], OWN + RATES[2:], silent=(101,), answered=frozenset({102, 103})
    ),
    "a broker of the target does not answer, and no list is there": Case(
        (), (), silent=(103,), answered=frozenset({101, 102})
    ),
    "entries of other partitions": Case(
        (f"orders {LEADER} 0:101,0:102,1:101", OWN[1]), (f"orders {LEADER} 0:101,0:102,1:101", OWN[1]),
        becomes=("1:101",),
    ),
    "everything is throttled, always": Case(
        (f"orders {LEADER} *", f"orders {FOLLOWER} *", *RATES), (), note=f"topic orders: {LEADER} = *: not by this move"
    ),
    "every replica is listed, always": Case(
        (f"orders {LEADER} 0:102,0:103", f"orders {FOLLOWER} 0:102,0:103", *RATES), (),
        note=f"topic orders: {FOLLOWER} = 0:102,0:103: not by this move: it stays",
    ),
    "leaders are listed, always": Case(
        (f"orders {LEADER} 0:102,0:103", *RATES), (), note="5 more rates of brokers: not by this move"
    ),
    "a rate without any list": Case(
        RATES[:1], (), note=f"broker 101: {LEADER_RATE} = 5: not by this move, as far as lists tell: stays"
    ),
    "a rate of a broker that has no part in it": Case(
        (*OWN, f"104 {LEADER_RATE} 9"), OWN, note=f"broker 104: {LEADER_RATE} = 9: not by this move"
    ),
    "a rate by which another topic is throttled": Case(
        (*OWN, RATES[0], RATES[1], f"clicks {LEADER} 7:101"), (*OWN, RATES[1]),
        note=f"broker 101: {LEADER_RATE} = 5: stays, since clicks is throttled by it: topic clicks: {LEADER} = 7:101",
    ),
    "a rate by which all of another topic is throttled": Case(
        (*OWN, RATES[1], f"clicks {FOLLOWER} *"), OWN, note="stays, since clicks is throttled by it",
    ),
    "a rate that this topic's others need": Case(
        (f"orders {LEADER} 0:101,0:102,1:101", OWN[1], RATES[0], RATES[2]),
        (f"orders {LEADER} 0:101,0:102,1:101", OWN[1], RATES[2]), becomes=("1:101",),
        note="stays, since orders is throttled by it",
    ),
    "a rate of every broker": Case((f"- {LEADER_RATE} 9",), (), note="of every broker; take it back with"),
    "a partition that loses a replica, beside one that gets one": Case(
        (f"orders {LEADER} 0:101,0:102,1:101,1:102", OWN[1]), (f"orders {LEADER} 0:101,0:102,1:101,1:102", OWN[1]),
        move=Document({A: (102, 103), B: (101,)}),
    ),
    "disks": Case((f"103 {DISKS} 5",), (f"103 {DISKS} 5",), move=Document(MOVE.assignment, {(103, A): "/b"})),
    "disks of another broker": Case(
        (f"101 {DISKS} 5",), (), move=Document(MOVE.assignment, {(103, A): "/b"}), note="not by this move"
    ),
    "disks, and the move names none": Case((f"103 {DISKS} 5",), (), note=f"broker 103: {DISKS} = 5: not by this move"),
    "disks that still copy something else": Case(
        (f"103 {DISKS} 5",), (f"103 {DISKS} 5",), move=Document(MOVE.assignment, {(103, A): "/b"}),
        copying={103: "still copies"}, waits_for="broker 103 still copies",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_only_what_the_move_created_is_left_behind_by_it(case: Case) -> None:
    seen = NativeConfigs(tuple(map(throttle, case.throttles)), case.answered, case.copying)
    found = native_findings(case.move, case.view, seen, under_way=case.under_way)
    assert [each.throttle for each in found.left] == [throttle(text) for text in case.left]
    assert tuple(each.becomes for each in found.left if each.becomes is not None) == case.becomes
    assert (found.waits_for, found.silent) == (case.waits_for, case.silent)
    assert case.note in "\n".join(found.notes)
    assert bool(found.notes) == bool(case.note)
    # Every throttle is either left behind, or a note says why it is not.
    kept = [each for each in seen.throttles if each not in [left.throttle for left in found.left]]
    assert len(kept) == 0 or case.note


def test_nothing_is_removed_while_anything_moves() -> None:
    """Both lists of a topic went, with the rates, while another of its partitions was on its way."""
    moves = VIEW._replace(ongoing={B: Ongoing((101, 103), (103,), ())})
    seen = NativeConfigs(tuple(map(throttle, OWN + RATES)), BROKERS)
    assert native_findings(MOVE, moves, seen, under_way=()).removable(force=True) == ()
    assert len(native_findings(MOVE, VIEW, seen, under_way=()).removable(force=False)) == len(OWN + RATES)


def test_lists_stay_until_every_broker_they_name_has_answered() -> None:
    seen = NativeConfigs(tuple(map(throttle, OWN + RATES[2:])), frozenset({102, 103}))
    found = native_findings(MOVE, VIEW, seen, under_way=())
    assert {each.throttle.kind for each in found.removable(force=False)} == {"broker"}
    assert found.removable(force=True) == found.left


@pytest.mark.parametrize(
    ("throttles", "needed"),
    [(OWN + RATES, True), (OWN, False), (RATES, False), ((f"orders {LEADER} *", *RATES), False)],
)
def test_other_lists_matter_only_for_rates_of_the_move(throttles: tuple[str, ...], needed: bool) -> None:
    assert needs_every_list(MOVE, NativeConfigs(tuple(map(throttle, throttles)), BROKERS)) is needed
