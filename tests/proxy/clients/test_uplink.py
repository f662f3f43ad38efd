"""One uplink for clients and followers: who has how much of the listener's rate, in virtual time.

Followers ask as links do (`BudgetPath`), one fetch at a time; consumers are charged as responses leave, and come back
when their mute is over; what is never delayed leaves whenever it likes. All of it is counted where the relay counts.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import defaultdict
from collections.abc import Generator
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.budget import StrictBudget
from admission.budget_path import BudgetPath
from admission.wishes import Wish
from proxy.clients.budgets import MIN_LARGEST_BYTES
from proxy.clients.uplink import UplinkBudget
from proxy.statistics.counters import RoleStatistics
from tests.proxy.conversation import settings

MB = 1_000_000
RATE = 20.0 * MB
LINK = 200.0 * MB
"""How fast bytes go that nobody holds back."""
HOP_SECONDS = 0.002
BURST_SECONDS = 0.25
WORST = 1.25
"""What any second may have of the rate."""
BATCH = 16_384
KINDS = CATCH_UP, CLIENT, IN_SYNC, OPAQUE = "catch-up", "client", "in sync", "opaque"

Steps = Generator[float, None, None]


class Departure(NamedTuple):
    at: float
    kind: str
    who: int
    size: int


class Uplink:
    """The listener of one broker, with a leader quota of `leader_rate`."""

    def __init__(self, rate: float = RATE, leader_rate: float = math.inf) -> None:
        self.statistics = RoleStatistics()
        self.budget = UplinkBudget(settings(), self.statistics, math.inf, 0.0)
        self.budget.change_rate(rate, 0.0)
        self.role = StrictBudget(bytes_per_second=leader_rate, gate_seconds=0.1, burst_seconds=0.25, now=0.0)
        self.departed: list[Departure] = []
        self.mutes: dict[int, list[float]] = defaultdict(list)
        """Of each consumer, one for each response."""
        self.now = 0.0
        self._order = itertools.count()
        self._due: list[tuple[float, int, Steps]] = []

    def add(self, steps: Steps, begins: float = 0.0) -> None:
        heapq.heappush(self._due, (begins, next(self._order), steps))

    def run(self, until: float) -> Uplink:
        while self._due and self._due[0][0] < until:
            self.now, _, steps = heapq.heappop(self._due)
            due = next(steps, None)
            if due is not None:
                self.add(steps, max(due, self.now))
        return self

    def _leaves(self, kind: str, who: int, size: int) -> None:
        self.statistics.relayed_response_bytes += size
        self.departed.append(Departure(self.now, kind, who, size))

    def follower(self, who: int = 0, hop: float = HOP_SECONDS) -> Steps:
        """One that is far behind."""
        path = BudgetPath(self.budget, self.role)
        wishes = [Wish(MB, BATCH, batch_bytes=BATCH, first_bytes=BATCH) for _ in range(50)]
        while True:
            granted = sum(path.grant(wishes, self.now))
            if not granted:
                yield self.now + max(path.seconds_until_turn(self.now), 0.002)
                continue
            yield self.now + hop
            for _ in range(4):  # bytes leave before the end of the response tells what they were
                yield self.now + granted / 4 / LINK
                self._leaves(CATCH_UP, who, granted // 4)
            for claim in path.trunk:
                claim.budget.count_passed(granted // 4 * 4, self.now)
            path.settle(reserved=granted, used=granted // 4 * 4, now=self.now)
            yield self.now + hop

    def consumer(self, who: int, size: int, *, every: float = 0.0, ends: float = math.inf) -> Steps:
        """One that fetches `size` bytes, as far as it may at once; `every`: what comes in so long."""
        connection = object()
        while self.now < ends:
            began = self.now
            brought = int(min(size, self.budget.largest_response_bytes(began)))
            muted = self.budget.throttle_seconds(began, size=brought, unsent=brought)
            yield self.now + brought / LINK
            self._leaves(CLIENT, who, brought)
            self.budget.count_client(connection, brought)
            yield max(began + every, began + muted, self.now + HOP_SECONDS)
            while (more := self.budget.throttle_seconds(self.now, size=brought, since=began)) > 0.001:
                muted += more
                yield self.now + more
            self.mutes[who].append(muted)

    def undelayed(self, rate: float, *, listed: bool, ends: float = math.inf, every: float = 0.01) -> Steps:
        """Replication in sync that a list names, or what nobody can tell."""
        path = BudgetPath(self.budget, self.role)
        while self.now < ends:
            size = int(rate * every)
            self._leaves(IN_SYNC if listed else OPAQUE, 0, size)
            if listed:
                for claim in path.trunk:
                    claim.budget.count_passed(size, self.now)
                path.settle(reserved=0, used=size, now=self.now)
            yield self.now + every

    def rate_of(self, *kinds: str, begin: float, end: float, who: int | None = None) -> float:
        """Bytes per second of these kinds, as a part of the rate."""
        size = sum(
            each.size
            for each in self.departed
            if begin <= each.at < end and each.kind in (kinds or KINDS) and who in (None, each.who)
        )
        return size / (end - begin) / self.budget.bytes_per_second

    def worst_second(self, begin: float = 0.0) -> float:
        """The most of any span of a second, as a part of the rate."""
        seconds, size, first = 0.0, 0, 0
        for last, each in enumerate(self.departed):
            size += each.size
            while self.departed[first].at <= each.at - 1.0 or self.departed[first].at < begin:
                size -= self.departed[first].size
                first += 1
                if first > last:
                    break
            seconds = max(seconds, float(size))
        return seconds / self.budget.bytes_per_second


def test_catch_up_has_all_of_it_while_nobody_else_is_there() -> None:
    uplink = Uplink()
    uplink.add(uplink.follower())
    uplink.run(10.0)
    assert uplink.rate_of(CATCH_UP, begin=1.0, end=10.0) == pytest.approx(1.0, abs=0.02)
    assert uplink.worst_second() <= WORST


@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize("part", [0.3, 0.9])
def test_catch_up_has_what_others_leave_and_all_of_it_within_a_second(part: float, *, listed: bool) -> None:
    uplink = Uplink()
    uplink.add(uplink.follower())
    uplink.add(uplink.undelayed(part * RATE, listed=listed, ends=10.0))
    uplink.run(20.0)
    assert uplink.rate_of(CATCH_UP, begin=1.0, end=10.0) == pytest.approx(1 - part, abs=0.05)
    assert uplink.rate_of(CATCH_UP, begin=10.5, end=11.5) == pytest.approx(1.0, abs=0.1)
    assert uplink.worst_second() <= WORST


@pytest.mark.parametrize("listed", [True, False])
def test_what_is_never_delayed_takes_all_of_it_and_catch_up_is_back_after_a_second(*, listed: bool) -> None:
    uplink = Uplink()
    uplink.add(uplink.follower())
    uplink.add(uplink.undelayed(2 * RATE, listed=listed, ends=10.0))
    uplink.run(20.0)
    assert uplink.rate_of(CATCH_UP, begin=0.5, end=11.0) < 0.01
    assert uplink.rate_of(CATCH_UP, begin=11.3, end=12.3) == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("in_sync", [0.0, 0.1])
def test_catch_up_begins_at_once_beside_what_has_gone_on_for_long(in_sync: float) -> None:
    """What the relay counted meanwhile left a little at each moment, and not just now."""
    uplink = Uplink()
    uplink.add(uplink.undelayed(0.3 * RATE, listed=False))
    if in_sync:
        uplink.add(uplink.undelayed(in_sync * RATE, listed=True))
    uplink.add(uplink.follower(), begins=20.0)
    uplink.run(21.0)
    assert uplink.rate_of(CATCH_UP, begin=20.0, end=21.0) == pytest.approx(0.7 - in_sync, abs=0.15)


def test_catch_up_on_its_way_mutes_nobody() -> None:
    """Bytes of a response count as catch-up before its end tells that they are."""
    uplink, burst, now = Uplink(), int(0.125 * RATE), 0.13
    path = BudgetPath(uplink.budget, uplink.role)
    uplink.budget.count_client(uplink, burst)
    uplink.statistics.relayed_response_bytes += burst
    (granted,) = path.grant([Wish(MB, BATCH)], now)
    uplink.statistics.relayed_response_bytes += granted
    uplink.budget.count_client(uplink, burst)
    uplink.statistics.relayed_response_bytes += burst
    assert uplink.budget.throttle_seconds(now) == 0.0
    for claim in path.trunk:
        claim.budget.count_passed(granted, now)
    path.settle(reserved=granted, used=granted, now=now)
    assert uplink.budget.throttle_seconds(now) == 0.0


def test_the_leader_quota_holds_inside_it() -> None:
    uplink = Uplink(leader_rate=0.2 * RATE)
    uplink.add(uplink.follower())
    uplink.add(uplink.undelayed(0.5 * RATE, listed=False))
    uplink.run(10.0)
    assert uplink.rate_of(CATCH_UP, begin=1.0, end=10.0) == pytest.approx(0.2, abs=0.02)


def test_consumers_go_before_catch_up_and_are_not_muted_while_they_fit() -> None:
    """Half of the rate comes in portions of 0.1 s of it, beside catch-up that takes whatever is there."""
    uplink = Uplink()
    uplink.add(uplink.follower())
    uplink.add(uplink.consumer(0, int(0.1 * RATE), every=0.2))
    uplink.run(10.0)
    assert max(uplink.mutes[0]) == 0.0
    assert uplink.rate_of(CATCH_UP, begin=1.0, end=10.0) == pytest.approx(0.5, abs=0.05)
    assert uplink.worst_second() <= WORST


def test_consumers_that_want_more_leave_catch_up_its_least_share() -> None:
    """It had none while they had a backlog."""
    uplink = Uplink()
    uplink.add(uplink.follower())
    for who in range(4):
        uplink.add(uplink.consumer(who, 200_000, ends=10.0), begins=2.0)
    uplink.run(20.0)
    assert uplink.rate_of(CATCH_UP, begin=3.0, end=10.0) == pytest.approx(0.1, abs=0.03)
    assert uplink.rate_of(CLIENT, begin=3.0, end=10.0) == pytest.approx(0.9, abs=0.05)
    assert uplink.rate_of(CATCH_UP, begin=10.5, end=11.5) == pytest.approx(1.0, abs=0.1)
    assert uplink.worst_second() <= WORST


@pytest.mark.parametrize("listed", [True, False])
def test_consumers_are_muted_for_what_is_never_delayed_leaves(*, listed: bool) -> None:
    uplink = Uplink()
    uplink.add(uplink.undelayed(0.7 * RATE, listed=listed))
    for who in range(5):
        uplink.add(uplink.consumer(who, 200_000), begins=2.0)
    uplink.run(12.0)
    assert uplink.rate_of(CLIENT, begin=3.0, end=12.0) == pytest.approx(0.3, abs=0.05)
    assert uplink.worst_second(begin=3.0) <= WORST


def test_the_rate_is_shared_equally_whatever_a_response_brings() -> None:
    uplink = Uplink()
    sizes = [BATCH, 200_000, MB, 10 * MB]
    for who, size in enumerate(sizes):
        uplink.add(uplink.consumer(who, size))
    uplink.run(30.0)
    shares = [uplink.rate_of(CLIENT, begin=5.0, end=30.0, who=who) for who in range(len(sizes))]
    assert sum(shares) == pytest.approx(1.0, abs=0.05)
    assert all(0.2 <= share <= 0.32 for share in shares), shares


def test_one_that_needs_little_hardly_waits_beside_one_that_takes_all() -> None:
    uplink = Uplink()
    uplink.add(uplink.consumer(0, 50 * MB))
    for who in range(1, 11):
        uplink.add(uplink.consumer(who, 10_000, every=0.05), begins=1.0 + who / 1000)
    uplink.run(20.0)
    assert max(max(uplink.mutes[who]) for who in range(1, 11)) <= 0.02
    assert uplink.rate_of(CLIENT, begin=5.0, end=20.0) == pytest.approx(1.0, abs=0.07)


def test_where_replication_in_sync_takes_all_consumers_have_a_little() -> None:
    uplink = Uplink()
    uplink.add(uplink.undelayed(1.5 * RATE, listed=True))
    uplink.add(uplink.consumer(0, BATCH))
    uplink.run(20.0)
    assert 0.01 <= uplink.rate_of(CLIENT, begin=5.0, end=20.0) <= 0.1


def test_a_large_response_is_cut_only_while_the_rate_is_not_kept() -> None:
    uplink = Uplink()
    assert math.isinf(uplink.budget.largest_response_bytes(0.0))
    uplink.budget.count_client(uplink, int(2 * RATE))
    assert uplink.budget.largest_response_bytes(0.0) == 0.25 * RATE
    many = [object() for _ in range(100)]
    for each in many:
        uplink.budget.count_client(each, 1)
    assert uplink.budget.largest_response_bytes(0.0) == MIN_LARGEST_BYTES


def test_what_left_before_the_rate_was_set_is_not_charged() -> None:
    uplink = Uplink(rate=math.inf)
    uplink.statistics.relayed_response_bytes = 10 * MB
    uplink.budget.change_rate(RATE, 1.0)
    uplink.add(uplink.follower(), begins=1.1)
    uplink.run(2.2)
    assert uplink.rate_of(CATCH_UP, begin=1.2, end=2.2) == pytest.approx(1.0, abs=0.1)


@given(
    followers=st.lists(st.sampled_from([0.0005, 0.01, 0.03]), max_size=3),
    consumers=st.lists(
        st.tuples(st.sampled_from([1000, 100_000, MB, 8 * MB]), st.sampled_from([0.0, 0.02, 0.5])), max_size=4
    ),
    undelayed=st.lists(st.tuples(st.sampled_from([0.1, 0.5, 1.5]), st.booleans(), st.floats(0.2, 3.0)), max_size=2),
)
def test_over_any_span_what_may_be_delayed_is_no_more_than_the_rate_and_a_burst(
    followers: list[float], consumers: list[tuple[int, float]], undelayed: list[tuple[float, bool, float]]
) -> None:
    uplink = Uplink()
    for who, hop in enumerate(followers):
        uplink.add(uplink.follower(who, hop))
    for who, (size, every) in enumerate(consumers):
        uplink.add(uplink.consumer(who, size, every=every), begins=0.3)
    for part, listed, ends in undelayed:
        uplink.add(uplink.undelayed(part * RATE, listed=listed, ends=ends))
    uplink.run(4.0)
    departed = [each for each in uplink.departed if each.kind in (CATCH_UP, CLIENT)]
    for first in range(0, len(departed), max(len(departed) // 20, 1)):
        total, largest = 0, dict[int, int]()
        for each in departed[first:]:
            total += each.size
            if each.kind == CLIENT:
                largest[each.who] = max(each.size, largest.get(each.who, 0))
            span = each.at - departed[first].at
            assert total <= RATE * (span + BURST_SECONDS) + sum(largest.values()) + len(followers) * BATCH
