"""A replica's Fetch from when all of it is here until it goes on or is answered: decided, perhaps held, decided again.

    take ─▶ decide ─┬─▶ it goes on
               ▲    ├─▶ it is held: `held.decision` says until when ──▶ due ──▶ again
               └────┼────────────────────────────────────────────────────────────┘
                    └─▶ it is to be answered here, in its turn: `answered` once that is done

A Fetch of many partitions is decided in slices (`protocol.work_in_steps`), between which other connections have their
turns. At most `in_flight.MAX_IN_SLICES` such requests of all connections are in work at once; the others wait for
their turn. A decision in slices never overlaps with an answer of the same connection: both change what is known of its
replicas.

Pure: no I/O, no waiting. Invariants: one request at a time; the next is not read before this one is dealt with. From
the first slice to the last, or to the end of the connection, the request is counted in `Buffers.in_slices`; the bytes
of a request that waits for its first slice stay in the window.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

from protocol import work_in_steps
from protocol.fetch.request import FetchRequestParser, parse_fetch_request
from protocol.fetch.tables import FIRST_VERSION_WITH_SESSIONS
from protocol.wire.framing import LENGTH_PREFIX_BYTES, with_length
from protocol.wire.headers import REQUEST_CORRELATION_ID_AT
from protocol.work_in_steps import freed, run_through

from ..statistics.counters import Undecoded
from ..throttle.decision import Answer, Forward, Hold
from .direction import Replace
from .in_flight import DECIDED, HELD_REQUEST, LONG_FRAME_BYTES, NO_REQUEST, OPEN, SLICED, WAITING
from .poller import SLICE_SECONDS
from .transport import HELD, TURN

if TYPE_CHECKING:
    from collections.abc import Callable

    from protocol.fetch.request import FetchRequest
    from protocol.work_in_steps import Steps

    from ..throttle.decision import Decision, Demand
    from .direction import Step
    from .in_flight import InFlightRequests

AFTER_CORRELATION_ID = REQUEST_CORRELATION_ID_AT + 4


class Held(NamedTuple):
    """A request that was taken from the follower, and cannot be dealt with at once."""

    demand: Demand | None
    decision: Hold | Answer
    changes: int
    """The number of changes of quotas before it was decided."""


class FetchHandler:
    """Decides one connection's requests, one at a time. `clock` returns Trio's time, `turn_clock` ends slices."""

    __slots__ = ("_clock", "_held_since", "_in_flight", "_is_same", "_last", "_slices", "_turn_clock", "due", "held")

    def __init__(
        self, in_flight: InFlightRequests, clock: Callable[[], float], turn_clock: Callable[[], float] = perf_counter
    ) -> None:
        self._in_flight = in_flight
        self._clock = clock
        self._turn_clock = turn_clock
        self.held: Held | None = None
        """The request that waits: for its time, or for the answers to earlier requests; None: none does."""
        self.due = False
        """True if the held request is to be decided again: its time has come, or quotas have changed."""
        self._held_since: float | None = None
        self._is_same = False
        """True if the request that was read last is equal to the one before it, but for its correlation id."""
        self._last: tuple[int, bytes, bytes, FetchRequest] | None = None
        """The last Fetch: its length, its bytes before and after the correlation id, and what was parsed from them."""
        self._slices: Steps[Step] | None = None
        """The request that is being decided in slices; None: none is."""

    def same(self, frame: bytes) -> FetchRequest | None:
        """Return what was parsed from the last Fetch if this one is equal to it, but for the correlation id, which
        stays the last one's; None if it differs. Before v7 an idle follower sends the same request again and again,
        and comparing costs less than parsing."""
        last = self._last
        if last is None or len(frame) != last[0] or frame[AFTER_CORRELATION_ID:] != last[2]:
            return None
        self._is_same = frame[:REQUEST_CORRELATION_ID_AT] == last[1]
        return last[3] if self._is_same else None

    def parse(self, frame: bytes) -> FetchRequest:
        """Parse a short request, and keep it to compare the next one with. Raises ProtocolError."""
        return self._kept(frame, parse_fetch_request(frame))

    def parse_in_steps(self, frame: bytes) -> Steps[FetchRequest]:
        """Do the same for one of any length. Raises ProtocolError."""
        last, self._last = self._last, None
        if last is not None:
            self._in_flight.buffers.keep(0, instead_of=last[0])
            yield from freed(last[3].entries)
        parser = FetchRequestParser(frame)
        while (request := parser.step()) is None:
            yield
        return self._kept(frame, request)

    def decide(self, work: Steps[Step], total: int) -> Step:
        """Do `work`, about a frame of `total` bytes, or as much of it as a slice holds. Raises what it raises."""
        in_flight = self._in_flight
        if total <= LONG_FRAME_BYTES and not self.has_many_replicas:
            return run_through(work)
        if in_flight.answer is DECIDED or not in_flight.buffers.has_room_for_slices:
            if self.held is None:
                in_flight.request = WAITING
            return HELD if in_flight.answer is DECIDED else TURN
        in_flight.buffers.in_slices += 1
        self._slices = work
        return self._slice(work)

    def go_on(self) -> Step | None:
        """Run the next slice of the request that is in slices, or decide once more the one that is held: whenever there
        is such a request, before another one is read.

        None: a request that waited may begin now, and is to be read from the window.
        """
        if self._slices is not None:
            return self._slice(self._slices)
        if self.held is not None:
            return self.decide(self._again(self.held), 0) if self.due else HELD
        if not self._in_flight.buffers.has_room_for_slices:
            return TURN
        self._in_flight.request = NO_REQUEST
        return None

    def take(self, frame: bytes, request: FetchRequest, correlation_id: int) -> Steps[Step]:
        """Decide a replica's Fetch, the next frame of the window: forward it, hold it, or have it answered here. If it
        differs from the last Fetch by its correlation id alone, `request` may be what was parsed from that one."""
        in_flight, now, total = self._in_flight, self._clock(), LENGTH_PREFIX_BYTES + len(frame)
        if request.replica_id >= 0:
            in_flight.fetched(request.head.api_version)
        link, changes = in_flight.decider, in_flight.changes.count
        replicas = link.replicas
        before = replicas.not_remembered
        demand = yield from link.begin(frame, request, now, is_same=self._is_same)
        if replicas.not_remembered != before:
            in_flight.pass_undecoded(Undecoded.TOO_MANY_REPLICAS)
        if isinstance(demand, Answer):
            return self._hold(Held(None, demand, changes), total)
        decision: Decision = yield from link.decide(demand, now, may_hold=in_flight.service is OPEN)
        if not isinstance(decision, Forward):
            return self._hold(Held(demand, decision, changes), total)
        in_flight.sent_whole(correlation_id, decision.pending)
        return total if decision.frame is None else Replace(total, with_length(decision.frame))

    def answer(self, answer: Answer, total: int) -> Step:
        """Queue our own answer to the next request of the window, of `total` bytes, in its turn."""
        return self._hold(Held(None, answer, self._in_flight.changes.count), total)

    def answered(self) -> None:
        """Note that the held request has been dealt with: the next one may come."""
        self.held = None
        self._in_flight.decided()

    def lost(self) -> None:
        """Drop what is held for the connection, which has ended."""
        if self._slices is not None:
            self._slices.close()
            self._end_slices()
        self._held_long_enough()
        if self._last is not None:
            self._in_flight.buffers.keep(0, instead_of=self._last[0])
            self._last = None

    @property
    def has_many_replicas(self) -> bool:
        """True if there are many replicas of which something is to be decided, or looked at again."""
        replicas = self._in_flight.decider.replicas
        return len(replicas.behind) + len(replicas.new) + len(replicas.changed) > work_in_steps.STEP_ITEMS

    def _slice(self, work: Steps[Step]) -> Step:
        """Do steps until the slice is over. Return TURN, or the result after the last step."""
        in_flight, ends = self._in_flight, self._turn_clock() + SLICE_SECONDS
        in_flight.request = SLICED
        try:
            while True:
                next(work)
                if self._turn_clock() > ends:
                    return TURN
        except StopIteration as done:
            self._end_slices()
            step: Step = done.value
            return step
        except BaseException:
            self._end_slices()
            raise

    def _end_slices(self) -> None:
        self._slices = None
        self._in_flight.request = NO_REQUEST if self.held is None else HELD_REQUEST
        self._in_flight.buffers.in_slices -= 1

    def _again(self, held: Held) -> Steps[Step]:
        """Decide the held request once more: HELD if it still has to wait, or is to be answered here."""
        demand, in_flight, changes = held.demand, self._in_flight, self._in_flight.changes.count
        self.due = False
        if demand is None:
            return HELD
        decision: Decision = yield from in_flight.decider.decide(
            demand, self._clock(), may_hold=in_flight.service is OPEN
        )
        if not isinstance(decision, Forward):
            self.held = Held(demand, decision, changes)
            if isinstance(decision, Answer):
                self._held_long_enough()
            return HELD
        self._held_long_enough()
        in_flight.sent_whole(demand.correlation_id, decision.pending)
        self.answered()
        return Replace(0, with_length(demand.frame if decision.frame is None else decision.frame))

    def _hold(self, held: Held, total: int) -> Step:
        self.held = held
        self._in_flight.request = HELD_REQUEST
        if isinstance(held.decision, Hold):
            self._held_since = self._clock()
            self._in_flight.decider.throttle.statistics.held_requests += 1
        return Replace(total, b"")

    def _held_long_enough(self) -> None:
        if self._held_since is not None:
            seconds, self._held_since = self._clock() - self._held_since, None
            self._in_flight.decider.throttle.statistics.held_requests -= 1
            self._in_flight.decider.throttle.statistics.hold_seconds.observe(seconds)
            self._in_flight.held_seconds += seconds

    def _kept(self, frame: bytes, request: FetchRequest) -> FetchRequest:
        before = 0 if self._last is None else self._last[0]
        self._is_same, self._last = False, None
        size = len(frame) if request.head.api_version < FIRST_VERSION_WITH_SESSIONS else 0
        if self._in_flight.buffers.keep(size, instead_of=before) and size:
            self._last = size, frame[:REQUEST_CORRELATION_ID_AT], frame[AFTER_CORRELATION_ID:], request
        return request
