"""Reads what goes from the follower to the leader: which frames pass as they are, what is decided about a replica's
Fetch.

Most frames are small and pass: whole ones are recognised by one unpack each and sent on together (`passable_requests`).
A Fetch that may be throttled is read whole (it is small: 16 bytes a partition in the oldest versions, 33 and more since
v12), decided, and forwarded, held or answered here. While a request is held nothing more is read: that is the
back-pressure.

Pure: no I/O, no waiting. Invariants: a request is noted for its answer before its bytes may go; what is passed
undecoded is passed byte for byte, counted, and logged once per connection; what cannot be Kafka ends its connection as
soon as its first eight bytes are there.
"""

from __future__ import annotations

import struct
from time import perf_counter
from typing import TYPE_CHECKING, Any

from protocol.errors import ProtocolError
from protocol.fetch.request import (
    LAST_VERSION_WITH_REPLICA_ID,
    MIN_BODY_BYTES,
    find_replica_id,
    peek_replica_id,
    peek_session,
)
from protocol.fetch.tables import FINAL_EPOCH, FIRST_VERSION_WITH_SESSIONS, INITIAL_EPOCH, SUPPORTED_FETCH_VERSIONS
from protocol.wire.apis import API_CONTROLLED_SHUTDOWN, API_FETCH, API_PRODUCE, API_SASL_HANDSHAKE, APIS
from protocol.wire.correlation import MAX_PLAUSIBLE_VERSION, State, expects_response
from protocol.wire.framing import LENGTH_PREFIX_BYTES, frame_size, whole_request
from protocol.wire.headers import RequestHead, peek_request, plain_head
from protocol.work_in_steps import run_through

from ..statistics.counters import Undecoded
from ..throttle.decision import Answer
from .direction import MAX_FRAMES, rest
from .fetch_handling import FetchHandler
from .in_flight import LONG_FRAME_BYTES, MAX_FRAME_BYTES, NO_REQUEST
from .transfer import BETWEEN_FRAMES, Need
from .transport import HELD

if TYPE_CHECKING:
    from collections.abc import Callable

    from protocol.fetch.request import FetchRequest, SessionAt
    from protocol.wire.correlation import Correlator
    from protocol.wire.framing import Bytes
    from protocol.work_in_steps import Steps

    from ..config.settings import LimitSettings
    from .direction import Step
    from .in_flight import InFlightRequests
    from .transfer import Window

REQUEST_WINDOW_BYTES = 128 * 1024
"""The size of the window, which grows for more: any header (client ids are at most 32 KiB), or the Fetch of some
thousand partitions."""
TLS_HANDSHAKE = b"\x16\x03"
PEEKED_BYTES = 32
"""How much of a body is waited for before it is decided whether to read all of it: as far as the replica id and the
fetch session, in versions that have both at the beginning."""
MIN_HEADER_BYTES = 64
"""How much of a frame is waited for while its header is not whole, then twice as much each time: the header is not
parsed anew at every byte that comes."""
BEGINNING = struct.Struct(">ihh")
"""The beginning of every request: length, api key, api version."""
FULL_EPOCHS = (INITIAL_EPOCH, FINAL_EPOCH)
"""The session epochs of a request that lists every partition (KIP-227)."""
PLAIN_APIS = APIS.keys() - {API_CONTROLLED_SHUTDOWN, API_FETCH, API_PRODUCE, API_SASL_HANDSHAKE}
"""The APIs that are always answered, and followed by nothing but Kafka frames."""
FIRST_FLEXIBLE_VERSION = APIS[API_FETCH].flexible_from
KAFKA = State.KAFKA


