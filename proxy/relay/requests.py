"""From the follower to the leader: which frames pass as they are, and what is decided about a replica's Fetch.

A Fetch that may be throttled is read whole (it is small: 16 bytes a partition), decided, and forwarded, held or
answered here. Everything else is passed on as it arrives. While a request is held nothing more is read: that is
the back-pressure.

Pure: no I/O, no waiting. Invariant: what is passed undecoded is passed byte for byte, counted, and logged once per
connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from protocol.errors import ProtocolError
from protocol.fetch.glance import peek_session
from protocol.fetch.request import LAST_VERSION_WITH_REPLICA_ID, parse_fetch_request, peek_replica_id
from protocol.fetch.tables import SUPPORTED_FETCH_VERSIONS
from protocol.wire.apis import API_FETCH
from protocol.wire.correlation import State, expects_response
from protocol.wire.framing import LENGTH_PREFIX_BYTES, frame_size, with_length
from protocol.wire.headers import REQUEST_CORRELATION_ID_AT, peek_request, request_correlation_id
from protocol.wire.whole_frames import whole_request

from ..throttle.decision import Answer, Forward, Hold
from .exchange import MAX_FRAME_BYTES, Undecoded
from .glance import passable_requests, passes_unseen
from .reading import Replace, rest
from .transfer import BETWEEN_FRAMES, Need
from .transport import HELD, TURN

if TYPE_CHECKING:
    from collections.abc import Callable

    from protocol.fetch.glance import SessionAt
    from protocol.fetch.request import FetchRequest
    from protocol.wire.headers import RequestHead

    from ..config.settings import LimitSettings
    from ..throttle.decision import Demand
    from .exchange import Exchange
    from .reading import Step
    from .window import Window

REQUEST_WINDOW_BYTES = 128 * 1024
"""Holds any header (client ids are at most 32 KiB) and the Fetch of some thousand partitions; grows for more."""
TLS_HANDSHAKE = b"\x16\x03"
GLANCE_BYTES = 32
"""Of a body: they hold the replica id and the fetch session, where a version has them at the beginning."""
LONG_FETCH_BYTES = 32 * 1024
"""To read so many partitions takes as long as a turn, and so does to decide about them."""
LEAST_HEADER_BYTES = 64
"""Of a header that is not all there more is waited for, twice as much each time: it is not read at every byte."""
KAFKA = State.KAFKA
AFTER_CORRELATION_ID = REQUEST_CORRELATION_ID_AT + 4


class Held(NamedTuple):
    """A request that was taken from the follower, and cannot be dealt with at once."""

    demand: Demand | None
    decision: Hold | Answer


class RequestReader:
    """Of one connection. `clock` tells Trio's time."""

    __slots__ = ("_began", "_clock", "_exchange", "_last", "_limits", "_reserved", "_rests", "_resumed", "held")

    def __init__(self, exchange: Exchange, limits: LimitSettings, clock: Callable[[], float]) -> None:
        self._exchange = exchange
        self._limits = limits
        self._clock = clock
        self._began = False
        self._reserved = 0
        """Bytes that the frame may take here until it is whole."""
        self._rests = False
        """A long Fetch has been read, and is to be decided when others had their turn."""
        self._resumed: Replace | None = None
        self.held: Held | None = None
        """What is waited for: its time, or the answers to earlier requests. See `decided` and `answered`."""
        self._last: tuple[bytes, bytes, FetchRequest] | None = None
        """What came before and after the correlation id of the last replica's Fetch, and what it was."""

    def read(self, window: Window) -> Step:
        """Raises ProtocolError if a request must not go on; bad framing turns the connection opaque instead."""
        exchange = self._exchange
        if self._resumed is not None:
            resumed, self._resumed = self._resumed, None
            return resumed
        if self.held is not None:
            return HELD
        if not self._began and not self._begins(window):
            return BETWEEN_FRAMES
        if exchange.opaque or window.end - window.start < LENGTH_PREFIX_BYTES:
            return rest(window, opaque=exchange.opaque)
        room = exchange.room
        if room <= 0:
            return HELD
        step = self._whole_fetch(window)
        if step is not None:
            return step
        passable = passable_requests(window, exchange, room)
        if passable:
            return passable
        try:
            size = frame_size(window.buffer, window.start, maximum=MAX_FRAME_BYTES)
        except ProtocolError:
            exchange.turn_opaque(Undecoded.FRAMING)
            return window.size
        return self._frame(window, LENGTH_PREFIX_BYTES + size)

    def _begins(self, window: Window) -> bool:
        """Look at what the follower sends first; False if that is not all there."""
        self._began = window.size >= len(TLS_HANDSHAKE) or window.ended
        if self._began and window.view(len(TLS_HANDSHAKE)) == TLS_HANDSHAKE:
            self._exchange.turn_opaque(Undecoded.TLS)
        return self._began

    def through(self) -> bool:
        """Nothing is learnt from what went to the leader."""
        return self.held is None

    def decided(self, demand: Demand, decision: Forward | Answer) -> None:
        """A hold is over."""
        if isinstance(decision, Answer):
            self.held = Held(None, decision)
            return
        self._exchange.sent_whole(demand.correlation_id, decision.outlook)
        self._resumed = Replace(0, with_length(demand.frame if decision.frame is None else decision.frame))
        self.answered()

    def answered(self) -> None:
        """The request that was held has been dealt with: the next one may come."""
        self.held = None
        self._exchange.decided()

    def _whole_fetch(self, window: Window) -> Step | None:
        """Decide a replica's Fetch that is all here; None for anything else."""
        exchange, start = self._exchange, window.start
        if exchange.link.throttle.is_idle or exchange.correlator.state is not KAFKA:
            return None
        whole = whole_request(window.buffer, start, window.end)
        if whole is None:
            return None
        after, api_key, version, _, _ = whole
        if api_key != API_FETCH or version not in SUPPORTED_FETCH_VERSIONS:
            return None
        if after - start > min(self._limits.max_request_bytes, LONG_FETCH_BYTES):
            return None
        frame = window.buffer[start + LENGTH_PREFIX_BYTES : after]
        try:
            request = self._parsed(frame)
        except ProtocolError:
            return None
        return None if request.replica_id < 0 else self._decide(frame, request)

    def _decide(self, frame: bytes, request: FetchRequest) -> Step:
        """A replica's Fetch has come: do what is to be done about it now."""
        exchange, now, total = self._exchange, self._clock(), LENGTH_PREFIX_BYTES + len(frame)
        exchange.fetched(request.head.api_version)
        replicas = exchange.link.replicas
        before = replicas.not_remembered
        demand = exchange.link.begin(frame, request, now)
        if replicas.not_remembered != before:
            exchange.pass_undecoded(Undecoded.TOO_MANY_REPLICAS)
        if isinstance(demand, Answer):
            return self._hold(Held(None, demand), total)
        decision = exchange.link.decide(demand, now, may_hold=not exchange.draining)
        if not isinstance(decision, Forward):
            return self._hold(Held(demand, decision), total)
        exchange.sent_whole(request_correlation_id(frame), decision.outlook)
        return total if decision.frame is None else Replace(total, with_length(decision.frame))

    def _hold(self, held: Held, total: int) -> Step:
        self.held = held
        self._exchange.deciding = True
        return Replace(total, b"")

    def lost(self) -> None:
        """The connection has ended: nothing is held for it any more."""
        self._has_read()

    def _frame(self, window: Window, total: int) -> Step:
        """The frame at the window's start, which is not whole, or not one that a glance tells."""
        exchange = self._exchange
        step = self._careful(window, total)
        if not isinstance(step, Need):
            self._has_read()
        elif not exchange.reading:
            exchange.begins_reading()
        return step

    def _has_read(self) -> None:
        self._exchange.has_read()
        if self._reserved:
            self._exchange.buffers.release(self._reserved)
            self._reserved = 0

    def _careful(self, window: Window, total: int) -> Step:
        exchange, there = self._exchange, min(window.size, total)
        more = there < total and not window.ended and window.size < window.capacity
        start = window.start + LENGTH_PREFIX_BYTES
        try:
            head = peek_request(window.buffer, start, window.start + there)
        except ProtocolError:
            head, more = None, False
        if head is None and more:
            return self._read_on(window, total)
        if head is None or exchange.correlator.is_token(head):
            if exchange.correlator.state is KAFKA:
                exchange.pass_undecoded(Undecoded.MALFORMED_REQUEST)
            exchange.correlator.sent_token()
            return total
        if head.api_key == API_FETCH and head.api_version in SUPPORTED_FETCH_VERSIONS:
            return self._fetch(window, head, total)
        if head.api_key == API_FETCH:
            self._not_supported()
        try:
            expects = expects_response(head, window.buffer, window.start + there)
        except ProtocolError:
            expects = True
        if expects is None and more:
            return self._read_on(window, total)
        return self._pass_on(head, total, expects_response=expects is not False)

    @staticmethod
    def _read_on(window: Window, total: int) -> Need:
        """More of the frame, as far as the window has room: tagged fields may claim any size, and no memory for it."""
        least = min(max(2 * window.size, LEAST_HEADER_BYTES), total, window.capacity)
        return Need(least, total - window.size)

    def _pass_on(self, head: RequestHead, total: int, *, expects_response: bool = True) -> int:
        """The request goes on as it comes, and nothing is to be done about its answer."""
        self._exchange.sent(head, expects_response=expects_response)
        return total

    def _fetch(self, window: Window, head: RequestHead, total: int) -> Step:
        """A consumer's passes, a replica's is decided unless nothing can come of it."""
        exchange = self._exchange
        shows_replica = head.api_version <= LAST_VERSION_WITH_REPLICA_ID
        glanced = min(head.body_at - window.start + GLANCE_BYTES if shows_replica else REQUEST_WINDOW_BYTES, total)
        if window.size < glanced and not window.ended:
            return Need(glanced, total - window.size)
        end = min(window.end, window.start + total)
        is_whole = end - window.start == total
        if shows_replica:
            replica_id = peek_replica_id(head, window.buffer, end)
            if replica_id is None or replica_id < 0:
                return self._pass_on(head, total)
        if passes_unseen(exchange, head, window.buffer, end, is_whole=is_whole):
            return self._pass_on(head, total)
        session = peek_session(head, window.buffer, end)
        if total - LENGTH_PREFIX_BYTES > self._limits.max_request_bytes:
            self._not_understood(Undecoded.REQUEST_TOO_LARGE, session)
            return self._pass_on(head, total)
        if not is_whole and window.ended:
            return self._pass_on(head, total)
        if not is_whole:
            return self._whole_of(window, head, total, session)
        frame = window.buffer[window.start + LENGTH_PREFIX_BYTES : end]
        try:
            request = self._parsed(frame)
        except ProtocolError:
            self._not_understood(Undecoded.MALFORMED_REQUEST, session)
            return self._pass_on(head, total)
        if request.replica_id < 0:
            return self._pass_on(head, total)
        self._rests = total >= LONG_FETCH_BYTES and not self._rests
        return TURN if self._rests else self._decide(frame, request)

    def _whole_of(self, window: Window, head: RequestHead, total: int, session: SessionAt | None) -> Step:
        """Wait for all of the frame, if there is room for it."""
        if not self._reserved:
            if not self._exchange.buffers.reserve(total):
                self._not_understood(Undecoded.MEMORY, session)
                return self._pass_on(head, total)
            self._reserved = total
        return Need(total, total - window.size)

    def _parsed(self, frame: bytes) -> FetchRequest:
        """Before v7 an idle follower asks for the same again and again: of such a request nothing is read, and what it
        was before is returned, correlation id and all."""
        last, before, after = self._last, frame[:REQUEST_CORRELATION_ID_AT], frame[AFTER_CORRELATION_ID:]
        if last is not None and before == last[0] and after == last[1]:
            return last[2]
        request = parse_fetch_request(frame)
        self._last = before, after, request
        return request

    def _not_supported(self) -> None:
        """A Fetch of a later version: its brokers were upgraded, and it may go on with a session of this connection."""
        link = self._exchange.link
        if not link.throttle.is_idle:
            self._exchange.pass_undecoded(Undecoded.UNSUPPORTED_VERSION)
        self._end_session(Undecoded.UNSUPPORTED_VERSION, None)

    def _not_understood(self, reason: Undecoded, session: SessionAt | None) -> None:
        self._exchange.pass_undecoded(reason)
        self._end_session(reason, session)

    def _end_session(self, reason: Undecoded, session: SessionAt | None) -> None:
        """Raises ProtocolError if what is not understood may go on with a session that is being translated."""
        link = self._exchange.link
        link.forget()
        if link.translator.undecoded(session):
            raise ProtocolError(f"{reason.value}, of a fetch session that is being translated")
