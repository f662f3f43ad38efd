"""`InFlightRequests.clients` applies client quotas to the frames of a relayed connection; None where no client has one.

Both readers show it the frame at the start of the window before they look at it themselves:

    requests ──request──▶ None: read on · a step: the frame goes on, or waits · Answer: it is answered here
    responses ─response─▶ None: read on, the throttle time is in the window now · a step: more of it is needed

Frames change in place, in the window; their sizes stay. Pure: no I/O, no waiting. Invariant: in any doubt a frame goes
on as it came, is counted as undecoded and logged once; but a Fetch that is too large to be held until its end, where a
replica's can be told from a consumer's, is not counted.
"""

from __future__ import annotations

import struct
from collections import deque
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from protocol.errors import ProtocolError
from protocol.fetch.consumer import bytes_to_peek, lower_limits, peek_consumer_fetch, share_fetch_limits
from protocol.fetch.response import empty_fetch_response
from protocol.fetch.tables import SUPPORTED_FETCH_VERSIONS
from protocol.produce import SUPPORTED_PRODUCE_VERSIONS, throttle_time_at
from protocol.wire.apis import API_FETCH, API_PRODUCE, API_SHARE_FETCH
from protocol.wire.correlation import expects_response
from protocol.wire.framing import (
    LENGTH_PREFIX_BYTES,
    REQUEST_START,
    REQUEST_START_BYTES,
    RESPONSE_START,
    RESPONSE_START_BYTES,
)
from protocol.wire.headers import peek_request, peek_response, response_header_version

from ..quotas.client_entity import ANONYMOUS
from ..quotas.keys import ClientTraffic
from ..relay.direction import Replace
from ..relay.in_flight import Undecoded
from ..relay.transfer import Need
from ..relay.transport import HELD
from ..roles import Role
from ..throttle.decision import Answer
from .authentication import SASL_APIS, Authentication
from .catch_up import ConsumerDecider
from .connection import ClientConnection
from .session_epochs import SessionEpochs

if TYPE_CHECKING:
    from collections.abc import Callable

    from protocol.fetch.consumer import ConsumerFetch
    from protocol.wire.headers import RequestHead

    from ..relay.direction import Step
    from ..relay.in_flight import ClientState, InFlightRequests
    from ..relay.transfer import Window
    from .throttle import ClientThrottle, Entity

INT32 = struct.Struct(">i")
TRAFFIC = {
    API_PRODUCE: ClientTraffic.PRODUCER,
    API_FETCH: ClientTraffic.CONSUMER,
    API_SHARE_FETCH: ClientTraffic.CONSUMER,
}
FIRST_FETCH_VERSION_WITH_THROTTLE_TIME = 1  # KIP-13
SHARE_FETCH_PEEK_BYTES = 1024
"""The beginning of a ShareFetch that is waited for: its header and two names, of some 50 characters each, come before
its limits."""
MAX_HEADER_BYTES = 64
"""How much of a response its header and a Fetch's throttle time take at most, without tagged fields, of which Kafka has
none in headers."""


def attach_clients(
    throttle: ClientThrottle, exchange: InFlightRequests, now: float, *, user: str | None = ANONYMOUS
) -> Callable[[float], None]:
    """Let client quotas take part in a connection of the ingress, and return the way to end that. The egress carries
    what brokers ask of each other.

    `user`: the client's, until it authenticates by SASL; None: it is not known.
    """
    if exchange.link.throttle.role is not Role.LEADER:
        return _nothing
    exchange.attached_clients = frames = ClientFrames(exchange, throttle, user)
    throttle.attach(frames, now)
    return frames.close


def _nothing(now: float) -> None:
    """End nothing: no client quotas take part."""
    del now


class _Awaited(NamedTuple):
    """A request in flight whose response may be told a throttle time."""

    number: int
    """The request's number on its connection."""
    api_key: int
    version: int
    entity: Entity


class _Sending(NamedTuple):
    """A Produce that is on its way to the broker."""

    entity: Entity
    begins_at: int
    """The bytes of requests that the connection had passed before it."""
    total: int


_Exempt: TypeAlias = tuple[int, bytes, str | None, int]


