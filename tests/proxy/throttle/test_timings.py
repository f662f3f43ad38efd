"""What connections say of how long their peers take."""

from __future__ import annotations

import pytest

from proxy.quotas import Partitions, Quotas, RoleQuota
from proxy.roles import Role
from proxy.statistics import RoleStatistics
from proxy.throttle.decision import Forward
from proxy.throttle.role_throttle import RoleThrottle
from proxy.throttle.timings import MOST_SAMPLES, STANDING_PAUSES, Timings
from tests.proxy.conversation import MIB, Conversation, behind, response_entry, settings, throttle

KEY = ("t", 0)


def timed(conversation: Conversation) -> Conversation:
    """The same under a rate that does not hurt: nothing else goes by these times."""
    conversation.throttle.is_auto = True
    return conversation


def test_medians_since_they_were_taken_last() -> None:
    timings = Timings()
    assert timings.take() == (None, None)
    for seconds in (0.1, 0.2, 5.0):
        timings.answered(seconds)
    timings.came_back(0.3)
    assert timings.take() == (0.2, 0.3)
    assert timings.take() == (None, None)


def test_followers_count_by_their_slower_half() -> None:
    """A link that was full for the last three tenths of a second; one fetch of four that took long."""
    timings = Timings()
    for number in range(100):
        timings.came_back(0.0005 if number < 70 else 0.005)
    assert timings.take() == (None, 0.005)
    for seconds in (0.001, 0.9, 0.001, 0.001):
        timings.came_back(seconds)
    assert timings.take() == (None, 0.001)


def test_no_more_is_kept_than_a_second_needs() -> None:
    """The last of a second count: the rate may have done harm since its first."""
    timings = Timings()
    for _ in range(10 * MOST_SAMPLES):
        timings.answered(1.0)
        timings.came_back(1.0)
    for _ in range(MOST_SAMPLES):
        timings.answered(9.0)
        timings.came_back(9.0)
    timings.answered(1.0)
    assert timings.take() == (9.0, 9.0)


class Queue:
    """Counts how many times a standing queue was told, of pauses that may be 2 ms long."""

    def __init__(self) -> None:
        self.timings, self.told = Timings(), 0
        self.timings.most_pause_seconds = 0.002
        self.timings.on_standing_queue = self._tell

    def _tell(self) -> None:
        self.told += 1

    def came_back(self, *milliseconds: float) -> int:
        for each in milliseconds:
            self.timings.came_back(each / 1000)
        return self.told


def test_pauses_that_are_too_long_one_after_the_other_are_told_at_once() -> None:
    queue = Queue()
    assert queue.came_back(*[1] * 200, *[3] * (STANDING_PAUSES - 1)) == 0
    assert queue.came_back(3) == 1
    assert queue.timings.take_last_pauses() == 0.003
    assert queue.timings.take() == (None, None)
    assert queue.came_back(*[3] * STANDING_PAUSES) == 2


def test_a_queue_that_stands_is_told_although_a_fetch_was_in_time() -> None:
    assert Queue().came_back(*[3, 3, 3, 3, 3, 3, 3, 1] * 3) == 1


@pytest.mark.parametrize("pauses", [[3, 1], [1, 3, 3, 3], [3, 3, 1, 3], [2]], ids=str)
def test_followers_that_are_late_by_chance_are_no_queue(pauses: list[float]) -> None:
    assert Queue().came_back(*pauses * 1000) == 0


def test_until_there_is_a_best_no_pause_is_too_long() -> None:
    timings = Timings()
    timings.on_standing_queue = pytest.fail
    for _ in range(100):
        timings.came_back(9.0)


def test_an_answer_is_timed_from_when_it_was_asked_for() -> None:
    conversation = timed(behind())
    conversation.now += 1.0
    decision = conversation.ask()
    conversation.now += 0.02
    conversation.answer(decision, {KEY: 10_000})
    assert conversation.throttle.timings.take() == (pytest.approx(0.02), None)


