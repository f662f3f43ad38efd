"""Answers to decided requests: what goes on, and that it is learnt from afterwards; on the wire: test_responses and
test_sessions."""

from __future__ import annotations

import pytest

from protocol.wire.framing import LENGTH_PREFIX_BYTES, with_length
from proxy.changes import Changes
from proxy.relay.direction import Replace
from proxy.relay.in_flight import InFlightRequests
from proxy.relay.responses import ResponseReader
from proxy.relay.transfer import Need, Window
from proxy.relay.transport import TURN
from proxy.throttle.decision import Forward
from tests.proxy.conversation import MIB, Conversation, throttle
from tests.proxy.recorded_log import RecordedLog

from .wire import CORRELATION_ID, T0, T1, answer, batch, entry, limits, parsed, reserved_bytes

BEFORE, AFTER = 1_000_000, 1_000_500
ENTRY_BYTES = 18
"""What a partition takes on the wire beside its records."""


class Scene:
    """A follower in sync with T0 and behind with T1, which has just had all that the quota allows for now."""

    def __init__(self) -> None:
        self.follower = Conversation(throttle(4 * MIB), offsets={T0: BEFORE, T1: 0})
        self.in_flight = InFlightRequests(self.follower.link, Changes(), RecordedLog())
        self.window = Window(64 * 1024)
        self.reader = ResponseReader(self.in_flight, limits(), lambda: self.follower.now)
        self.follower.meet(high_watermark=BEFORE)
        decision = self.follower.ask()
        self.follower.answer(decision, {T1: self.follower.asked_for(decision)[T1]}, high_watermark=BEFORE)

    def fetch(self) -> Forward:
        decision = self.follower.ask()
        assert isinstance(decision, Forward)
        self.in_flight.sent_whole(CORRELATION_ID, decision.pending)
        return decision

    def hear(self, frame: bytes) -> bytes | None:
        """The leader's answer is in the window: what is to go on."""
        data = with_length(frame)
        self.window.buffer[: len(data)] = data
        self.window.start, self.window.end = 0, len(data)
        # Work that a busy machine interrupts for longer than a slice goes on in the next turn.
        while (step := self.reader.read(self.window)) is TURN:
            pass
        if isinstance(step, Replace):
            self.window.start += step.size
            return bytes(step.data)
        assert isinstance(step, int)
        data = bytes(self.window.view(step))
        self.window.start += step
        return data

    @property
    def high_watermark(self) -> int:
        return self.follower.link.replicas.known[T0].high_watermark


def news(size: int = 70) -> bytes:
    return answer({"t": [entry(0, batch(size), high_watermark=AFTER)]})


def test_nothing_is_learnt_before_it_has_gone_on() -> None:
    scene = Scene()
    assert list(scene.follower.asked_for(scene.fetch())) == [T0]
    found = scene.hear(news())
    assert found is not None
    assert parsed(found[LENGTH_PREFIX_BYTES:]) == [(T0, 0, AFTER, 70), (T1, 0, BEFORE, 0)]
    assert (scene.high_watermark, scene.window.size) == (BEFORE, 0)
    assert scene.reader.on_sent()
    assert scene.high_watermark == AFTER


def test_what_was_lost_on_its_way_teaches_nothing_and_gives_its_grants_back() -> None:
    scene = Scene()
    scene.follower.now = 1.0
    scene.fetch()
    assert reserved_bytes(scene.follower.throttle) > 0
    assert scene.hear(answer({"t": [entry(0, b"", high_watermark=AFTER), entry(1, batch(70))]})) is not None
    scene.reader.lost(1.0)
    assert reserved_bytes(scene.follower.throttle) == 0
    assert scene.high_watermark == BEFORE


def test_what_is_added_follows_what_is_omitted() -> None:
    """Entries are encoded once as long as they stay the same: another high watermark is another entry."""
    scene = Scene()
    for high_watermark in (BEFORE, BEFORE, BEFORE + 7):
        scene.follower.link.replicas.known[T1].high_watermark = high_watermark
        scene.fetch()
        found = scene.hear(news())
        assert found is not None
        assert parsed(found[LENGTH_PREFIX_BYTES:])[1:] == [(T1, 0, high_watermark, 0)]
        assert scene.reader.on_sent()
        scene.follower.offsets[T0] = AFTER