class RequestReader:
    """Reads what one connection's follower sends. `clock` returns Trio's time, `turn_clock` ends slices."""

    __slots__ = ("_clock", "_in_flight", "_limits", "_reserved", "_untouched", "decision", "has_begun")

    def __init__(
        self,
        in_flight: InFlightRequests,
        limits: LimitSettings,
        clock: Callable[[], float],
        turn_clock: Callable[[], float] = perf_counter,
    ) -> None:
        self._in_flight = in_flight
        self._limits = limits
        self._clock = clock
        self.has_begun = False
        """True if the follower's first bytes have been looked at, which tell whether it speaks TLS."""
        self._reserved = 0
        """Bytes reserved in `Buffers` for the frame that is being read whole; 0: none is."""
        self._untouched: Undecoded | None = None
        """The reason why the requests of the connection's fetch session pass untouched; None: they are decided."""
        self.decision = FetchHandler(in_flight, clock, turn_clock)

    def read(self, window: Window) -> Step:  # noqa: C901 - every frame goes through here, and each call costs
        """Return what to do next. Raises ProtocolError if a request must not go on, or is none."""
        in_flight = self._in_flight
        if in_flight.request is not NO_REQUEST and (waiting := self.decision.go_on()) is not None:
            return waiting
        if not self.has_begun and not self._begins(window):
            return BETWEEN_FRAMES
        if in_flight.opaque or window.end - window.start < LENGTH_PREFIX_BYTES:
            if in_flight.opaque:
                self._has_read()  # no request has to be whole any more
            return rest(window, opaque=in_flight.opaque is not None)
        room = in_flight.room
        if room <= 0:
            in_flight.waits_for_room()
            return HELD
        step: Step | None = None
        if in_flight.clients is not None:
            room = 1  # each request is looked at
            total = LENGTH_PREFIX_BYTES + _size(window, in_flight.correlator)
            found = in_flight.clients.request(window, total, self._clock())
            if isinstance(found, Answer):
                return self._noted(self.decision.answer(found, total))
            if isinstance(found, Need) and found.least > window.capacity:
                found = self._unheld(window, total, found)
            if found is not None and not isinstance(found, Answer):
                return self._noted(found)
        if in_flight.decider.throttle.is_idle:
            self._untouched = None  # another session may begin meanwhile, and pass unseen
        elif in_flight.correlator.state is KAFKA:
            step = self._whole_fetch(window)
        step = step or passable_requests(window, in_flight, room)
        if step:
            if in_flight.reading:  # the first look at this request found only a part of it
                self._has_read()
            return step
        return self._frame(window, LENGTH_PREFIX_BYTES + _size(window, in_flight.correlator))

    def _begins(self, window: Window) -> bool:
        """Return False while there are too few bytes to tell TLS from Kafka."""
        self.has_begun = window.size >= len(TLS_HANDSHAKE) or window.ended
        if self.has_begun and window.view(len(TLS_HANDSHAKE)) == TLS_HANDSHAKE:
            self._in_flight.turn_opaque(Undecoded.TLS)
        return self.has_begun

    def on_sent(self) -> bool:
        """Let client quotas charge a request that has gone on; true unless a request is held."""
        if self._in_flight.clients is not None:
            self._in_flight.clients.request_sent(self._clock())
        return self.decision.held is None

    def _whole_fetch(self, window: Window) -> Step | None:
        """Decide a replica's Fetch if the whole of it is in the window; None for anything else."""
        in_flight, start = self._in_flight, window.start
        ledger = in_flight.decider.throttle.ledger
        whole = whole_request(window.buffer, start, window.end)
        if whole is None:
            return None
        after, api_key, version, correlation_id, _ = whole
        if api_key != API_FETCH or version not in SUPPORTED_FETCH_VERSIONS:
            return None
        total = after - start
        decision, most = self.decision, self._limits.max_request_bytes
        if ledger is not None:
            most = min(most, LONG_FRAME_BYTES)  # the journal records each partition, which takes 5 ms for 20 000
        if total > most or decision.has_many_replicas:
            return None
        frame = window.buffer[start + LENGTH_PREFIX_BYTES : after]
        request = decision.same(frame)
        if request is None:
            if total > LONG_FRAME_BYTES:
                return None
            try:
                request = decision.parse(frame)
            except ProtocolError:
                return None
        decides = in_flight.decider.policy.decides(request.replica_id)
        if not decides or (version >= FIRST_VERSION_WITH_SESSIONS and self._passes_untouched(request)):
            return None
        return run_through(decision.take(frame, request, correlation_id))

    def lost(self) -> None:
        """Drop what is held for the connection, which has ended."""
        self.decision.lost()
        self._has_read()

    def _frame(self, window: Window, total: int) -> Step:
        """Read the frame at the window's start, which is not all there, or needs more than the fast path."""
        return self._noted(self._by_header(window, total))

    def _noted(self, step: Step) -> Step:
        """Note whether a request has to be whole that is not yet."""
        if not isinstance(step, Need):
            self._has_read()
        elif not self._in_flight.reading:
            self._in_flight.begins_reading()
        return step

    def _has_read(self) -> None:
        self._in_flight.has_read()
        if self._reserved:
            self._in_flight.buffers.release(self._reserved)
            self._reserved = 0

    def _by_header(self, window: Window, total: int) -> Step:
        in_flight, there = self._in_flight, min(window.size, total)
        more = there < total and not window.ended and window.size < window.capacity
        start = window.start + LENGTH_PREFIX_BYTES
        try:
            head = peek_request(window.buffer, start, window.start + there)
        except ProtocolError:
            head, more = None, False
        if head is None and more:
            return _read_on(window, total)
        is_read = head is not None
        if head is None:
            head = plain_head(window.buffer, start, window.start + there)
        if head is None or in_flight.correlator.is_token(head):
            in_flight.correlator.sent_token()
            return total
        if not is_read:
            in_flight.pass_undecoded(Undecoded.MALFORMED_REQUEST)
            return self._pass_on(head, total)
        if head.api_key == API_FETCH and head.api_version in SUPPORTED_FETCH_VERSIONS:
            return self._fetch(window, head, total)
        if head.api_key == API_FETCH:
            _not_supported(in_flight)
        try:
            expects = expects_response(head, window.buffer, window.start + there)
        except ProtocolError:
            expects = True
        if expects is None and more:
            return _read_on(window, total)
        return self._pass_on(head, total, expects_response=expects is not False)

    def _pass_on(self, head: RequestHead, total: int, *, expects_response: bool = True) -> int:
        """Pass the request on as it comes; nothing is to be done about its answer."""
        self._in_flight.sent(head, expects_response=expects_response)
        return total

    def _fetch(self, window: Window, head: RequestHead, total: int) -> Step:
        """Let a consumer's Fetch pass; read a replica's whole and decide it, unless no partition of it may be
        throttled."""
        in_flight = self._in_flight
        shows_replica = head.api_version <= LAST_VERSION_WITH_REPLICA_ID
        peeked = min(head.body_at - window.start + PEEKED_BYTES if shows_replica else REQUEST_WINDOW_BYTES, total)
        if window.size < peeked and not window.ended:
            return Need(peeked, total - window.size)
        end = min(window.end, window.start + total)
        is_whole = end - window.start == total
        if shows_replica:
            replica_id = peek_replica_id(head, window.buffer, end)
            if replica_id is None or not in_flight.decider.policy.decides(replica_id):
                return self._pass_on(head, total)
        if passes_unseen(in_flight, head, window.buffer, end, is_whole=is_whole):
            return self._pass_on(head, total)
        session = peek_session(head, window.buffer, end)
        if self._is_too_large(total):
            if session is not None and session.is_full:
                self._untouched = Undecoded.REQUEST_TOO_LARGE
            _not_understood(self._in_flight, Undecoded.REQUEST_TOO_LARGE, session)
            return self._pass_on(head, total)
        if not is_whole:
            return self._pass_on(head, total) if window.ended else self._whole_of(window, head, total, session)
        frame = window.buffer[window.start + LENGTH_PREFIX_BYTES : end]
        return self.decision.decide(self._whole(frame, head, session), total)

    def _whole(self, frame: bytes, head: RequestHead, session: SessionAt | None) -> Steps[Step]:
        """Decide a replica's Fetch; let a consumer's, or a frame that is not a valid Fetch, pass."""
        try:
            request = self.decision.same(frame) or (yield from self.decision.parse_in_steps(frame))
        except ProtocolError:
            _not_understood(self._in_flight, Undecoded.MALFORMED_REQUEST, session)
            return self._pass_on(head, LENGTH_PREFIX_BYTES + len(frame))
        if not self._in_flight.decider.policy.decides(request.replica_id):
            return self._pass_on(head, LENGTH_PREFIX_BYTES + len(frame))
        reason = self._passes_untouched(request)
        if reason is not None:
            _not_understood(self._in_flight, reason, session)
            return self._pass_on(head, LENGTH_PREFIX_BYTES + len(frame))
        return (yield from self.decision.take(frame, request, head.correlation_id))

    def _passes_untouched(self, request: FetchRequest) -> Undecoded | None:
        """Return why a request of a fetch session is not decided: its session is too large to be translated. If it were
        refused, the follower would send its first request again and again."""
        if request.head.api_version < FIRST_VERSION_WITH_SESSIONS:
            return None
        if request.session_epoch in FULL_EPOCHS:
            has_too_many = len(request.entries) > self._in_flight.decider.throttle.remembered.most_of_connection
            self._untouched = Undecoded.TOO_MANY_REPLICAS if has_too_many else None
        return self._untouched

    def _whole_of(self, window: Window, head: RequestHead, total: int, session: SessionAt | None) -> Step:
        """Wait for all of the frame, if there is room for it."""
        if not self._may_hold(total):
            _not_understood(self._in_flight, Undecoded.MEMORY, session)
            return self._pass_on(head, total)
        return Need(total, total - window.size)

    def _unheld(self, window: Window, total: int, need: Need) -> Step | Answer | None:
        """Let client quotas decide by the part of a frame in the window, if all of it may not be held."""
        clients = self._in_flight.clients
        if clients is None or (not self._is_too_large(total) and self._may_hold(total)):
            return need
        return clients.request(window, total, self._clock(), may_hold=False)

    def _is_too_large(self, total: int) -> bool:
        return total - LENGTH_PREFIX_BYTES > self._limits.max_request_bytes

    def _may_hold(self, total: int) -> bool:
        """Return True if there is room to hold a frame of `total` bytes until all of it has come."""
        if not self._reserved and self._in_flight.buffers.reserve(total):
            self._reserved = total
        return self._reserved > 0


