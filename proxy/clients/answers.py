"""The answers that carry one connection's throttle times, and the charges that they settle.

    Produce     refused as a whole ─▶ its charge is given back               the time stands behind all partitions
    Fetch       charged by its length, before its first byte goes on         the time stands first

Frames change in place, in the window; their sizes stay. Pure: no I/O, no waiting. Invariant: of requests without an
answer what was charged stays charged, unless the broker closed the connection.
"""

from __future__ import annotations

import struct
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from protocol.errors import ProtocolError
from protocol.fetch.tables import SUPPORTED_FETCH_VERSIONS
from protocol.produce import SUPPORTED_PRODUCE_VERSIONS, peek_produce_answer
from protocol.wire.apis import API_FETCH, API_PRODUCE, API_SHARE_FETCH
from protocol.wire.framing import LENGTH_PREFIX_BYTES, RESPONSE_START, RESPONSE_START_BYTES
from protocol.wire.headers import peek_response, response_header_version

from ..relay.direction import Cause, Replace
from ..relay.transfer import Need
from ..statistics.counters import Undecoded
from .throttle import Uncharged

if TYPE_CHECKING:
    from ..relay.direction import Step
    from ..relay.in_flight import InFlightRequests
    from ..relay.transfer import Window
    from .connection import ClientConnection
    from .entity import Entity, Sending
    from .throttle import ClientThrottle

INT32 = struct.Struct(">i")
FIRST_FETCH_VERSION_WITH_THROTTLE_TIME = 1  # KIP-13
MAX_HEADER_BYTES = 64
"""How much of a response its header and a Fetch's throttle time take at most, without tagged fields, of which Kafka has
none in headers."""


class _Awaited(NamedTuple):
    """A request in flight whose response may be told a throttle time."""

    number: int
    """The request's number on its connection."""
    api_key: int
    version: int
    entity: Entity
    sending: Sending | None = None
    """The charge of a Produce; None: a Fetch."""