def test_an_in_sync_follower_is_timed_from_its_answer_to_its_next_fetch() -> None:
    conversation = timed(Conversation(throttle(), offsets={KEY: 1_000_000}))
    conversation.meet()
    conversation.now = 1.0
    conversation.answer(conversation.ask(), {KEY: 5_000}, high_watermark=1_000_005)
    conversation.now = 1.03
    conversation.ask()
    assert conversation.throttle.timings.take() == (None, pytest.approx(0.03))


def test_a_follower_that_had_nothing_to_append_is_not_timed() -> None:
    conversation = timed(Conversation(throttle(), offsets={KEY: 1_000_000}))
    conversation.meet()
    for now in (1.0, 1.5):
        conversation.now = now
        conversation.answer(conversation.ask())
    assert conversation.throttle.timings.take() == (None, None)


@pytest.mark.parametrize("listed", [True, False], ids=["listed", "unlisted"])
def test_what_catches_up_in_the_same_answer_makes_those_in_sync_wait(listed: bool) -> None:
    """One connection carries both, as with num.replica.fetchers=1: the time is that of the whole answer. The lists of a
    move name what moves, and producers write to other partitions."""
    live = ("live", 0)
    named = RoleQuota(4.0 * MIB, topics={"t": Partitions(frozenset({0}))})
    quotas = Quotas(leader=RoleQuota.of_every_topic(4.0 * MIB) if listed else named)
    held = RoleThrottle(Role.LEADER, settings(), quotas=quotas, statistics=RoleStatistics(), now=0.0)
    conversation = timed(Conversation(held, offsets={KEY: 0, live: 1_000_000}))
    conversation.meet()
    conversation.now = 1.0
    answer = conversation.answer(conversation.ask(), {KEY: 200_000})
    conversation.now = 1.05
    answer.forwards([response_entry(*live, 5_000, high_watermark=1_000_005)], b"", 0, conversation.now)
    conversation.now = 1.07
    conversation.ask()
    _, turnaround = held.timings.take()
    assert turnaround == pytest.approx(0.07)


def test_a_follower_that_only_catches_up_is_not_timed() -> None:
    conversation = timed(behind())
    conversation.now = 1.0
    conversation.answer(conversation.ask(), {KEY: 200_000})
    conversation.now = 1.07
    conversation.ask()
    _, turnaround = conversation.throttle.timings.take()
    assert turnaround is None


def test_a_connection_that_carries_nothing_listed_is_timed_while_a_rate_goes_by_it() -> None:
    """Another follower of a leader whose link is full: it is sent what producers write, and nothing moves there."""
    live = ("live", 0)
    quotas = Quotas(leader=RoleQuota(4.0 * MIB, topics={"t": Partitions(frozenset({0}))}))
    held = RoleThrottle(Role.LEADER, settings(), quotas=quotas, statistics=RoleStatistics(), now=0.0)
    conversation = timed(Conversation(held, offsets={live: 1_000_000}))
    decision = conversation.ask()
    assert isinstance(decision, Forward)
    assert decision.outlook is None  # its answers pass unread
    held.timings.are_wanted = True
    conversation.answer(conversation.ask(), {live: 5_000})
    conversation.now += 0.03
    conversation.ask()
    assert held.timings.take() == (None, pytest.approx(0.03))


def test_under_a_fixed_rate_nothing_is_timed() -> None:
    conversation = Conversation(throttle(), offsets={KEY: 1_000_000})
    conversation.meet()
    conversation.answer(conversation.ask(), {KEY: 5_000}, high_watermark=1_000_005)
    conversation.ask()
    assert conversation.throttle.timings.take() == (None, None)


def test_what_was_timed_before_a_fixed_rate_is_not_taken_up_after_it() -> None:
    """An hour under a fixed rate is not how long a follower took to come back."""
    conversation = timed(Conversation(throttle(), offsets={KEY: 1_000_000}))
    conversation.meet()
    conversation.answer(conversation.ask(), {KEY: 5_000}, high_watermark=1_000_005)
    conversation.throttle.is_auto = False
    conversation.answer(conversation.ask())
    conversation.now += 3600.0
    timed(conversation).ask()
    assert conversation.throttle.timings.take() == (None, None)
