"""Both policies: what they admit, when they say to come back, and when they want records discarded."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from admission.budget import Kip73Budget, StrictBudget
from admission.budget_path import BudgetPath
from admission.fetcher import REST_SECONDS
from admission.shares import Claim, Shares
from admission.wishes import MAX_SHARED, Wish, share

MIB = 1024 * 1024
KIB = 1024
GATE = int(0.4 * MIB)


def strict(rate: float = 4 * MIB) -> StrictBudget:
    return StrictBudget(bytes_per_second=rate, gate_seconds=0.1, burst_seconds=0.25, now=0.0)


def kip73(rate: float = 4 * MIB) -> Kip73Budget:
    return Kip73Budget(bytes_per_second=rate, samples=11, sample_seconds=1.0)


@pytest.mark.parametrize(
    ("wishes", "granted"),
    [
        ([Wish(MIB, 64 * KIB)], [GATE]),  # all that is left, below the follower's own limit
        ([Wish(100 * KIB, 64 * KIB)], [100 * KIB]),  # never more than the follower's own limit
        ([Wish(MIB, 900 * KIB)], [900 * KIB]),  # the first gets what it needs: KIP-74's one batch comes anyway
        ([Wish(MIB, 64 * KIB), Wish(MIB, 64 * KIB)], [GATE]),  # nothing is left for the second
        ([Wish(100 * KIB, 64 * KIB)] * 4, [100 * KIB] * 4),  # 409.6 KiB: four fit,
        ([Wish(100 * KIB, 64 * KIB)] * 5, [100 * KIB] * 4),  # the fifth would get less than it needs
        ([Wish(100 * KIB, 64 * KIB), Wish(MIB, 310 * KIB)], [100 * KIB]),
        ([Wish(MIB, 64 * KIB, 32 * KIB)] * 20, [32 * KIB] * 12),  # scarce: what they are likely to bring, 12.8 times
        ([Wish(MIB, 64 * KIB, 32 * KIB), Wish(MIB, 64 * KIB)], [32 * KIB, GATE - 32 * KIB]),  # the rest to others,
        ([Wish(MIB, 64 * KIB, 32 * KIB)] * 2, [GATE - 32 * KIB, 32 * KIB]),  # and if nobody wants it, to the first
        ([Wish(100 * KIB, 64 * KIB, 10 * KIB)] * 2, [100 * KIB] * 2),  # enough for everybody
        ([], []),
    ],
)
def test_strict_shares_what_is_left_in_order(wishes: list[Wish], granted: list[int]) -> None:
    budget = strict()
    assert BudgetPath(budget).grant(wishes, 0.0) == granted


def test_a_grant_closes_the_gate_until_it_is_settled() -> None:
    budget = strict()
    path = BudgetPath(budget)
    (granted,) = path.grant([Wish(MIB, 1)], 0.0)
    assert path.grant([Wish(MIB, 1)], 0.0) == []
    path.settle(reserved=granted, used=0, now=0.0)
    assert path.grant([Wish(MIB, 1)], 0.0) == [granted]


def test_the_second_in_line_is_told_to_wait_for_the_gate_after_the_first() -> None:
    budget = strict()
    first, second = BudgetPath(budget), BudgetPath(budget)
    second.may_grant(0.0)
    (granted,) = first.grant([Wish(MIB, 1)], 0.0)
    first.settle(reserved=granted, used=granted, now=0.0)
    assert second.seconds_until_turn(0.0) == pytest.approx(0.1, abs=1e-3)
    assert first.seconds_until_turn(0.0) == pytest.approx(0.2, abs=1e-3)


def test_strict_discards_only_what_a_lowered_quota_cannot_bear() -> None:
    budget = strict(100 * MIB)
    path = BudgetPath(budget)
    assert sum(path.grant([Wish(10 * MIB, 1)], 0.0)) == 10 * MIB
    assert not budget.must_discard(0.0, 0.01)  # debt alone is no reason
    budget.change_rate(99 * MIB, 0.01)
    assert not budget.must_discard(0.0, 0.01)  # within a burst of the new quota
    budget.change_rate(MIB, 0.02)
    assert budget.must_discard(0.0, 0.03)
    assert not budget.must_discard(0.03, 0.03)  # asked for under the new quota


def test_kip73_admits_everything_or_nothing() -> None:
    budget = kip73()
    path = BudgetPath(budget)
    wishes = [Wish(MIB, 1)] * 8
    assert path.grant(wishes, 0.0) == [MIB] * 8
    path.settle(reserved=8 * MIB, used=8 * MIB, now=0.0)
    assert path.grant(wishes, 0.0) == []
    assert path.seconds_until_turn(0.0) == pytest.approx(2.0)  # 8 MiB at 4 MiB/s
    assert path.grant(wishes, 2.0) == [MIB] * 8


def test_kip73_counts_what_has_begun_and_counts_it_once() -> None:
    """A leader records an answer before it sends it (KafkaApis)."""
    budget = kip73()
    first, second = BudgetPath(budget), BudgetPath(budget)
    first.charge_on_send(None, 5 * MIB, 0.0)
    assert budget.must_discard(0.0, 0.0)
    second.settle(reserved=MIB, used=MIB, now=0.0)  # one that did not tell when its records began
    first.settle(reserved=5 * MIB, used=3 * MIB, now=0.5)  # entry by entry
    first.settle(reserved=0, used=2 * MIB, now=0.5)
    assert first.seconds_until_turn(0.5) == pytest.approx(1.0)  # 6 MiB at 4 MiB/s since 0.0
    first.settle(reserved=MIB, used=MIB, now=0.5)
    assert first.seconds_until_turn(0.5) == pytest.approx(1.25)


def test_kip73_forgets_empty_answers_and_keeps_its_samples_when_the_quota_changes() -> None:
    budget = kip73()
    path = BudgetPath(budget)
    path.settle(reserved=MIB, used=0, now=0.0)  # recorded, it would keep the window warm: KAFKA-16635
    path.settle(reserved=0, used=8 * MIB, now=20.0)
    assert budget.is_exceeded(20.0)
    budget.change_rate(9 * MIB, 20.0)
    assert not budget.is_exceeded(20.0)
    assert not budget.must_discard(0.0, 20.0)


def test_at_quota_0_nobody_is_told_to_come_back() -> None:
    budget = strict(0)
    assert BudgetPath(budget).seconds_until_turn(0.0) == math.inf


@given(
    rate=st.integers(100 * KIB, 100 * MIB),
    needs=st.lists(st.integers(1, 2 * MIB), min_size=1, max_size=8),
    pauses=st.lists(st.floats(0.001, 0.3), min_size=20, max_size=60),
)
def test_strict_over_any_span_keeps_to_rate_and_burst_but_for_first_batches(
    rate: int, needs: list[int], pauses: list[float]
) -> None:
    """A fetcher that always wants everything and gets all it was granted."""
    budget = strict(rate)
    path, now, taken = BudgetPath(budget), 0.0, 0
    burst, wishes = max(rate * 0.25, 64 * KIB), [Wish(2 * MIB, need) for need in needs]
    for pause in pauses:
        granted = sum(path.grant(wishes, now))
        path.settle(reserved=granted, used=granted, now=now)
        taken += granted
        assert taken <= rate * now + burst + max(needs)
        now += pause


@pytest.mark.parametrize("settled", ["before", "after"])
def test_a_lowered_rate_leaves_nobody_behind_by_a_grant_of_the_old_one(settled: str) -> None:
    budget = strict(40 * MIB)
    ahead, behind = BudgetPath(budget), BudgetPath(budget)
    behind.may_grant(0.0)
    (grant,) = ahead.grant([Wish(10 * MIB, 1)], 0.0)
    if settled == "before":
        ahead.settle(reserved=grant, used=grant, now=0.0)
    budget.change_rate(4 * MIB, 0.0)
    if settled == "after":
        ahead.settle(reserved=grant, used=grant // 2, now=0.0)
    got = {ahead: 0, behind: 0}
    for tick in range(300):
        now = tick / 100
        ahead.fetcher.due = behind.fetcher.due = now
        for path in (ahead, behind):
            for size in path.grant([Wish(10 * MIB, 1)], now):
                got[path] += size
                path.settle(reserved=size, used=size, now=now)
    assert sum(got.values()) >= 10 * MIB
    assert abs(got[ahead] - got[behind]) <= MIB  # what is there at once


def test_one_that_rests_is_granted_nothing_for_a_moment_and_keeps_nobody_else_from_it() -> None:
    budget = strict()
    resting, other = BudgetPath(budget), BudgetPath(budget)
    resting.fetcher.rest(0.0)
    wishes = [Wish(100 * KIB, 64 * KIB)]
    assert resting.grant(wishes, 0.0) == []
    assert resting.seconds_until_turn(0.05) == pytest.approx(REST_SECONDS - 0.05)
    assert other.grant(wishes, 0.05) == [100 * KIB]
    assert resting.grant(wishes, REST_SECONDS) == [100 * KIB]


def test_what_one_had_less_is_kept_for_it_while_it_is_away() -> None:
    """The gate opens for the others later, so that it finds what is its own when it is back, and still opens."""
    budget = strict()
    near, far = BudgetPath(budget), BudgetPath(budget)
    wishes = [Wish(2 * MIB, 1)]
    got = {near: 0, far: 0}
    for tick in range(1, 2000):
        now = tick / 100
        for path, every in ((near, 1), (far, 24)):
            if tick % every == 0:
                for size in path.grant(wishes, now):
                    got[path] += size
                    path.settle(reserved=size, used=size, now=now)
    assert sum(got.values()) >= 0.97 * 4 * MIB * 20
    assert min(got.values()) >= 0.92 * sum(got.values()) / 2


def test_nothing_is_kept_for_one_that_does_not_come_back() -> None:
    budget = strict()
    here, gone = BudgetPath(budget), BudgetPath(budget)
    wishes = [Wish(2 * MIB, 1)]
    assert not gone.may_grant(0.0) or gone.grant(wishes, 0.0)
    taken = sum(sum(here.grant(wishes, 1 + tick / 100)) for tick in range(25))
    assert taken >= MIB - GATE


def test_without_a_limit_nobody_rests() -> None:
    budget = strict(math.inf)
    path = BudgetPath(budget)
    path.fetcher.rest(0.0)
    assert path.grant([Wish(MIB, 64 * KIB)], 0.0) == [MIB]


def test_leaders_that_do_not_answer_hold_nobody_else_up_for_long() -> None:
    """Three of them have the whole burst. What they bring after all is on top of what the others had meanwhile."""
    budget = strict()
    dead = [BudgetPath(budget), BudgetPath(budget), BudgetPath(budget)]
    alive = BudgetPath(budget)
    granted = [sum(path.grant([Wish(size, 1)], 10.0)) for path, size in zip(dead, (GATE, GATE, MIB), strict=True)]
    assert sum(granted) >= 2 * GATE
    assert alive.grant([Wish(MIB, 1)], 10.05) == []
    assert alive.grant([Wish(MIB, 1)], 10.21) == []
    assert sum(alive.grant([Wish(MIB, 1)], 10.32)) >= GATE


def test_a_leader_that_is_always_late_costs_nobody_the_burst() -> None:
    """Once known as late, what it may bring is no part of it from the beginning, for a while."""
    budget = strict()
    late, other = BudgetPath(budget), BudgetPath(budget)
    (granted,) = late.grant([Wish(GATE, 1)], 0.0)
    late.settle(reserved=granted, used=granted, now=0.2)
    (granted,) = late.grant([Wish(GATE, 1)], 5.0)
    assert sum(sum(other.grant([Wish(2 * MIB, 1)], 5.5)) for _ in range(3)) >= 2 * GATE
    for path, size in ((late, granted), (other, MIB)):
        path.settle(reserved=size, used=size, now=5.5)
    (granted,) = late.grant([Wish(GATE, 1)], 20.0)
    assert sum(sum(other.grant([Wish(2 * MIB, 1)], 20.05)) for _ in range(3)) <= MIB - GATE


class KeepsAll(Shares):
    """Others have had less than anybody can keep for them."""

    def kept_from(self, claim: Claim, rate: float, now: float) -> tuple[float, float]:
        return math.inf, math.inf


@given(rate=st.floats(1e3, 1e10))
@example(rate=7481338.0)
def test_a_full_bucket_opens_whatever_is_kept_for_others(rate: float) -> None:
    """Of a difference of what it holds and what is kept a rounding error would be missing, at some rates for ever."""
    budget = strict(rate)
    budget.shares = KeepsAll()
    path = BudgetPath(budget)
    assert budget.room(path.trunk[0], 10.0) >= 0.1 * rate


WISHES = st.builds(
    Wish,
    limit_bytes=st.integers(0, 100),
    need_bytes=st.integers(0, 120),
    likely_bytes=st.sampled_from([math.inf]) | st.integers(0, 120),
    sure_bytes=st.just(math.inf),
    first_bytes=st.just(0),
    batch_bytes=st.just(0),
)


def shared_one_by_one(wishes: list[Wish], available: float) -> list[int]:
    """What `share` says that it does, replica by replica."""
    grants: list[int] = []
    for limit, need, likely, *_ in wishes:
        most = int(min(limit, likely))
        least = min(need, most)
        if available < most:
            if not grants or available >= least:
                grants.append(int(min(most, max(least, available))))
            return grants
        grants.append(most)
        available -= most
    for place, wish in enumerate(wishes):
        more = int(min(wish.limit_bytes - grants[place], available))
        grants[place] += more
        available -= more
    return grants


@given(wishes=st.lists(WISHES, min_size=1, max_size=12), available=st.floats(0.5, 1500))
@example(wishes=[Wish(50, 80), Wish(50, 80)], available=20.0)
@example(wishes=[Wish(50, 10, 20), Wish(50, 10, 20)], available=70.5)
def test_what_is_shared_at_once_is_what_would_be_shared_one_by_one(wishes: list[Wish], available: float) -> None:
    everything = [wish.limit_bytes for wish in wishes]
    expected = everything if sum(everything) <= available else shared_one_by_one(wishes, available)
    assert share(wishes, available, wished=sum(everything)) == expected


def test_no_more_replicas_are_granted_something_at_once_than_can_be_worked_out_in_a_moment() -> None:
    wishes = [Wish(100, 10, 20)] * (3 * MAX_SHARED)
    wished = 100 * len(wishes)
    assert len(share(wishes, wished, wished=wished)) == len(wishes), "all of it fits"
    grants = share(wishes, 50.0 * MAX_SHARED, wished=wished)
    assert len(grants) == MAX_SHARED
    assert sum(grants) == 50 * MAX_SHARED, "the others leave what they wish for to these"


BATCHES = Wish(MIB, 60_012, first_bytes=60_012, batch_bytes=60_000)


@pytest.mark.parametrize(
    ("wishes", "grants"),
    [
        ([BATCHES], [360_012]),  # of 419 430: the rest stays
        ([BATCHES] * 2, [360_012]),  # 59 418 are no batch for the second
        ([BATCHES._replace(sure_bytes=60_012)] * 2, [60_012] * 2),  # what is left would be a guess
        ([BATCHES._replace(sure_bytes=60_012)] * 9, [60_012] * 6),
        ([BATCHES._replace(first_bytes=500_012, need_bytes=500_012)], [500_012]),  # KIP-74's one batch comes anyway
        ([BATCHES._replace(limit_bytes=130_000)], [120_012]),
        ([Wish(MIB, 1012, math.inf, 1012, 1012, 1000)], [419_012]),  # so many that it is all one
    ],
)
def test_grants_end_where_batches_do(wishes: list[Wish], grants: list[int]) -> None:
    budget = strict(4 * MIB)
    path = BudgetPath(budget)
    assert path.grant(wishes, 0.0) == grants
    assert budget._bucket.available(0.0) == pytest.approx(0.4 * MIB - sum(grants)), "the remainder is carried over"


def test_what_would_be_lost_is_granted_whatever_it_wastes() -> None:
    """The bucket is full, or will be before the connection is back."""
    sure = BATCHES._replace(sure_bytes=60_012)
    budget = strict(4 * MIB)
    path = BudgetPath(budget)
    assert path.grant([sure], 1.0) == [MIB]
    assert BudgetPath(strict(math.inf)).grant([sure] * 3, 0.0) == [MIB] * 3