def passable_requests(window: Window, in_flight: InFlightRequests, room: int) -> int:
    """Return how many bytes at the window's start may go on to the leader, `room` requests at most."""
    buffer, at, end, throttle = window.buffer, window.start, window.end, in_flight.decider.throttle
    if in_flight.correlator.state is not KAFKA:
        return 0
    room = min(room, MAX_FRAMES)
    while at < end and room > 0 and (whole := whole_request(buffer, at, end)) is not None:
        after, api_key, version, correlation_id, body_at = whole
        if not 0 <= version <= MAX_PLAUSIBLE_VERSION:
            break
        if api_key == API_FETCH:
            if not throttle.is_idle or not _passes_unseen(in_flight, version, buffer, (body_at, after)):
                break
        elif api_key not in PLAIN_APIS:
            break
        in_flight.sent_whole(correlation_id)
        at, room = after, room - 1
    return at - window.start


def _passes_unseen(in_flight: InFlightRequests, version: int, buffer: Bytes, body: tuple[int, int]) -> bool:
    at, end = body
    if version not in SUPPORTED_FETCH_VERSIONS or end - at < MIN_BODY_BYTES:
        return False
    if version >= FIRST_FLEXIBLE_VERSION:
        if buffer[at] != 0:  # tagged fields in the header
            return False
        at += 1
    return passes_unseen(in_flight, RequestHead(API_FETCH, version, 0, None, at), buffer, end)


