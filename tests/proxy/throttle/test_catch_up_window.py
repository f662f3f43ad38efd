"""A connection that carries records in sync and what catches up, on a link that both fill, in virtual time."""

from __future__ import annotations

import math

import pytest

from proxy.clients.uplink import UplinkBudget
from proxy.quotas import Partitions, Quotas, RoleQuota
from proxy.quotas.rate_source import RateSource
from proxy.roles import Role
from proxy.statistics.counters import RoleStatistics
from proxy.throttle.budget_claim import GROWTH, MIN_BYTES, MIN_FIXED_BYTES, CatchUpWindow
from proxy.throttle.peer_latencies import LIVE_SECONDS, PeerLatencies
from proxy.throttle.replica import MIN_NEED_BYTES
from proxy.throttle.role_throttle import RoleThrottle
from tests.proxy.conversation import MIB, Conversation, settings

MB = 1e6
LINK = 40 * MB
BEST_SECONDS = 0.001
TOLERATED_SECONDS = BEST_SECONDS + 0.005
LIVE = ("live", 0)


def turnarounds(
    limit: CatchUpWindow,
    live: float,
    seconds: float,
    link: float = LINK,
    *,
    best: float = BEST_SECONDS,
    began: float = 0.0,
) -> tuple[list[float], float]:
    """Of a follower that fetches again and again while producers write `live` bytes a second, after a first answer
    without anything else; and the bytes a second that caught up."""
    found, caught_up, waiting, granted = [best], 0.0, 0.0, 0.0
    limit.came_back(best, 0, 1, began)
    while sum(found) < seconds:
        granted = limit.most_bytes
        took = best + (granted + waiting) / link
        waiting = live * took
        caught_up += granted
        limit.came_back(took, granted, granted + waiting, began + sum(found))
        found.append(took)
    return found, caught_up / sum(found)


@pytest.mark.parametrize("live", [0.0, 8 * MB, 16 * MB])
def test_as_much_rides_along_as_lets_the_follower_come_back_in_time(live: float) -> None:
    found, caught_up = turnarounds(CatchUpWindow(), live, 10.0)
    late = sum(took > TOLERATED_SECONDS for took in found) / len(found)
    assert late < 0.01
    assert caught_up > 0.4 * (LINK - live)


def test_a_faster_link_carries_more() -> None:
    _, slow = turnarounds(CatchUpWindow(), 4 * MB, 10.0)
    found, fast = turnarounds(CatchUpWindow(), 4 * MB, 10.0, link=100 * LINK)
    assert fast > 50 * slow
    assert max(found) <= TOLERATED_SECONDS


def test_a_link_that_becomes_ten_times_slower_is_noticed_by_its_first_answers() -> None:
    limit = CatchUpWindow()
    turnarounds(limit, 4 * MB, 10.0, link=200 * MB)
    found, _ = turnarounds(limit, 4 * MB, 1.0)
    assert max(found[10:]) <= TOLERATED_SECONDS


def test_a_route_that_becomes_longer_for_good_counts_as_slow_for_two_minutes_at_most() -> None:
    limit = CatchUpWindow()
    turnarounds(limit, 4 * MB, 10.0)
    longer = 20 * BEST_SECONDS
    _, at_first = turnarounds(limit, 4 * MB, 30.0, best=longer, began=10.0)
    turnarounds(limit, 4 * MB, 95.0, best=longer, began=40.0)
    _, then = turnarounds(limit, 4 * MB, 10.0, best=longer, began=135.0)
    assert at_first < 4 * MB < then


def test_two_late_answers_take_no_more_than_half_and_there_is_always_some() -> None:
    limit = CatchUpWindow()
    turnarounds(limit, 4 * MB, 10.0, link=200 * MB)
    before = limit.most_bytes
    limit.came_back(5.0, before, before, 10.0)
    assert limit.most_bytes >= before  # one may be late by chance
    limit.came_back(5.0, before, before, 10.0)
    assert before / 2 <= limit.most_bytes < 0.6 * before
    for _ in range(50):
        limit.came_back(5.0, before, before, 10.0)
    assert limit.most_bytes == MIN_BYTES


def test_what_was_not_used_is_no_reason_for_more() -> None:
    limit = CatchUpWindow()
    for _ in range(50):
        limit.came_back(BEST_SECONDS, MIN_BYTES / 4, MIN_BYTES, 10.0)
    assert limit.most_bytes == MIN_BYTES


