"""The kept order is that of a sort of everything, whatever has changed since it was asked for last."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.work_in_steps import run_through
from proxy.throttle import service_order
from proxy.throttle.service_order import ServiceOrder

if TYPE_CHECKING:
    from protocol.session.requests import PartitionKey


@dataclass(eq=False)
class Item:
    key: PartitionKey
    served: float = 0
    placed_at: float = 0
    empty_grants: int = 0


class Step(NamedTuple):
    """`come`: under this key comes one that was never there; `come back`: the one that has left."""

    kind: str
    partition: int = 0
    size: int = 0


STEPS = st.builds(
    Step, st.sampled_from(["come", "come back", "leave", "serve", "serve", "clear"]), st.integers(0, 40),
    st.integers(0, 5),
)  # fmt: skip


class Everything:
    """The members as a caller keeps them, and those that have left."""

    def __init__(self) -> None:
        self.members: dict[PartitionKey, Item] = {}
        self.left: dict[PartitionKey, Item] = {}
        self.order = ServiceOrder(self.members)

    def take(self, step: Step) -> None:
        key = ("t", step.partition)
        if step.kind == "clear":
            self.members.clear()
            self.order.clear()
            return
        item = self.members.get(key)
        if step.kind.startswith("come") and item is None:
            gone = self.left.pop(key, None) if step.kind == "come back" else None
            item = self.members[key] = gone or Item(key)
        elif step.kind == "leave" and item is not None:
            self.left[key] = self.members.pop(key)
        elif step.kind == "serve":
            item = item or self.left.get(key) or Item(key)
            item.served += step.size
        if item is not None:
            self.order.touch(item)

    def agree(self) -> None:
        found = list(run_through(self.order.in_order()))
        assert {id(item) for item in found} == {id(item) for item in self.members.values()}
        assert [item.served for item in found] == sorted(item.served for item in self.members.values())


@pytest.mark.parametrize(("few", "share"), [(0, 1.0), (8, 0.25), (64, 1 / 16)])
@given(rounds=st.lists(st.lists(STEPS, max_size=8), max_size=12))
def test_it_is_the_order_of_a_walk_through_everything(few: int, share: float, rounds: list[list[Step]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(service_order, "FEW", few)
        patch.setattr(service_order, "MAX_MOVED_SHARE", share)
        kept = Everything()
        for partition in range(20):
            kept.take(Step("come", partition))
        for steps in rounds:
            for step in steps:
                kept.take(step)
            kept.agree()


def test_only_those_that_were_served_are_looked_at() -> None:
    """Ten of four thousand are taken from the front and put in their places."""
    looked_at = 0

    class Counted(Item):
        def __getattribute__(self, name: str) -> object:
            nonlocal looked_at
            looked_at += name == "served"
            return super().__getattribute__(name)

    kept = Everything()
    for partition in range(4000):
        item = kept.members["t", partition] = Counted(("t", partition))
        kept.order.touch(item)
    run_through(kept.order.in_order())
    run_through(kept.order.in_order())  # nothing has changed: from now on the order is kept
    for _ in range(3):
        first = list(run_through(kept.order.in_order())[:10])
        for item in first:
            item.served += 7
            kept.order.touch(item)
        looked_at = 0
        assert not {*first} & {*run_through(kept.order.in_order())[:3000]}
        assert looked_at <= 5 * len(first)


def test_of_those_that_stall_one_goes_first_if_others_bring_something_and_the_rest_last() -> None:
    every = Everything()
    for partition in range(5):
        every.take(Step("come", partition))
        every.take(Step("serve", partition, partition))
    for partition in (0, 1):
        item = every.members["t", partition]
        item.empty_grants = 1
        every.order.stall(item)
    assert [item.key[1] for item in run_through(every.order.in_order())] == [0, 2, 3, 4, 1]
    every.order.stall(every.members["t", 0])
    assert [item.key[1] for item in run_through(every.order.in_order())] == [1, 2, 3, 4, 0]
    every.order.has_brought = False
    assert [item.key[1] for item in run_through(every.order.in_order())] == [2, 3, 4, 1, 0]
    every.order.serve(every.members["t", 1], 0)
    assert [item.key[1] for item in run_through(every.order.in_order())] == [1, 2, 3, 4, 0]
    every.take(Step("leave", 0))
    assert [item.key[1] for item in run_through(every.order.in_order())] == [1, 2, 3, 4]


def test_one_makes_up_for_what_others_had_before_it_unless_it_stalled() -> None:
    every = Everything()
    for partition in range(3):
        every.take(Step("come", partition))
        every.take(Step("serve", partition, 100 * partition))
    late, stalled, most = every.members.values()
    every.order.serve(most, 50)
    every.order.stall(stalled)
    every.order.serve(stalled, 10)
    every.order.serve(late, 10)
    assert (late.served, stalled.served, most.served) == (10, 210, 250)
    every.order.level_up(late)
    assert late.served == 200


def test_members_that_come_and_go_while_nobody_asks_are_not_remembered() -> None:
    """A budget of rate 0 asks for no order: 10 000 replicas that a follower had named and dropped stayed in memory."""
    every = Everything()
    for partition in range(200):
        every.take(Step("come", partition))
    run_through(every.order.in_order())
    run_through(every.order.in_order())
    for partition in range(1000, 11_000):
        every.take(Step("come", partition))
        every.take(Step("leave", partition))
    assert len(every.order._touched) <= 200
    assert len(run_through(every.order.in_order())) == 200
