"""What connections say of how long their peers take."""

from __future__ import annotations

import pytest

from proxy.throttle.timings import MOST_SAMPLES, Timings
from tests.proxy.conversation import Conversation, behind, throttle

KEY = ("t", 0)


def test_medians_since_they_were_taken_last() -> None:
    timings = Timings()
    assert timings.take() == (None, None)
    for seconds in (0.1, 0.2, 5.0):
        timings.answered(seconds)
    timings.came_back(0.3)
    assert timings.take() == (0.2, 0.3)
    assert timings.take() == (None, None)


def test_no_more_is_kept_than_a_second_needs() -> None:
    timings = Timings()
    for _ in range(MOST_SAMPLES):
        timings.answered(1.0)
        timings.came_back(1.0)
    for _ in range(10 * MOST_SAMPLES):
        timings.answered(9.0)
        timings.came_back(9.0)
    assert timings.take() == (1.0, 1.0)


def test_an_answer_is_timed_from_when_it_was_asked_for() -> None:
    conversation = behind()
    conversation.now += 1.0
    decision = conversation.ask()
    conversation.now += 0.02
    conversation.answer(decision, {KEY: 10_000})
    assert conversation.throttle.timings.take() == (pytest.approx(0.02), None)


def test_an_in_sync_follower_is_timed_from_its_answer_to_its_next_fetch() -> None:
    conversation = Conversation(throttle(), offsets={KEY: 1_000_000})
    conversation.meet()
    conversation.now = 1.0
    conversation.answer(conversation.ask(), {KEY: 5_000}, high_watermark=1_000_005)
    conversation.now = 1.03
    conversation.ask()
    assert conversation.throttle.timings.take() == (None, pytest.approx(0.03))


def test_a_follower_that_had_nothing_to_append_is_not_timed() -> None:
    conversation = Conversation(throttle(), offsets={KEY: 1_000_000})
    conversation.meet()
    for now in (1.0, 1.5):
        conversation.now = now
        conversation.answer(conversation.ask())
    assert conversation.throttle.timings.take() == (None, None)
