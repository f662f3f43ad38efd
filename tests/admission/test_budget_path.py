"""Several budgets at once: each keeps to its rate in every window, what one leaves the others have, none starves."""

from __future__ import annotations

import heapq
import math
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from admission.budget import Kip73Budget, StrictBudget
from admission.budget_path import BudgetPath
from admission.wishes import MAX_SHARED, Wish

if TYPE_CHECKING:
    from collections.abc import Callable

    from admission.shares import BudgetNode

MIB = 1024 * 1024
KIB = 1024
NEED = 64 * KIB
WISH = Wish(MIB, NEED)


def strict(rate: float) -> StrictBudget:
    return StrictBudget(bytes_per_second=rate, gate_seconds=0.1, burst_seconds=0.25, now=0.0)


def kip73(rate: float) -> Kip73Budget:
    return Kip73Budget(bytes_per_second=rate, samples=11, sample_seconds=1.0)


class Grant(NamedTuple):
    at: float
    connection: int
    part: str | None
    size: int


class Fetcher(NamedTuple):
    """One connection: to which peer, of which topics it is behind, how long an answer takes; in which rack the peer
    is."""

    peer: str
    topics: tuple[str | None, ...]
    seconds: float
    rack: str = "none"


class Run:
    """Fetchers that always want more, in virtual time. `rates`: of racks, peers and topics that have one."""

    def __init__(self, role: float, rates: dict[str, float], fetchers: tuple[Fetcher, ...], seconds: float) -> None:
        self.budgets: dict[str, BudgetNode] = {name: strict(rate) for name, rate in rates.items()}
        self.role = strict(role)
        self.fetchers = fetchers
        self.grants: list[Grant] = []
        due = [(number / 1000, number, self._fetches(number)) for number in range(len(fetchers))]
        heapq.heapify(due)
        while due and due[0][0] < seconds:
            self.now, number, steps = heapq.heappop(due)
            heapq.heappush(due, (next(steps), number, steps))

    def _fetches(self, number: int):  # type: ignore[no-untyped-def]
        fetcher = self.fetchers[number]
        names = (fetcher.rack, fetcher.peer)
        path = BudgetPath(self.role, *(self.budgets[name] for name in names if name in self.budgets))
        of_topics = {t: path.branch(self.budgets[t]) for t in fetcher.topics if t is not None and t in self.budgets}
        order = list(fetcher.topics)
        while True:
            branches = [None if topic is None else of_topics.get(topic) for topic in order]
            sizes = path.grant([WISH] * len(order), self.now, branches=branches if of_topics else ())
            granted = [each for each in zip(order, branches, sizes, strict=False) if each[2]]
            if not granted:
                again = self.now + min(max(path.seconds_until_turn(self.now), 0.002), 0.5)
                path.fetcher.wait(again)
                yield again
                continue
            self.grants += [Grant(self.now, number, topic, size) for topic, _, size in granted]
            yield self.now + fetcher.seconds
            for _, branch, size in granted:
                bounded = [] if branch is None else [(branch, size, size)]
                path.settle(reserved=size, used=size, now=self.now, branches=bounded)
            served = sorted(granted, key=lambda each: each[2] == MIB)
            last = [topic for topic, _, _ in served]  # who had less than it wished for goes before who had all of it
            order = [topic for topic in order if topic not in last] + last

    def of(self, name: str) -> list[Grant]:
        """What passed under the rate of a rack, a peer or a topic."""
        return [each for each in self.grants if name in (*self.fetchers[each.connection][::3], each.part)]


def most_over(grants: list[Grant], rate: float) -> float:
    """By how many bytes the worst window is over `rate`."""
    worst = running = 0.0
    last = 0.0
    for each in grants:
        running = max(running - rate * (each.at - last), 0.0) + each.size
        worst, last = max(worst, running), each.at
    return worst


def burst(rate: float) -> float:
    """What a window may have beyond its rate: the bucket's burst, and one first batch."""
    return max(rate * 0.25, 64 * KIB + rate * 0.125) + NEED