@pytest.mark.parametrize("cut", [0, 3, 11])
def test_what_stands_before_the_topics_is_waited_for(cut: int) -> None:
    scene = Scene()
    scene.fetch()
    frame = with_length(news())
    scene.window.buffer[:cut] = frame[:cut]
    scene.window.start, scene.window.end = 0, cut
    step = scene.reader.read(scene.window)
    assert isinstance(step, Need)
    assert scene.window.size == cut
    assert scene.in_flight.owes_response


def test_a_piece_of_an_answer_is_learnt_once_it_has_gone_and_the_rest_later() -> None:
    scene = Scene()
    scene.follower.now = 1.0
    scene.fetch()
    had = scene.follower.throttle.statistics.throttled_bytes_catching_up
    told = with_length(answer({"t": [entry(0, b"", high_watermark=AFTER), entry(1, batch(9000))]}))
    scene.window.buffer[:5000] = told[:5000]
    scene.window.start, scene.window.end = 0, 5000
    assert scene.reader.read(scene.window) == 5000
    assert scene.high_watermark == BEFORE
    scene.window.start += 5000
    assert not scene.reader.on_sent()
    assert scene.high_watermark == AFTER
    assert reserved_bytes(scene.follower.throttle) > 9000
    assert scene.follower.throttle.statistics.throttled_bytes_catching_up == had
    assert scene.in_flight.owes_response
    scene.window.buffer[: len(told) - 5000] = told[5000:]
    scene.window.start, scene.window.end = 0, len(told) - 5000
    assert scene.reader.read(scene.window) == len(told) - 5000
    scene.window.start += len(told) - 5000
    assert scene.reader.on_sent()
    assert not scene.in_flight.owes_response
    assert reserved_bytes(scene.follower.throttle) == 0
    assert scene.follower.throttle.statistics.throttled_bytes_catching_up == had + ENTRY_BYTES + 9000
    assert scene.follower.link.replicas.known[T1].batches.seen == 9000


def test_records_that_break_off_are_accounted_for_whole() -> None:
    """A follower that breaks off again and again would have most of each answer for nothing otherwise."""
    scene = Scene()
    scene.follower.now = 1.0
    scene.fetch()
    had = scene.follower.throttle.statistics.throttled_bytes_catching_up
    told = with_length(answer({"t": [entry(1, batch(9000))]}))
    scene.window.buffer[:5000] = told[:5000]
    scene.window.start, scene.window.end = 0, 5000
    assert scene.reader.read(scene.window) == 5000
    scene.window.start += 5000
    assert not scene.reader.on_sent()
    scene.reader.lost(1.0)
    assert scene.follower.throttle.statistics.throttled_bytes_catching_up == had + ENTRY_BYTES + 9000
    assert reserved_bytes(scene.follower.throttle) == 0


@pytest.mark.parametrize(("gone", "accounted"), [(0, 0), (3000, 1), (9500, 2), (18_000, 2)])
def test_a_piece_that_breaks_off_is_accounted_for_as_far_as_it_has_gone(gone: int, accounted: int) -> None:
    """The follower had read most of a large piece, and none of it was paid for."""
    scene = Scene()
    scene.follower.now = 1.0
    scene.fetch()
    statistics = scene.follower.throttle.statistics
    had = statistics.throttled_bytes_catching_up + statistics.throttled_bytes_in_sync
    assert scene.hear(answer({"t": [entry(0, batch(9000)), entry(1, batch(9000))]})) is not None
    scene.in_flight.passed_response(gone)
    scene.reader.lost(1.0)
    now = statistics.throttled_bytes_catching_up + statistics.throttled_bytes_in_sync
    assert now - had == accounted * (9000 + ENTRY_BYTES)
    assert reserved_bytes(scene.follower.throttle) == 0
