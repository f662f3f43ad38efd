"""A Fetch of many partitions is decided a slice at a time, beside others, and comes to the same."""

from __future__ import annotations

import itertools

import pytest

from protocol.wire.framing import with_length
from proxy.ledger.ledger import Ledger
from proxy.relay import fetch_handling, in_flight
from proxy.relay.in_flight import SLICED, Buffers, RequestState
from proxy.relay.transport import READ, TURN, Wait
from tests.proxy.conversation import ENTRY_BYTES, MIB, fetch_frame, throttle

from .test_direction import FOREVER, Both
from .wire import answer, batch, entry, reserved_bytes

MANY = 700
HIGH = 1_000_000


@pytest.fixture
def short_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every pause is the end of a slice."""
    monkeypatch.setattr(fetch_handling, "SLICE_SECONDS", -1.0)


def long_fetch(offset: int) -> bytes:
    return with_length(fetch_frame({("t", n): offset for n in range(MANY)}))


def long_answer(*, brings: int = 0) -> bytes:
    return with_length(answer([entry(n, batch(600) if n < brings else b"") for n in range(MANY)]))


def conversation(both: Both, turn_ends: float) -> tuple[bytes, bytes]:
    """Three fetches at once, of a follower that does not wait; then their answers. What reached whom."""
    both.follower.feed(long_fetch(0) * 3)
    both.drain(both.requests, [], turn_ends)
    for brings in (0, 3, 0):
        both.leader.feed(long_answer(brings=brings))
        both.drain(both.responses, [], turn_ends)
        both.drain(both.requests, [], turn_ends)
    return bytes(both.leader.kept), bytes(both.follower.kept)


def test_many_partitions_come_to_the_same_in_slices(short_slices: None) -> None:
    sliced = Both(throttle(400 * MIB), window_bytes=256 * 1024)
    found = conversation(sliced, 0.0)
    sliced.now = 0.0
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(fetch_handling, "SLICE_SECONDS", FOREVER)
        at_once = Both(throttle(400 * MIB), window_bytes=256 * 1024)
        assert conversation(at_once, FOREVER) == found
    for one, other in zip(sliced.in_flight.link.replicas.known.values(), at_once.in_flight.link.replicas.known.values(),
                          strict=True):  # fmt: skip
        assert (one.key, one.high_watermark, one.standing) == (other.key, other.high_watermark, other.standing)
    assert sliced.in_flight.is_idle


def test_a_long_request_that_equals_the_last_one_is_told_to_the_journal_in_slices(short_slices: None) -> None:
    """It was told of 20 000 partitions in one go, for 5 ms."""
    of = throttle(400 * MIB)
    of.ledger = Ledger(0.0)
    both = Both(of, window_bytes=256 * 1024)
    for _ in range(2):
        both.follower.feed(long_fetch(HIGH))
        both.drain(both.requests, [], FOREVER)
        both.leader.feed(long_answer())
        both.drain(both.responses, [], FOREVER)
    both.follower.feed(long_fetch(HIGH))
    assert both.go_on(both.requests, 0.0) is TURN
    assert both.in_flight.request is SLICED


def test_a_connection_that_ends_while_an_answer_is_learnt_from_accounts_for_nothing_twice(short_slices: None) -> None:
    """An answer has gone on whole, and is learnt from in slices."""
    for steps in itertools.count(1):
        both = Both(throttle(4000 * MIB), window_bytes=2 * MIB)
        for brings in (0, MANY):
            both.now += 1
            both.follower.feed(long_fetch(0))
            both.drain(both.requests, [], FOREVER)
            both.leader.feed(long_answer(brings=brings))
            if not brings:
                both.drain(both.responses, [], FOREVER)
        statistics = both.throttle.statistics
        ended = [both.go_on(both.responses, 0.0) for _ in range(steps)][-1] is READ
        both.response_reader.lost(both.now)
        both.in_flight.close(both.now)
        assert statistics.throttled_bytes_catching_up <= MANY * (600 + ENTRY_BYTES)
        assert reserved_bytes(both.throttle) == 0
        if ended:
            break
    assert steps > 3


def test_while_it_is_decided_in_slices_answers_wait(short_slices: None) -> None:
    """Both change what is known of the replicas."""
    both = Both(throttle(400 * MIB), window_bytes=256 * 1024)
    both.follower.feed(long_fetch(0))
    both.drain(both.requests, [])
    both.follower.feed(long_fetch(0))
    assert both.go_on(both.requests) is Wait.TURN
    assert both.in_flight.request is SLICED
    both.leader.feed(long_answer())
    assert both.go_on(both.responses) is Wait.TURN
    assert not both.follower.kept
    both.drain(both.requests, [])
    both.drain(both.responses, [])
    assert bytes(both.follower.kept) == long_answer()


def test_while_an_answer_is_on_its_way_nothing_is_decided_in_slices(short_slices: None) -> None:
    both = Both(throttle(400 * MIB), window_bytes=256 * 1024)
    both.follower.feed(long_fetch(0) * 2)
    both.drain(both.requests, [])
    both.follower.room = 100
    both.leader.feed(long_answer())
    while both.go_on(both.responses) is Wait.TURN:
        pass
    both.follower.feed(long_fetch(0))
    assert both.go_on(both.requests) is Wait.HELD
    assert not both.in_flight.has_room_again
    both.follower.room = float("inf")
    both.drain(both.responses, [])
    assert both.in_flight.has_room_again
    both.drain(both.requests, [])
    assert bytes(both.leader.kept).count(b"broker-102-fetcher-0") == 3


@pytest.mark.parametrize("at", [0, 5, 12, 22])
def test_a_connection_that_ends_in_a_slice_gives_back_what_it_had(short_slices: None, at: int) -> None:
    both = Both(throttle(400 * MIB), window_bytes=256 * 1024)
    both.follower.feed(long_fetch(0))
    both.drain(both.requests, [])
    both.leader.feed(long_answer())
    both.drain(both.responses, [])
    both.follower.feed(long_fetch(1))
    for _ in range(at + 1):
        assert both.go_on(both.requests) is Wait.TURN
    both.request_reader.lost()
    both.response_reader.lost(0.0)
    both.in_flight.close(0.0)
    assert both.throttle.budget._bucket._reserved == 0


def test_so_many_are_decided_at_once_and_the_others_wait_with_their_bytes(
    short_slices: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each takes memory for each of its partitions until it is through."""
    monkeypatch.setattr(in_flight, "MAX_IN_SLICES", 2)
    shared, of = Buffers(), throttle(400 * MIB)
    all_of_them = [Both(of, window_bytes=256 * 1024) for _ in range(4)]
    for both in all_of_them:
        both.in_flight.buffers = shared
        both.follower.feed(long_fetch(0))
        assert both.go_on(both.requests) is Wait.TURN
    assert shared.in_slices == 2
    first, second, third, fourth = all_of_them
    for _ in range(3):
        assert third.go_on(third.requests) is Wait.TURN
    assert (third.in_flight.request, third.requests.transfer.window.size) == (RequestState.WAITING, len(long_fetch(0)))
    first.request_reader.lost()
    second.drain(second.requests, [])
    assert shared.in_slices == 0
    for both in (third, fourth):
        both.drain(both.requests, [])
        assert bytes(both.leader.kept).count(b"broker-102-fetcher-0") == 1
    assert shared.in_slices == 0


