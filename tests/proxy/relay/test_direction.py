"""A direction without sockets: the same bytes go on, however they come and however little room there is for them."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.changes import Changes
from proxy.relay.direction import Cause, Direction
from proxy.relay.in_flight import HELD_REQUEST, InFlightRequests
from proxy.relay.requests import RequestReader
from proxy.relay.responses import ResponseReader
from proxy.relay.transfer import Transfer, Window
from proxy.relay.transport import ConnectionEndedError, Wait
from proxy.throttle.decision import Answer, Hold
from proxy.throttle.link import Link
from tests.proxy.conversation import MIB, fetch_frame, throttle
from tests.proxy.recorded_log import RecordedLog

from .memory import EVER, MemoryTransport
from .test_passing import CASES, PRODUCE, fetch, idle, listed, records
from .wire import T0, T1, answer, batch, entry, limits

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from proxy.throttle.role_throttle import RoleThrottle

from protocol.wire.framing import with_length

FOREVER = 1e9


@dataclass
class Both:
    """Both directions of one connection."""

    throttle: RoleThrottle
    now: float = 0.0
    window_bytes: int = 64 * 1024
    follower: MemoryTransport = field(default_factory=MemoryTransport)
    leader: MemoryTransport = field(default_factory=MemoryTransport)

    def __post_init__(self) -> None:
        self.in_flight = in_flight = InFlightRequests(Link(self.throttle, "102"), Changes(), RecordedLog())
        self.request_reader = RequestReader(in_flight, limits(), lambda: self.now)
        self.response_reader = ResponseReader(in_flight, limits(), lambda: self.now)
        self.requests = self._direction(self.request_reader, self.follower, self.leader, in_flight.passed_request)
        self.responses = self._direction(self.response_reader, self.leader, self.follower, in_flight.passed_response)

    def _direction(
        self,
        reader: RequestReader | ResponseReader,
        source: MemoryTransport,
        sink: MemoryTransport,
        count: Callable[[int], None],
    ) -> Direction:
        window = Window(self.window_bytes)
        return Direction(reader, Transfer(source, sink, window, count=count, splices=True), Cause.BROKEN)

    def go_on(self, direction: Direction, turn_ends: float = FOREVER) -> Wait:
        direction.wants = direction.advance(turn_ends)
        return direction.wants

    def drain(self, direction: Direction, rooms: Sequence[int], turn_ends: float = FOREVER) -> None:
        """Until all is through, the sink having so much room each time."""
        sink, turn = direction.transfer.sink, 0
        assert isinstance(sink, MemoryTransport)
        while True:
            sink.room = rooms[turn % len(rooms)] if rooms else EVER
            wants = self.go_on(direction, turn_ends)
            if wants not in (Wait.WRITE, Wait.TURN):
                return
            turn += 1


def pieces(data: bytes, sizes: Sequence[int]) -> list[bytes]:
    found, at, turn = [], 0, 0
    while at < len(data):
        size = sizes[turn % len(sizes)]
        found.append(data[at : at + size])
        at, turn = at + size, turn + 1
    return found


some_sizes = st.lists(st.integers(1, 5000), min_size=1, max_size=6)


@pytest.mark.parametrize("name", CASES)
@given(
    asks=some_sizes,
    tells=some_sizes,
    rooms=st.lists(st.integers(1, 900), max_size=4),
    of=st.sampled_from([listed, idle]),
    hurried=st.booleans(),
)
@settings(max_examples=15, deadline=None)
def test_what_is_not_altered_passes_however_it_comes_and_goes(
    name: str, asks: list[int], tells: list[int], rooms: list[int], of: Callable[[], RoleThrottle], *, hurried: bool
) -> None:
    """`hurried`: every turn is over when it begins."""
    case, both = CASES[name], Both(of())
    turn_ends = 0.0 if hurried else FOREVER
    for source, data, sizes, direction in (
        (both.follower, case.asks, asks, both.requests),
        (both.leader, case.tells, tells, both.responses),
    ):
        for piece in pieces(data, sizes):
            source.feed(piece)
            both.drain(direction, rooms, turn_ends)
        source.end()
        both.drain(direction, rooms, turn_ends)
        assert direction.wants is Wait.END
    assert bytes(both.leader.kept) == case.asks
    assert bytes(both.follower.kept) == case.tells
    assert both.leader.finished
    assert both.follower.finished
    assert both.throttle.statistics.relayed_request_bytes == len(case.asks)
    assert both.throttle.statistics.relayed_response_bytes == len(case.tells)


def met(of: RoleThrottle) -> Both:
    """T0 and T1 are behind, and known to be."""
    both = Both(of)
    in_flight(both, with_length(answer([entry(0), entry(1)])))
    return both


def in_flight(both: Both, told: bytes) -> None:
    both.follower.feed(with_length(fetch_frame({T0: 0, T1: 0})))
    both.go_on(both.requests)
    both.leader.feed(told)
    both.go_on(both.responses)


def test_while_a_request_is_held_nothing_is_read() -> None:
    both = met(throttle(0))
    had = bytes(both.leader.kept)
    both.follower.feed(with_length(fetch_frame({T0: 0, T1: 0})), PRODUCE)
    assert both.go_on(both.requests) is Wait.HELD
    assert both.go_on(both.requests) is Wait.HELD
    decision = both.request_reader.decision
    assert decision.held is not None
    assert isinstance(decision.held.decision, Hold)
    assert both.in_flight.request is HELD_REQUEST
    assert not both.in_flight.is_idle
    assert both.throttle.statistics.held_requests == 1
    both.now, decision.due = 0.5, True
    assert both.go_on(both.requests) is Wait.HELD
    assert isinstance(decision.held.decision, Answer)
    assert both.throttle.statistics.held_requests == 0
    assert both.in_flight.held_seconds == 0.5
    assert both.go_on(both.requests) is Wait.HELD
    decision.answered()
    assert both.in_flight.is_idle
    assert both.go_on(both.requests) is Wait.READ
    assert bytes(both.leader.kept) == had + PRODUCE


@pytest.mark.parametrize("room", [0, 1, 30, 200])
def test_an_answer_is_learnt_from_once_all_of_it_has_gone(room: int) -> None:
    both = met(throttle(4 * MIB))
    replica = both.in_flight.link.replicas.known[T0]
    both.follower.feed(with_length(fetch_frame({T0: 0, T1: 0})))
    both.go_on(both.requests)
    both.follower.room = room
    both.leader.feed(with_length(answer([entry(0, batch(500), high_watermark=7)])))
    assert both.go_on(both.responses) is Wait.WRITE
    assert replica.high_watermark == 1_000_000
    assert both.throttle.statistics.throttled_bytes_catching_up == 0
    both.follower.room = EVER
    assert both.go_on(both.responses) is Wait.READ
    assert replica.high_watermark == 7
    assert both.throttle.statistics.throttled_bytes_catching_up > 500
    assert both.in_flight.is_idle


@pytest.mark.parametrize("cut", range(5, 60, 9))
def test_an_end_in_a_frame_is_an_error_after_what_came_has_gone(cut: int) -> None:
    both = Both(idle())
    both.follower.feed(fetch()[:cut])
    both.follower.end()
    with pytest.raises(ConnectionEndedError, match="before the end of a frame"):
        both.go_on(both.requests)
    assert bytes(both.leader.kept) == fetch()[:cut]


def test_an_end_in_a_watched_answer_is_an_error() -> None:
    both = met(listed())
    both.follower.feed(with_length(fetch_frame({T0: 0, T1: 0})))
    both.go_on(both.requests)
    told = records()
    both.leader.feed(told[:4000])
    both.leader.end()
    with pytest.raises(ConnectionEndedError, match="before the end of a frame"):
        both.go_on(both.responses)
    both.response_reader.lost(0.0)
    both.in_flight.close(0.0)


def test_a_turn_ends_by_the_clock_and_the_next_goes_on_where_it_ended() -> None:
    both = Both(idle())
    both.follower.feed(PRODUCE * 3000)
    turns = 0
    while both.go_on(both.requests, perf_counter()) is Wait.TURN:
        turns += 1
    assert turns > 10
    assert both.in_flight.frames <= 3000
    assert bytes(both.leader.kept) == (PRODUCE * 3000)[: len(both.leader.kept)]