def moving(
    *,
    auto: bool,
    enforce: bool = True,
    partitions: int = 1,
    rate: float = 100.0 * MIB,
    listener_rate: float = math.inf,
) -> Conversation:
    """One partition, or so many, are behind and listed, another is in sync and not."""
    source = RateSource(400.0 * MIB, rate, auto=True) if auto else None
    named = RoleQuota(rate, topics={"t": Partitions(frozenset(range(partitions)))}, source=source)
    statistics = RoleStatistics()
    held = RoleThrottle(
        Role.LEADER,
        settings(),
        quotas=Quotas(leader=named, enforce=enforce, listener_bytes_per_second=listener_rate),
        statistics=statistics,
        now=0.0,
        above=UplinkBudget(settings(), statistics, listener_rate, 0.0),
    )
    conversation = Conversation(held, offsets={("t", n): 0 for n in range(partitions)} | {LIVE: 1_000_000})
    conversation.link.replicas.timings.counted_as = PeerLatencies()
    conversation.meet()
    return conversation


def asked_every_tenth(conversation: Conversation) -> list[int]:
    """The bytes asked for of what is behind, by a follower that comes back after a tenth of a second each time."""
    asked = []
    for _ in range(20):
        conversation.now += 0.1
        decision = conversation.ask()
        asked.append(conversation.asked_for(decision)["t", 0])
        conversation.answer(decision, {("t", 0): 5_000, LIVE: 5_000})
    return asked


def asked_beside_late_answers(conversation: Conversation) -> int:
    """The same by one that came back at once, and then each time later than before."""
    for tenths in range(1, 10):
        conversation.answer(conversation.ask(), {("t", 0): 5_000, LIVE: 5_000})
        conversation.now += tenths / 10
    return conversation.asked_for(conversation.ask())["t", 0]