def passes_unseen(
    in_flight: InFlightRequests, head: RequestHead, buffer: Bytes, end: int, *, is_whole: bool = True
) -> bool:
    """Return True if no partition of a Fetch may be throttled, and count the Fetch if so and if it is a replica's.

    `is_whole`: the Fetch ends at `end`; from v15 on the replica id is among its last fields.
    """
    if not in_flight.decider.may_pass_unseen(peek_session(head, buffer, end)):
        return False
    sees_replica = is_whole or head.api_version <= LAST_VERSION_WITH_REPLICA_ID
    replica_id = find_replica_id(head, buffer, end) if sees_replica else None
    if replica_id is None or replica_id >= 0:
        in_flight.decider.forget()
    if replica_id is not None and replica_id >= 0:
        in_flight.fetched(head.api_version)
    return True


def _size(window: Window, correlator: Correlator[Any]) -> int:
    """Return the size of the frame that begins at the window's start. Raises ProtocolError if it is no frame of
    Kafka's: a broker refuses it as well, but may wait for all of it first."""
    size = frame_size(window.buffer, window.start, maximum=MAX_FRAME_BYTES)
    if min(size + LENGTH_PREFIX_BYTES, window.size) >= BEGINNING.size:
        _, api_key, version = BEGINNING.unpack_from(window.buffer, window.start)
        if not correlator.is_possible(api_key, version, size):
            found = bytes(window.view(BEGINNING.size))
            raise ProtocolError(f"expected a Kafka request, found bytes that begin with {found!r}")
    return size


def _read_on(window: Window, total: int) -> Need:
    """Wait for more of the frame, up to the window's present size: tagged fields of a header may claim any length,
    which is no reason to allocate memory for it."""
    least = BEGINNING.size if window.size < BEGINNING.size else max(2 * window.size, MIN_HEADER_BYTES)
    return Need(min(least, total, window.capacity), total - window.size)


def _not_supported(in_flight: InFlightRequests) -> None:
    """Let a Fetch pass whose version is later than those known here. Its broker may have been upgraded, and may go on
    with a fetch session that is translated on this connection, which has to end."""
    if not in_flight.decider.throttle.is_idle:
        in_flight.pass_undecoded(Undecoded.UNSUPPORTED_VERSION)
    _end_session(in_flight, Undecoded.UNSUPPORTED_VERSION, None)


def _not_understood(in_flight: InFlightRequests, reason: Undecoded, session: SessionAt | None) -> None:
    in_flight.pass_undecoded(reason)
    _end_session(in_flight, reason, session)


def _end_session(in_flight: InFlightRequests, reason: Undecoded, session: SessionAt | None) -> None:
    """Forget the link's session. Raises ProtocolError if a request that is not understood may belong to a fetch session
    that is being translated: to forward it would mix the follower's session up with the leader's."""
    in_flight.decider.forget()
    if in_flight.decider.translator.undecoded(session):
        raise ProtocolError(f"{reason.value}, of a fetch session that is being translated")