class ClientFrames:
    """The client quotas' part in one connection of the ingress."""

    def __init__(self, exchange: InFlightRequests, throttle: ClientThrottle, user: str | None = ANONYMOUS) -> None:
        self.client = ClientConnection(throttle, user)
        self.authentication = Authentication(exchange, self.client)
        self._exchange = exchange
        self._throttle = throttle
        self._awaited: deque[_Awaited] = deque()
        self._sending: _Sending | None = None
        """The last Produce of a client with a quota until all of it has gone on."""
        self._last_fetch = 0
        """Number of the last Fetch of a client with a quota among the connection's requests."""
        self._decider = ConsumerDecider(exchange)
        self._exempt: _Exempt | None = None
        """API key, client id and user of the last request whose client has no quota, in the quotas of that
        generation."""

    @property
    def muted_until(self) -> float:
        """The time at which requests are read again, by Trio's clock."""
        return self.client.muted_until

    @property
    def awaits_fetch(self) -> bool:
        """A Fetch of a client with a quota is in flight; the next one waits for its answer, which is charged first."""
        pending = self._exchange.correlator.pending
        oldest = pending[0][1] if pending else None
        return oldest is not None and oldest[0] <= self._last_fetch and self._throttle.enforce

    def close(self, now: float) -> None:
        """Take no more part in the connection, which has ended."""
        self.request_sent(now)
        self._throttle.detach(self)

    def quotas_changed(self, now: float) -> None:
        self.client.quotas_changed(now)
        self._take_part()

    @property
    def _has_session(self) -> bool:
        """True if the client's fetch session is not the broker's: epochs differ, or partitions were left out."""
        return self.client.epochs.answered > 0 or self._decider.has_session

    def _take_part(self) -> bool:
        """Take part in the connection while it authenticates, if any client has a quota, or if a session's epochs have
        to be translated on. Return whether it does for one of the latter reasons."""
        has_quotas = self._throttle.is_needed or self._has_session
        self._exchange.clients = self if has_quotas or self.authentication.is_open else None
        return has_quotas

    def state(self, now: float) -> ClientState:
        """Return what another process needs to go on."""
        client, authentication = self.client, self.authentication
        muted_seconds = max(client.muted_until - now, 0.0)
        epochs = client.epochs
        return (
            muted_seconds,
            epochs.session_id,
            epochs.answered,
            client.user,
            authentication.mechanism,
            authentication.named,
            self._decider.has_session,
        )

    def restore(self, state: ClientState, now: float) -> None:
        """Continue from what `state` returned in another process."""
        muted_seconds, session_id, answered, user, mechanism, named, was_decided = state
        self.client.muted_until = now + muted_seconds
        self.client.epochs = SessionEpochs(session_id, answered)
        if was_decided:
            self._decider.decide_by(self._throttle.lifted(now))  # it refuses the session
        self.client.authenticated(user)
        self.authentication.mechanism, self.authentication.named = mechanism, named
        self._take_part()

    def request(self, window: Window, total: int, now: float) -> Step | Answer | None:
        """Charge the request of `total` bytes at the window's start, if its client has a quota, or have it answered
        here."""
        if self.client.muted_until > now:
            return HELD
        if self.authentication.is_open:
            step = self.authentication.request(window, total)
            if step is not None or not self._take_part():
                return step
        if window.size < REQUEST_START_BYTES:
            return None
        _, api_key, _, _, client_id_bytes = REQUEST_START.unpack_from(window.buffer, window.start)
        if api_key not in TRAFFIC:
            return self._authenticate_again(window, total) if api_key in SASL_APIS else None
        client_id_at = window.start + REQUEST_START_BYTES
        client_id = window.buffer[client_id_at : client_id_at + max(client_id_bytes, 0)]
        exempt = api_key, client_id, self.client.user, self._throttle.generation
        if exempt == self._exempt:
            return None
        try:
            head = peek_request(
                window.buffer, window.start + LENGTH_PREFIX_BYTES, min(window.end, window.start + total)
            )
        except ProtocolError:
            return None  # the reader counts it
        if head is None or self._exchange.correlator.is_token(head):
            return None
        try:
            return self._of_client(window, head, total, exempt, now)
        except ProtocolError:
            self._count_unless_reader_does(Undecoded.MALFORMED_REQUEST)
            return None

    def _authenticate_again(self, window: Window, total: int) -> Step | None:
        self.authentication.is_open = True
        return self.authentication.request(window, total)

    def _of_client(
        self, window: Window, head: RequestHead, total: int, exempt: _Exempt, now: float
    ) -> Step | Answer | None:
        entity = self.client.entity(head.client_id, TRAFFIC[head.api_key], now)
        if head.api_key == API_FETCH and (entity is not None or self._has_session):
            return self._fetch(window, head, total, entity, now)
        if entity is not None:
            if head.api_key == API_PRODUCE:
                return self._produce(window, head, total, entity)
            return self._share_fetch(window, head, total, entity, now)
        self._exempt = exempt
        return None

    def _produce(self, window: Window, head: RequestHead, total: int, entity: Entity) -> Step | None:
        end = min(window.end, window.start + total)
        expects = expects_response(head, window.buffer, end)
        if expects is None:
            return None
        self._exchange.sent(head, expects_response=expects)
        if expects:
            self._awaited.append(_Awaited(self._exchange.frames, API_PRODUCE, head.api_version, entity))
        self._sending = _Sending(entity, self._exchange.relayed.request_bytes, total)
        return total

    def request_sent(self, now: float) -> None:
        """Charge the Produce that has gone on, or as much of it as has: its length is only what a client claims."""
        if self._sending is None:
            return
        entity, begins_at, total = self._sending
        self._sending = None
        size = min(self._exchange.relayed.request_bytes - begins_at, total) - LENGTH_PREFIX_BYTES
        if size > 0:
            self.client.charge(entity, size, now)

    def _fetch(
        self, window: Window, head: RequestHead, total: int, entity: Entity | None, now: float
    ) -> Step | Answer | None:
        if head.api_version not in SUPPORTED_FETCH_VERSIONS:
            self._count_unless_reader_does(Undecoded.UNSUPPORTED_VERSION)
            return None
        is_held_whole = total <= window.capacity
        needed = total if is_held_whole else bytes_to_peek(head, window.start, total)
        if window.size < needed:
            return None if window.ended else Need(needed, total - window.size)
        fetch = peek_consumer_fetch(head, window.buffer, window.start + LENGTH_PREFIX_BYTES, window.start + needed)
        if fetch is None:
            return None
        if self._decider.decides(None if entity is None else entity.catch_up, fetch):
            self.client.epochs = SessionEpochs()
            return None
        if entity is not None and self.awaits_fetch:
            return HELD
        if entity is not None and is_held_whole:
            session_id = self.client.answer_session(entity, *fetch.session, lists_nothing=fetch.lists_nothing, now=now)
            if session_id is not None:
                return Answer(self._empty_response(head, session_id, now))
        self._forward(window, head, fetch, entity, now)
        return total

    def _share_fetch(self, window: Window, head: RequestHead, total: int, entity: Entity, now: float) -> Step | None:
        """Charge it as a Fetch, but never answer it here: it acknowledges records."""
        if entity.catch_up is not None:
            return None  # which of its reads are behind nobody tells
        if self.awaits_fetch:
            return HELD
        needed = min(total, SHARE_FETCH_PEEK_BYTES)
        if window.size < needed and not window.ended:
            return Need(needed, total - window.size)
        limits = share_fetch_limits(head, window.buffer, min(window.end, window.start + total))
        if limits is not None and self._throttle.enforce:
            lower_limits(limits, window.memory, self.client.largest_response_bytes(entity, now))
        self._await_fetch(head, entity)
        return total

    def _await_fetch(self, head: RequestHead, entity: Entity) -> None:
        self._exchange.sent(head, expects_response=True)
        self._last_fetch = self._exchange.frames
        self._awaited.append(_Awaited(self._last_fetch, head.api_key, head.api_version, entity))

    def _forward(
        self, window: Window, head: RequestHead, fetch: ConsumerFetch, entity: Entity | None, now: float
    ) -> None:
        if fetch.epoch_at is not None:
            INT32.pack_into(window.buffer, fetch.epoch_at, self.client.epochs.forwarded(*fetch.session))
        if entity is None:
            self._exchange.sent(head, expects_response=True)
            return
        if self._throttle.enforce:
            lower_limits(fetch.limits, window.memory, self.client.largest_response_bytes(entity, now))
        self._await_fetch(head, entity)

    def _empty_response(self, head: RequestHead, session_id: int, now: float) -> bytes:
        version = head.api_version
        frame = bytearray(empty_fetch_response(version, head.correlation_id, (), session_id=session_id))
        found = peek_response(frame, 0, len(frame), response_header_version(API_FETCH, version))
        if version >= FIRST_FETCH_VERSION_WITH_THROTTLE_TIME and found is not None:
            INT32.pack_into(frame, found.body_at, self.client.throttle_time_ms(now))
        return bytes(frame)

    def response(self, window: Window, now: float) -> Step | None:
        """Charge the response at the window's start if it is a consumer's, and write the throttle time into it."""
        if self.authentication.is_open and (step := self.authentication.response(window)) is not None:
            return step
        if not self._awaited or window.size < RESPONSE_START_BYTES:
            return Need(RESPONSE_START_BYTES) if self._awaited and not window.ended else None
        size, correlation_id = RESPONSE_START.unpack_from(window.buffer, window.start)
        awaited, total = self._answered_by(correlation_id), LENGTH_PREFIX_BYTES + size
        if awaited is None or size < 0:
            return None
        # Of a Produce response the end is needed, behind all partitions, if there is a time to tell.
        is_fetch = awaited.api_key != API_PRODUCE
        needed = min(total, MAX_HEADER_BYTES) if is_fetch else total if self.client.muted_until > now else 0
        if needed > window.capacity:
            self._exchange.pass_undecoded(Undecoded.RESPONSE_TOO_LARGE)
            self._awaited.popleft()
            return None
        if window.size < needed and not window.ended:
            return Need(needed, total - window.size)
        if window.is_peeked:
            return Replace(0, b"")  # reads what the window has only a copy of: it will be written to
        self._awaited.popleft()
        if is_fetch:
            self.client.last_response_bytes = total
            self.client.charge(awaited.entity, total - LENGTH_PREFIX_BYTES, now)
        self._tell(window, awaited, needed, now)
        return None

    def _answered_by(self, correlation_id: int) -> _Awaited | None:
        """Return the request that this response answers, if it is awaited here and the oldest in flight."""
        pending = self._exchange.correlator.pending
        expected, request = pending[0] if pending else (None, None)
        if request is None or expected != correlation_id:
            return None
        while self._awaited and self._awaited[0].number < request[0]:
            self._awaited.popleft()  # never answered
        return self._awaited[0] if self._awaited and self._awaited[0].number == request[0] else None

    def _tell(self, window: Window, awaited: _Awaited, needed: int, now: float) -> None:
        """Write the throttle time into the response, unless the broker tells a longer one."""
        throttle_time_ms, end = self.client.throttle_time_ms(now), min(window.start + needed, window.end)
        if not throttle_time_ms:
            return
        api_key, version = awaited.api_key, awaited.version
        try:
            head = peek_response(
                window.buffer, window.start + LENGTH_PREFIX_BYTES, end, response_header_version(api_key, version)
            )
            at = None if head is None else _throttle_time_at(api_key, version, window, head.body_at, end)
        except ProtocolError:
            is_known = api_key != API_PRODUCE or version in SUPPORTED_PRODUCE_VERSIONS
            reason = Undecoded.MALFORMED_RESPONSE if is_known else Undecoded.UNSUPPORTED_VERSION
            self._exchange.pass_undecoded(reason)
            return
        if at is not None and at + INT32.size <= end:
            (told,) = INT32.unpack_from(window.buffer, at)
            INT32.pack_into(window.buffer, at, max(told, throttle_time_ms))

    def _count_unless_reader_does(self, reason: Undecoded) -> None:
        if self._exchange.decider.throttle.is_idle:
            self._exchange.pass_undecoded(reason)


def _throttle_time_at(api_key: int, version: int, window: Window, body_at: int, end: int) -> int | None:
    """Return where the throttle time stands; None if the version has none. Raises ProtocolError."""
    if api_key == API_PRODUCE:
        return throttle_time_at(version, window.buffer, body_at, end)
    return body_at if api_key == API_SHARE_FETCH or version >= FIRST_FETCH_VERSION_WITH_THROTTLE_TIME else None
