"""Several budgets at once: each keeps to its rate in every window, what one leaves the others have, none starves."""

from __future__ import annotations

import heapq
import itertools
import math
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from admission.budget import Budget, Kip73Budget, StrictBudget, Wish
from admission.stakes import Stake, Stakes
from admission.token_bucket import FLIGHT_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

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
        self.budgets: dict[str, Budget] = {name: strict(rate) for name, rate in rates.items()}
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
        own = [Stake.in_budget(self.budgets[name]) for name in (fetcher.rack, fetcher.peer) if name in self.budgets]
        role = Stake.in_budget(self.role)
        stakes = Stakes(role, own)
        of_topics = {t: Stake.in_budget(self.budgets[t]) for t in fetcher.topics if t is not None and t in self.budgets}
        order = list(fetcher.topics)
        while True:
            parts = [None if topic is None else of_topics.get(topic) for topic in order]
            sizes = stakes.admit([WISH] * len(order), parts, self.now)
            granted = [each for each in zip(order, parts, sizes, strict=False) if each[2]]
            if not granted:
                again = self.now + min(max(stakes.seconds_until_turn(self.now), 0.002), 0.5)
                stakes.waits(again)
                yield again
                continue
            self.grants += [Grant(self.now, number, topic, size) for topic, _, size in granted]
            yield self.now + fetcher.seconds
            for _, part, size in granted:
                self.role.settle(role.claim, reserved=size, used=size, now=self.now)
                stakes.settle(part, reserved=size, used=size, now=self.now)
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
    gate = max(rate * 0.1, 64 * KIB)
    return max(rate * 0.25, gate + rate * FLIGHT_SECONDS) + NEED


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
def test_what_a_peer_may_not_have_the_others_have(make: Callable[[float], Budget]) -> None:
    role, peer = make(20 * MIB), make(0)
    held = Stakes(Stake.in_budget(role), [Stake.in_budget(peer)])
    free = Stakes(Stake.in_budget(role), [])
    if make is kip73:
        peer.settle(held.own[0].claim, reserved=0, used=1, now=0.0)
    assert held.admit([WISH], [None], 0.0) == []
    assert held.seconds_until_turn(0.0) > 1
    assert free.admit([WISH], [None], 0.0) == [MIB]


def test_a_grant_is_the_least_of_its_path() -> None:
    role, peer, topic = strict(40 * MIB), strict(8 * MIB), strict(4 * MIB)
    stakes = Stakes(Stake.in_budget(role), [Stake.in_budget(peer)])
    part = Stake.in_budget(topic)
    wishes = [WISH] * 4
    assert stakes.admit(wishes, [part, part, None, None], 0.0) == [
        int(0.4 * MIB),
        0,
        int(0.8 * MIB) - int(0.4 * MIB),
        0,
    ]


def test_a_rack_holds_its_peers_together_and_each_peer_keeps_to_its_own() -> None:
    """102 may have 2 of the rack's 8 MiB/s, 103 has the other 6, and 104 of another rack what the role has beside."""
    rates = {"a": 8.0 * MIB, "102": 2.0 * MIB}
    fetchers = tuple(Fetcher(peer, (None,), 0.01, rack) for peer, rack in (("102", "a"), ("103", "a"), ("104", "b")))
    run = Run(20.0 * MIB, rates, fetchers, 10.0)
    passed = {each.peer: sum(grant.size for grant in run.of(each.peer)) / (10 * MIB) for each in fetchers}
    assert passed == pytest.approx({"102": 2.0, "103": 6.0, "104": 12.0}, rel=0.05)


def test_unlimited_everywhere_else_the_peers_rate_holds() -> None:
    stakes = Stakes(Stake.in_budget(strict(math.inf)), [Stake.in_budget(strict(8 * MIB))])
    assert sum(stakes.admit([WISH] * 4, [None] * 4, 0.0)) == int(0.8 * MIB)
    assert stakes.admit([WISH] * 4, [None] * 4, 0.0) == []