class ClientAnswers:
    """The responses of a connection that a client quota awaits."""

    __slots__ = ("_awaited", "_client", "_fetched_by", "_in_flight", "_left", "_throttle")

    def __init__(self, in_flight: InFlightRequests, client: ClientConnection, throttle: ClientThrottle) -> None:
        self._in_flight = in_flight
        self._client = client
        self._throttle = throttle
        self._awaited: deque[_Awaited] = deque()
        self._fetched_by = throttle.unbounded
        """The entity to which the answer under way goes."""
        self._left = 0
        """Bytes of that answer that have not gone on."""

    def await_fetch(self, number: int, api_key: int, version: int, entity: Entity) -> None:
        """Charge the answer to the connection's request of this number, which may still be to go on."""
        self._awaited.append(_Awaited(number, api_key, version, entity))

    def await_produce(self, version: int, sending: Sending) -> None:
        """Settle a Produce that is about to go on."""
        self._awaited.append(_Awaited(self._in_flight.frames, API_PRODUCE, version, sending.entity, sending))

    def close(self, now: float) -> None:
        """Give back the charges of Produces that the broker has closed the connection on."""
        if self._in_flight.cause is Cause.LEADER_CLOSED:
            for each in self._awaited:
                self._release(each, Uncharged.CLOSED, now)
        self._awaited.clear()
        self._in_flight.count_answer = None

    def is_answered(self, window: Window, number: int) -> bool:
        """Return True if the response at the window's start answers the connection's request of this number."""
        pending = self._in_flight.correlator.pending
        expected, request = pending[0] if pending else (None, None)
        if request is None or request[0] != number or window.size < RESPONSE_START_BYTES:
            return False
        return bool(RESPONSE_START.unpack_from(window.buffer, window.start)[1] == expected)

    def read(self, window: Window, now: float) -> Step | None:
        """Settle the request that the response at the window's start answers, and write the throttle time into it."""
        if not self._awaited or window.size < RESPONSE_START_BYTES:
            return Need(RESPONSE_START_BYTES) if self._awaited and not window.ended else None
        size, correlation_id = RESPONSE_START.unpack_from(window.buffer, window.start)
        awaited, total = self._answered_by(correlation_id), LENGTH_PREFIX_BYTES + size
        if awaited is None or size < 0:
            return None
        is_fetch = awaited.api_key != API_PRODUCE
        needed = min(total, MAX_HEADER_BYTES) if is_fetch else total
        if needed > window.capacity:
            self._in_flight.pass_undecoded(Undecoded.RESPONSE_TOO_LARGE)
            self._awaited.popleft()
            return None
        if window.size < needed and not window.ended:
            return Need(needed, total - window.size)
        if window.is_peeked:
            return Replace(0, b"")  # reads what the window has only a copy of: it will be written to
        self._awaited.popleft()
        if is_fetch:
            self._client.charge(awaited.entity, total - LENGTH_PREFIX_BYTES, now)
            self._fetched_by, self._left = awaited.entity, total - LENGTH_PREFIX_BYTES
            self._in_flight.count_answer = self._count
        try:
            self._settle(window, awaited, min(window.start + needed, window.end), now)
        except ProtocolError:
            is_known = is_fetch or awaited.version in SUPPORTED_PRODUCE_VERSIONS
            reason = Undecoded.MALFORMED_RESPONSE if is_known else Undecoded.UNSUPPORTED_VERSION
            self._in_flight.pass_undecoded(reason)
        return None

    def _count(self, size: int) -> None:
        """Count bytes of the answer under way, which have gone on."""
        self._client.count_answer(self._fetched_by, min(size, self._left))
        self._left -= size
        if self._left <= 0:
            self._in_flight.count_answer = None

    def _answered_by(self, correlation_id: int) -> _Awaited | None:
        """Return the request that this response answers, if it is awaited here and the oldest in flight."""
        pending = self._in_flight.correlator.pending
        expected, request = pending[0] if pending else (None, None)
        if request is None or expected != correlation_id:
            return None
        while self._awaited and self._awaited[0].number < request[0]:
            self._awaited.popleft()  # never answered
        return self._awaited[0] if self._awaited and self._awaited[0].number == request[0] else None

    def _settle(self, window: Window, awaited: _Awaited, end: int, now: float) -> None:
        """Give back the charge of a Produce of which the broker took nothing, and write the throttle time, unless
        the broker tells a longer one. Raises ProtocolError."""
        api_key, version = awaited.api_key, awaited.version
        head = peek_response(
            window.buffer, window.start + LENGTH_PREFIX_BYTES, end, response_header_version(api_key, version)
        )
        at = None
        if head is not None and api_key == API_PRODUCE:
            answer = peek_produce_answer(version, window.buffer, head.body_at, end)
            at = answer.throttle_time_at
            if answer.is_refused:
                self._release(awaited, Uncharged.REFUSED, now)
        elif head is not None and _has_throttle_time(api_key, version):
            at = head.body_at
        throttle_time_ms = self._client.throttle_time_ms(now)
        if at is not None and throttle_time_ms and at + INT32.size <= end:
            (told,) = INT32.unpack_from(window.buffer, at)
            INT32.pack_into(window.buffer, at, max(told, throttle_time_ms))

    def _release(self, awaited: _Awaited, reason: Uncharged, now: float) -> None:
        sending = awaited.sending
        if sending is not None and sending.charged:
            self._throttle.uncharged_bytes[reason] += round(sending.charged)
            self._client.release(awaited.entity, sending.charged, now)


def _has_throttle_time(api_key: int, version: int) -> bool:
    if api_key == API_FETCH:
        return version >= FIRST_FETCH_VERSION_WITH_THROTTLE_TIME and version in SUPPORTED_FETCH_VERSIONS
    return api_key == API_SHARE_FETCH