@pytest.mark.parametrize("auto", [True, False])
def test_a_rate_that_does_not_hurt_goes_by_it_and_a_fixed_one_that_is_not_reached_does_not(auto: bool) -> None:
    """100 MiB/s: half a gate is 1 MiB, or 5 MiB where the rate is fixed."""
    conversation = moving(auto=auto)
    assert min(asked_every_tenth(conversation)[1:]) == (MIN_BYTES * GROWTH // 1 if auto else MIB)
    assert math.isinf(conversation.link.claim.path.fetcher.max_bytes_beside_in_sync) is not auto


def test_a_floor_is_kept_however_long_the_follower_takes() -> None:
    """A deadline needs 8 MiB/s, and the follower comes back after a tenth of a second each time."""
    conversation = moving(auto=True)
    conversation.throttle.floor_bytes_per_second = 8.0 * MIB
    assert min(asked_every_tenth(conversation)[1:]) == pytest.approx(0.8 * MIB, rel=0.01)


def test_a_pause_of_producers_does_not_bring_a_whole_burst() -> None:
    """The leader's answer had nothing new, so nobody writes at this moment; a second later somebody does."""
    conversation = moving(auto=True)
    conversation.link.replicas.known["t", 0].saw_batch(16_200)
    conversation.answer(conversation.ask(), {LIVE: 5_000})
    conversation.now += 0.001
    conversation.link.claim.path.fetcher.rest(conversation.now)
    waiting = conversation.ask(max_wait_ms=100)
    assert ("t", 0) not in conversation.asked_for(waiting)
    conversation.now += 0.2
    conversation.answer(waiting)
    assert conversation.asked_for(conversation.ask())["t", 0] <= MIN_BYTES * GROWTH
    conversation.now += LIVE_SECONDS
    assert conversation.asked_for(conversation.ask())["t", 0] == MIB


@pytest.mark.parametrize(
    ("batch_bytes", "asked_bytes"),
    [
        (0, MIN_BYTES),
        (1_000, 16_012),
        (16_200, 16_212),
        (20_000, 20_012),
        (40_000, 40_012),
        (MIB, MIB),
    ],
)
def test_where_little_may_come_it_comes_in_whole_batches(batch_bytes: int, asked_bytes: int) -> None:
    """A part of another batch would take the link as long, and be fetched again."""
    conversation = moving(auto=True)
    conversation.link.replicas.known["t", 0].saw_batch(batch_bytes)
    assert asked_beside_late_answers(conversation) == asked_bytes


def test_who_may_have_little_at_once_goes_on_wanting_the_rest() -> None:
    conversation = moving(auto=True)
    conversation.link.replicas.known["t", 0].saw_batch(16_200)
    assert asked_beside_late_answers(conversation) < MIB
    assert conversation.link.claim.path.trunk[0].wants


def test_after_an_answer_without_records_it_is_asked_for_more() -> None:
    """Its next batch may be larger than all that were seen."""
    conversation = moving(auto=True)
    replica = conversation.link.replicas.known["t", 0]
    replica.saw_batch(16_200)
    assert asked_beside_late_answers(conversation) == 16_212
    replica.unused()
    replica.stalled(needs_more=True)
    conversation.now += 1.0
    assert conversation.asked_for(conversation.ask())["t", 0] == 2 * MIN_NEED_BYTES


@pytest.mark.parametrize("of_listener", [False, True])
@pytest.mark.parametrize("enforce", [True, False])
def test_a_fixed_rate_is_reached_in_pieces_after_which_its_follower_is_soon_back(
    enforce: bool, of_listener: bool
) -> None:
    """100 MiB/s over a link of twice as much. In pieces of 1 MiB, all that it asks for, a record in sync waited 5 ms
    for each; nothing is asked to be less in observe mode."""
    rate, listener_rate = (math.inf, 100.0 * MIB) if of_listener else (100.0 * MIB, math.inf)
    conversation = moving(auto=False, enforce=enforce, rate=rate, listener_rate=listener_rate)
    asked: list[int] = []
    while conversation.now < 5.0:
        decision = conversation.ask()
        asked.append(conversation.asked_for(decision).get(("t", 0), 0))
        conversation.answer(decision, {("t", 0): asked[-1], LIVE: 5_000} if asked[-1] else {LIVE: 5_000})
        conversation.now += BEST_SECONDS + asked[-1] / (200 * MIB)
    large = sum(size > 0.5 * MIB for size in asked) / len(asked)
    if enforce:
        assert large < 0.02
        assert sum(asked) / conversation.now == pytest.approx(100 * MIB, rel=0.03)
    else:
        assert large == 1


@pytest.mark.parametrize(("before", "since"), [(0.02, 0.08), (0.01, 0.03), (0.005, 0.02)])
def test_a_fixed_rate_is_reached_when_producers_stop_and_answers_take_longer(before: float, since: float) -> None:
    """It went on in pieces of what the rate brought in the short round trips: 0.29 to 0.55 of it for the whole move."""
    conversation = moving(auto=False, partitions=12)
    moved = [0] * 12
    while conversation.now < len(moved):
        writes = conversation.now < 3.0
        decision = conversation.ask()
        asked = {key: size for key, size in conversation.asked_for(decision).items() if key != LIVE}
        moved[int(conversation.now)] += sum(asked.values())
        conversation.now += before if writes else since
        conversation.answer(decision, {**asked, **({LIVE: 5_000} if writes else {})})
        conversation.now += BEST_SECONDS + sum(asked.values()) / (800 * MIB)
    assert min(moved[4:]) > 0.85 * 100 * MIB


def test_pieces_of_a_fixed_rate_are_large_enough_to_be_worth_an_answer() -> None:
    """4 MiB/s to a follower that is slow for want of a processor: pieces of 64 KiB made it slower still."""
    conversation = moving(auto=False, rate=4.0 * MIB)
    pieces: list[int] = []
    for turn in range(400):
        decision = conversation.ask()
        asked = conversation.asked_for(decision).get(("t", 0), 0)
        conversation.answer(decision, {("t", 0): asked, LIVE: 5_000} if asked else {LIVE: 5_000})
        conversation.now += 0.002 if turn < 20 else 0.012
        pieces += [asked] if asked and turn > 40 else []
    assert MIN_FIXED_BYTES <= min(pieces) <= max(pieces) < 1.5 * MIN_FIXED_BYTES
    assert sum(pieces) / (360 * 0.012) == pytest.approx(4 * MIB, rel=0.05)


def test_a_fixed_rate_after_one_that_does_not_hurt_lets_them_ride_freely() -> None:
    conversation = moving(auto=True)
    asked_every_tenth(conversation)
    conversation.throttle.is_auto = False
    assert min(asked_every_tenth(conversation)) >= MIB