def test_a_first_batch_that_is_larger_than_a_topics_room_comes_and_is_repaid() -> None:
    topic = strict(MIB)
    stakes, part = Stakes(Stake.in_budget(strict(40 * MIB)), []), Stake.in_budget(topic)
    large = Wish(MIB, 900 * KIB)
    assert stakes.admit([large, large], [part, part], 0.0) == [900 * KIB, 0]
    stakes.settle(part, reserved=900 * KIB, used=900 * KIB, now=0.0)
    assert stakes.seconds_until_turn(0.0) == pytest.approx(0.9, abs=0.05)


def test_who_needs_less_does_not_go_before_who_needs_more() -> None:
    topic = strict(4 * MIB)
    stakes, part = Stakes(Stake.in_budget(strict(40 * MIB)), []), Stake.in_budget(topic)
    wishes = [Wish(300 * KIB, 1), Wish(MIB, 300 * KIB), Wish(50 * KIB, 1)]
    assert stakes.admit(wishes, [part] * 3, 0.0)[1:] == [0, 0]


def test_one_that_a_topic_holds_up_keeps_nobody_from_the_roles_bytes() -> None:
    """It had less than the other for long, and is not waited for while its topic has nothing for it."""
    role, topic = strict(10 * MIB), strict(MIB)
    slow, part = Stakes(Stake.in_budget(role), []), Stake.in_budget(topic)
    other = Stakes(Stake.in_budget(role), [])
    got = 0
    for tick in range(1000):
        now = tick / 100
        for size in slow.admit([WISH], [part], now):
            role.settle(slow.role.claim, reserved=size, used=size, now=now)
            slow.settle(part, reserved=size, used=size, now=now)
        for size in other.admit([WISH, WISH], [None, None], now):
            role.settle(other.role.claim, reserved=size, used=size, now=now)
            got += size
    assert got >= 0.97 * 9 * MIB * 10


def test_two_that_are_first_in_different_budgets_do_not_wait_for_each_other() -> None:
    role, topic = strict(4 * MIB), strict(4 * MIB)
    one, two = (Stakes(Stake.in_budget(role), []) for _ in range(2))
    one_part, two_part = (Stake.in_budget(topic) for _ in range(2))
    one.role.claim.attained_bytes = two_part.claim.attained_bytes = 5 * MIB
    got = {one: 0, two: 0}
    for tick in range(200):
        now = tick / 100
        for stakes, part in ((one, one_part), (two, two_part)):
            for size in stakes.admit([WISH], [part], now):
                role.settle(stakes.role.claim, reserved=size, used=size, now=now)
                stakes.settle(part, reserved=size, used=size, now=now)
                got[stakes] += size
    assert min(got.values()) > MIB
    assert sum(got.values()) > 7 * MIB


def test_a_part_that_is_wanted_no_more_keeps_nobody_else_waiting() -> None:
    """Other connections left bytes in the topic's budget for it, until the connection ended."""
    role, left, kept = strict(1e6), Stake.in_budget(strict(1e6)), Stake.in_budget(strict(1e6))
    stakes = Stakes(Stake.in_budget(role), [])
    stakes.place(2)
    wish = Wish(1 << 20, 65536)
    stakes.admit([wish, wish], [left, kept], 1.0)
    assert (left.claim.wants, left.claim.urgency) == (True, 2)
    stakes.admit([wish], [kept], 2.0)
    assert (left.claim.wants, left.claim.urgency, left.budget.turns.urgent) == (False, 0, 0)
    assert kept.claim.urgency == 2


def test_a_reservation_is_settled_in_each_budget_once() -> None:
    budgets = [strict(rate * MIB) for rate in (40, 20, 10)]
    role, peer, topic = (Stake.in_budget(each) for each in budgets)
    stakes = Stakes(role, [peer])
    before = [each._bucket.available(0.0) for each in budgets]
    (size,) = stakes.admit([WISH], [topic], 0.0)
    assert [each._bucket.available(0.0) for each in budgets] == [each - size for each in before]
    role.settle(reserved=size, used=0, now=0.0)
    stakes.settle(topic, reserved=size, used=0, now=0.0)
    assert [each._bucket.available(0.0) for each in budgets] == before
    assert list(itertools.chain(*(each.turns._claims for each in budgets))) == [role.claim, peer.claim, topic.claim]