def fair(role: float, rates: dict[str, float], fetchers: tuple[Fetcher, ...]) -> float:
    """What all of them could use together: everything grows alike until something is full. A partition has no more
    than a wish for each answer."""
    limits = {"role": role, **rates}
    flows = []
    for number, fetcher in enumerate(fetchers):
        for topic in dict.fromkeys(fetcher.topics):
            own = f"{number} {topic}"
            flows.append({"role", own, fetcher.rack, fetcher.peer, topic} & (limits.keys() | {own}))
            limits[own] = MIB / fetcher.seconds
    used, live = dict.fromkeys(limits, 0.0), set(range(len(flows)))
    rate_of = [0.0] * len(flows)
    while live:
        room = {
            name: (limit - used[name]) / count
            for name, limit in limits.items()
            if (count := sum(1 for each in live if name in flows[each]))
        }
        step = min(room.values())
        for each in live:
            rate_of[each] += step
            for name in flows[each]:
                used[name] += step
        full = {name for name, limit in limits.items() if limit - used[name] < 1}
        live = {each for each in live if not flows[each] & full}
    return sum(rate_of)


TOPICS = st.lists(st.sampled_from(["x", "y", None]), min_size=1, max_size=4, unique=True).map(tuple)
PLACES = st.sampled_from([("102", "a"), ("103", "a"), ("104", "b"), ("105", "none")])
FETCHERS = st.lists(
    st.builds(
        lambda place, topics, seconds: Fetcher(place[0], topics, seconds, place[1]),
        PLACES,
        TOPICS,
        st.floats(0.0005, 0.06),
    ),
    min_size=1,
    max_size=6,
).map(tuple)
BOUNDED = st.sampled_from(["102", "103", "x", "y", "a", "b"])
RATES = st.dictionaries(BOUNDED, st.integers(MIB // 2, 30 * MIB), max_size=4)


@settings(max_examples=60, deadline=None)
@given(role=st.integers(2 * MIB, 40 * MIB), rates=RATES, fetchers=FETCHERS)
def test_every_budget_holds_in_every_window(role: int, rates: dict[str, float], fetchers: tuple[Fetcher, ...]) -> None:
    run = Run(role, rates, fetchers, 3.0)
    assert most_over(run.grants, role) <= burst(role)
    for name, rate in rates.items():
        assert most_over(run.of(name), rate) <= burst(rate), name


SLOW_AND_SMALL = (Fetcher("102", ("x",), 0.0546875), Fetcher("103", ("x",), 0.046875))
"""Two whose fetches take 50 ms, of which one may have 7 % of the rate."""
TOPIC_NEAR_THE_ROLE = (Fetcher("102", (None, "y"), 0.0513), Fetcher("105", ("y",), 0.0118))
"""Each is first in one of two budgets, and waited for the other in both: they had two thirds of what is possible."""
MANY_OF_A_PEER = (Fetcher("103", (None,), 0.02, "a"), *(Fetcher("102", (None,), 0.03 + n / 250, "a") for n in range(5)))
"""Five connections of a peer that has a seventh of its rack's rate: for each of them the sixth waited in the rack's
budget, where nobody had the rest."""

TWO_IN_STEP = 2 * (Fetcher("102", ("x", "y", None), 0.03125, "a"),)
"""In each of their fetches there is room for two of three and a little more: always the same had that little."""


@settings(max_examples=60, deadline=None)
@given(role=st.integers(2 * MIB, 40 * MIB), rates=RATES, fetchers=FETCHERS)
@example(role=7481338, rates={"x": 7525203, "102": 524289}, fetchers=SLOW_AND_SMALL)
@example(role=38258896, rates={"y": 31366015}, fetchers=TOPIC_NEAR_THE_ROLE)
@example(role=40863219, rates={"a": 14361954, "102": 2134376}, fetchers=MANY_OF_A_PEER)
@example(role=22346041, rates={}, fetchers=TWO_IN_STEP)
def test_nobody_starves_and_what_one_leaves_the_others_have(
    role: int, rates: dict[str, float], fetchers: tuple[Fetcher, ...]
) -> None:
    seconds = 6.0
    run = Run(role, rates, fetchers, seconds)
    assert sum(each.size for each in run.grants) >= 0.75 * fair(role, rates, fetchers) * seconds
    for number, fetcher in enumerate(fetchers):
        for topic in fetcher.topics:
            got = sum(each.size for each in run.grants if (each.connection, each.part) == (number, topic))
            names = (fetcher.rack, fetcher.peer, topic)
            bounds = [role, *(rates[name] for name in names if name is not None and name in rates)]
            assert got >= 0.2 * min(bounds) * seconds / (3 * len(fetchers)) - MIB / 4, (number, topic)


@pytest.mark.parametrize("make", [strict, kip73])
def test_what_a_peer_may_not_have_the_others_have(make: Callable[[float], BudgetNode]) -> None:
    role, peer = make(20 * MIB), make(0)
    held, free = BudgetPath(role, peer), BudgetPath(role)
    if make is kip73:
        peer.settle(held.trunk[1], reserved=0, used=1, now=0.0)
    assert held.grant([WISH], 0.0) == []
    assert held.seconds_until_turn(0.0) > 1
    assert free.grant([WISH], 0.0) == [MIB]


def test_a_grant_is_the_least_of_its_path() -> None:
    role, peer, topic = strict(40 * MIB), strict(8 * MIB), strict(4 * MIB)
    path = BudgetPath(role, peer)
    branch = path.branch(topic)
    granted = path.grant([WISH] * 4, 0.0, branches=[branch, branch, None, None])
    assert granted == [int(0.4 * MIB), 0, int(0.8 * MIB) - int(0.4 * MIB)]


def test_a_rack_holds_its_peers_together_and_each_peer_keeps_to_its_own() -> None:
    """102 may have 2 of the rack's 8 MiB/s, 103 has the other 6, and 104 of another rack what the role has beside."""
    rates = {"a": 8.0 * MIB, "102": 2.0 * MIB}
    fetchers = tuple(Fetcher(peer, (None,), 0.01, rack) for peer, rack in (("102", "a"), ("103", "a"), ("104", "b")))
    run = Run(20.0 * MIB, rates, fetchers, 10.0)
    passed = {each.peer: sum(grant.size for grant in run.of(each.peer)) / (10 * MIB) for each in fetchers}
    assert passed == pytest.approx({"102": 2.0, "103": 6.0, "104": 12.0}, rel=0.05)


def test_unlimited_everywhere_else_the_peers_rate_holds() -> None:
    path = BudgetPath(strict(math.inf), strict(8 * MIB))
    assert sum(path.grant([WISH] * 4, 0.0)) == int(0.8 * MIB)
    assert path.grant([WISH] * 4, 0.0) == []


def test_a_first_batch_that_is_larger_than_a_topics_room_comes_and_is_repaid() -> None:
    path, topic = BudgetPath(strict(40 * MIB)), strict(MIB)
    branch = path.branch(topic)
    assert branch is not None
    large = Wish(MIB, 900 * KIB)
    assert path.grant([large, large], 0.0, branches=[branch, branch]) == [900 * KIB, 0]
    path.settle(reserved=900 * KIB, used=900 * KIB, now=0.0, branches=[(branch, 900 * KIB, 900 * KIB)])
    assert path.seconds_until_turn(0.0) == pytest.approx(0.9, abs=0.05)


def test_who_needs_less_does_not_go_before_who_needs_more() -> None:
    path = BudgetPath(strict(40 * MIB))
    branch = path.branch(strict(4 * MIB))
    wishes = [Wish(300 * KIB, 1), Wish(MIB, 300 * KIB), Wish(50 * KIB, 1)]
    assert not any(path.grant(wishes, 0.0, branches=[branch] * 3)[1:])


def test_many_replicas_of_a_topic_without_room_leave_their_turns_to_others() -> None:
    """They stay the ones served longest ago, and are first at every fetch."""
    path = BudgetPath(strict(40 * MIB))
    shut = path.branch(strict(0.0))
    branches = [shut] * MAX_SHARED + [None]
    assert path.grant([WISH] * len(branches), 0.0, branches=branches) == [0] * MAX_SHARED + [MIB]


def grant_and_settle(path: BudgetPath, wishes: list[Wish], now: float, topic: BudgetNode | None = None) -> int:
    """Have the connection ask, be granted, and be brought all of it at once."""
    branch = None if topic is None else path.branch(topic)
    total = sum(path.grant(wishes, now, branches=() if branch is None else [branch] * len(wishes)))
    if total:
        path.settle(reserved=total, used=total, now=now, branches=() if branch is None else [(branch, total, total)])
    return total


def test_one_that_a_topic_holds_up_keeps_nobody_from_the_roles_bytes() -> None:
    """It had less than the other for long, and is not waited for while its topic has nothing for it."""
    role, topic = strict(10 * MIB), strict(MIB)
    slow, other = BudgetPath(role), BudgetPath(role)
    got = 0
    for tick in range(1000):
        grant_and_settle(slow, [WISH], tick / 100, topic)
        got += grant_and_settle(other, [WISH, WISH], tick / 100)
    assert got >= 0.97 * 9 * MIB * 10


def test_two_that_are_first_in_different_budgets_do_not_wait_for_each_other() -> None:
    role, topic = strict(4 * MIB), strict(4 * MIB)
    one, two = BudgetPath(role), BudgetPath(role)
    branch = two.branch(topic)
    assert branch is not None
    one.trunk[0].credit, branch.credit = -MIB, -MIB
    got = {one: 0, two: 0}
    for tick in range(200):
        for path in (one, two):
            got[path] += grant_and_settle(path, [WISH], tick / 100, topic)
    assert min(got.values()) > MIB
    assert sum(got.values()) > 7 * MIB


def test_a_branch_that_is_wanted_no_more_keeps_nobody_else_waiting() -> None:
    """Other connections left bytes in the topic's budget for it, until the connection ended."""
    path = BudgetPath(strict(1e8))
    left, kept = path.branch(strict(1e6)), path.branch(strict(1e6))
    assert left is not None
    assert kept is not None
    wish = Wish(1 << 20, 65536)
    path.grant([wish, wish], 1.0, branches=[left, kept])
    assert left.wants
    path.grant([wish], 2.0, branches=[kept])
    assert (left.wants, kept.wants) == (False, True)


def test_above_a_budget_that_is_shut_for_long_nothing_is_kept_for_that_time() -> None:
    """Otherwise others would wait for the connection in the role's budget, for bytes that its peer's does not give."""
    path = BudgetPath(strict(10 * MIB), strict(MIB))
    assert path.grant([WISH], 0.0) == [int(0.1 * MIB)]
    assert [claim.elsewhere_until for claim in path.trunk] == pytest.approx([0.1, 0.0], abs=0.001)


def test_a_priority_holds_in_every_budget_of_the_path() -> None:
    role, topic, later = strict(1e6), strict(1e6), strict(1e6)
    path = BudgetPath(role)
    path.branch(topic)
    path.place(2)
    path.branch(later)
    assert [node.shares.has_priorities for node in (role, topic, later)] == [True] * 3
    path.place(0)
    assert [node.shares.has_priorities for node in (role, topic, later)] == [False] * 3


def test_a_reservation_is_settled_in_each_budget_once() -> None:
    role, peer, topic = (strict(rate * MIB) for rate in (40, 20, 10))
    budgets = (role, peer, topic)
    path = BudgetPath(role, peer)
    branch = path.branch(topic)
    assert branch is not None
    before = [each._bucket.available(0.0) for each in budgets]
    (size,) = path.grant([WISH], 0.0, branches=[branch])
    assert [each._bucket.available(0.0) for each in budgets] == [each - size for each in before]
    path.settle(reserved=size, used=0, now=0.0, branches=[(branch, size, 0)])
    assert [each._bucket.available(0.0) for each in budgets] == before
    assert [each.shares._claims for each in budgets] == [[path.trunk[0]], [path.trunk[1]], [branch]]


def test_a_connection_that_is_rerouted_keeps_its_place_where_it_still_passes() -> None:
    """What is on its way is settled on the path that it was granted on."""
    role, old, new = (strict(10.0 * MIB) for _ in range(3))
    path = BudgetPath(role, old)
    (size,) = path.grant([WISH], 0.0)
    rerouted = path.reroute(role, new)
    assert (rerouted.trunk[0], rerouted.fetcher) == (path.trunk[0], path.fetcher)
    assert [each.shares._claims for each in (role, old, new)] == [[path.trunk[0]], [], [rerouted.trunk[1]]]
    path.settle(reserved=size, used=size, now=0.0)
    assert [each._bucket._reserved for each in (role, old, new)] == [0, 0, 0]
    assert path.branch(new) is None
    rerouted.leave()
    assert not role.shares._claims