def test_what_was_read_of_a_frame_is_kept_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked again before Fetch v7; after that a fetch session says what has changed, and nothing is kept."""
    frame = fetch_frame({("t", 0): 5})
    monkeypatch.setattr(in_flight, "MAX_KEPT_BYTES", len(frame))
    shared, of = Buffers(), throttle(400 * MIB)
    first, second = (Both(of) for _ in range(2))
    for both in (first, second):
        both.in_flight.buffers = shared
        both.follower.feed(with_length(frame))
        both.drain(both.requests, [])
        assert both.leader.kept
    assert shared.kept == len(frame)
    first.request_reader.lost()
    second.request_reader.lost()
    assert shared.kept == 0


def test_so_many_long_fetches_are_decided_at_once(short_slices: None) -> None:
    """The next one waits for its turn, and is decided once another is done."""
    both = Both(throttle(400 * MIB), window_bytes=256 * 1024)
    buffers = both.in_flight.buffers
    buffers.in_slices = in_flight.MAX_IN_SLICES
    both.follower.feed(long_fetch(0))
    assert both.go_on(both.requests) is Wait.TURN
    assert both.in_flight.request is not SLICED
    assert not both.leader.kept
    buffers.in_slices -= 1
    both.drain(both.requests, [])
    assert bytes(both.leader.kept)
    assert buffers.in_slices == in_flight.MAX_IN_SLICES - 1
