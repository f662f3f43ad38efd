"""`InFlightRequests.clients` applies client quotas to the frames of a relayed connection; None without client quotas.

Both readers show it the frame at the start of the window before they look at it themselves:

    requests ──request──▶ None: read on · a step: the frame goes on, or waits · Answer: it is answered here
    responses ─response─▶ None: read on, the throttle time is in the window now · a step: more of it is needed

Pure: no I/O, no waiting. Invariant: a client's Produce, Fetch or ShareFetch is charged, whatever its form: API key,
length and client id stand at fixed places. One that is not understood passes as it came, is counted and logged once,
and is charged by its length; but of a connection that is a broker's it costs nobody anything.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeAlias

from protocol.errors import ProtocolError
from protocol.fetch.consumer import bytes_to_peek, lower_limits, peek_consumer_fetch, share_fetch_limits
from protocol.fetch.response import empty_fetch_response
from protocol.fetch.tables import SUPPORTED_FETCH_VERSIONS
from protocol.wire.apis import API_FETCH, API_PRODUCE, API_SHARE_FETCH
from protocol.wire.correlation import expects_response
from protocol.wire.framing import LENGTH_PREFIX_BYTES, REQUEST_START, REQUEST_START_BYTES
from protocol.wire.headers import peek_request, peek_response, plain_head, response_header_version

from ..quotas.client_entity import ANONYMOUS
from ..quotas.keys import ClientTraffic
from ..relay.transfer import Need
from ..relay.transport import HELD
from ..roles import Role
from ..statistics.counters import Undecoded
from ..throttle.decision import Answer
from .answers import FIRST_FETCH_VERSION_WITH_THROTTLE_TIME, INT32, ClientAnswers
from .authentication import SASL_APIS, Authentication
from .catch_up import ConsumerDecider
from .connection import ClientConnection
from .entity import MAX_NAME_BYTES, Sending
from .follower_proof import FollowerProof
from .session_epochs import SessionEpochs

if TYPE_CHECKING:
    from collections.abc import Callable

    from protocol.fetch.consumer import ConsumerFetch
    from protocol.wire.headers import RequestHead

    from ..relay.direction import Step
    from ..relay.in_flight import ClientState, InFlightRequests
    from ..relay.transfer import Window
    from .entity import Entity
    from .throttle import ClientThrottle

TRAFFIC = {
    API_PRODUCE: ClientTraffic.PRODUCER,
    API_FETCH: ClientTraffic.CONSUMER,
    API_SHARE_FETCH: ClientTraffic.CONSUMER,
}
SHARE_FETCH_PEEK_BYTES = 1024
"""The beginning of a ShareFetch that is waited for: its header and two names, of some 50 characters each, come before
its limits."""


def attach_clients(
    throttle: ClientThrottle, in_flight: InFlightRequests, now: float, *, user: str | None = ANONYMOUS
) -> Callable[[float], None]:
    """Let client quotas take part in a connection of the ingress, and return the way to end that. The egress carries
    what brokers ask of each other.

    `user`: the client's, until it authenticates by SASL; None: it is not known.
    """
    if in_flight.link.throttle.role is not Role.LEADER:
        return _nothing
    in_flight.attached_clients = frames = ClientFrames(in_flight, throttle, user)
    throttle.attach(frames, now)
    return frames.close


def _nothing(now: float) -> None:
    """End nothing: no client quotas take part."""
    del now


_Exempt: TypeAlias = tuple[int, bytes, str | None, bool, int]


class ClientFrames:
    """The client quotas' part in one connection of the ingress."""

    def __init__(self, in_flight: InFlightRequests, throttle: ClientThrottle, user: str | None = ANONYMOUS) -> None:
        self.client = ClientConnection(throttle, user, in_flight.settled.notify)
        self.authentication = Authentication(in_flight, self.client)
        self._in_flight = in_flight
        self._throttle = throttle
        self._answers = ClientAnswers(in_flight, self.client, throttle)
        self._sending: Sending | None = None
        """The last Produce of a client with a quota until all of it has gone on."""
        self._last_fetch = 0
        """Number of the last Fetch of a client with a quota among the connection's requests."""
        self._before_authentication = 0
        """Number of the last request that was charged to nobody since its client was still to authenticate; 0: none."""
        self._proof = FollowerProof(in_flight)
        self._decider = ConsumerDecider(in_flight)
        self._exempt: _Exempt | None = None
        """API key, client id and user of the last request whose client has no quota, in the quotas of that
        generation."""

    @property
    def muted_until(self) -> float:
        """The time at which requests are read again, by Trio's clock."""
        return self.client.muted_until

    @property
    def awaits_fetch(self) -> bool:
        """A Fetch of a client with a quota is in flight; the next waits for its answer, which is charged first.
        After a Produce whose acks could not be read it waits for every answer, lest its own be taken for another."""
        pending = self._in_flight.correlator.pending
        oldest = pending[0][1] if pending else None
        if oldest is None or not self._throttle.enforce:
            return False
        in_doubt = Undecoded.MALFORMED_REQUEST in self._in_flight.undecoded and not self.is_of_broker
        return in_doubt or oldest[0] <= self._last_fetch

    def close(self, now: float) -> None:
        """Take no more part in the connection, which has ended."""
        self.request_sent(now)
        self._answers.close(now)
        self.client.close(now)
        self._throttle.detach(self)
        # A cycle would be freed by the collector alone, which looks at old objects once in ten minutes.
        self._in_flight.attached_clients = self._in_flight.clients = None

    def quotas_changed(self, now: float) -> None:
        self.client.quotas_changed(now)
        self._take_part()

    @property
    def _has_session(self) -> bool:
        """True if the client's fetch session is not the broker's: epochs differ, or partitions were left out."""
        return self.client.epochs.answered > 0 or self._decider.has_session

    def _take_part(self) -> bool:
        """Take part in the connection while it authenticates, if any client has a quota or was told to wait, or if a
        session's epochs have to be translated on. Return whether it does for quotas or epochs."""
        has_quotas = self._throttle.is_needed or self._has_session
        may_wait = self.client.told_until > -math.inf
        takes_part = has_quotas or may_wait or self.authentication.is_open or self._proof.is_sought
        self._in_flight.clients = self if takes_part else None
        return has_quotas

    def state(self, now: float) -> ClientState:
        """Return the state with which another process goes on."""
        client, authentication = self.client, self.authentication
        muted_seconds = max(client.muted_until - now, 0.0)
        epochs = client.epochs
        return (
            muted_seconds,
            epochs.session_id,
            epochs.answered,
            client.user,
            authentication.accepted_mechanism,
            authentication.named,
            self._decider.has_session,
            client.is_authenticated,
            client.waited_seconds(now),
        )

    def restore(self, state: ClientState, now: float) -> None:
        """Continue from the `state` of another process."""
        muted_seconds, session_id, answered, user, mechanism, named, was_decided, is_authenticated, waited = state
        self.client.mute(muted_seconds, now, waited_seconds=waited)
        self.client.epochs = SessionEpochs(session_id, answered)
        if was_decided:
            self._decider.decide_by(self._throttle.lifted(now))  # it refuses the session
        # An older process does not say whether a user that it knows is one by SASL, but which mechanism it was.
        by_sasl = is_authenticated or (mechanism != "" and user not in (None, ANONYMOUS))
        self.client.authenticated(user, by_sasl=by_sasl)
        self.authentication.restore(mechanism, named)
        self._take_part()

    def request(  # noqa: C901 - every frame of a connection with quotas goes through here, and each call costs
        self, window: Window, total: int, now: float, *, may_hold: bool = True
    ) -> Step | Answer | None:
        """Charge the request of `total` bytes at the window's start, if its client has a quota, or have it answered
        here. `may_hold`: more of it than the window has room for may be waited for."""
        if self.client.muted_until > now:
            self.client.hold(now)
            return HELD
        if self.client.told_until > now:  # it does not wait any longer, or has never done
            self.client.told_until = -math.inf
            self._take_part()
        most = total if may_hold else min(total, window.capacity)
        if window.size >= REQUEST_START_BYTES:
            self._proof.last_api = REQUEST_START.unpack_from(window.buffer, window.start)[1]
        if self.authentication.is_open:
            step = self.authentication.request(window, total, most)
            if step is not None or not self._take_part():
                return step
        if window.size < REQUEST_START_BYTES or (not self._throttle.is_needed and not self._has_session):
            return None
        _, api_key, _, _, client_id_bytes = REQUEST_START.unpack_from(window.buffer, window.start)
        if api_key not in TRAFFIC:
            return self._authenticate_again(window, total, most) if api_key in SASL_APIS else None
        client_id_at = window.start + REQUEST_START_BYTES
        client_id = window.buffer[client_id_at : client_id_at + min(max(client_id_bytes, 0), MAX_NAME_BYTES)]
        client = self.client
        exempt = api_key, client_id, client.user, client.is_authenticated, self._throttle.generation
        if exempt == self._exempt:
            return None
        head, is_whole = _head(window, total)
        if head is None or self._in_flight.correlator.is_token(head):
            return None
        if not client.is_bounded(head.client_id, TRAFFIC[api_key]) and not (api_key == API_FETCH and self._has_session):
            self._exempt = exempt
            if not client.may_be_charged:
                self._before_authentication = self._in_flight.frames + 1
            return None
        if api_key == API_PRODUCE:
            return self._produce(window, head, total, now, is_whole=is_whole)
        try:
            if not is_whole:
                return self._unread(head, None, now)  # which the reader counts
            if api_key == API_FETCH:
                return self._fetch(window, head, total, most, now)
            return self._share_fetch(window, head, total, now)
        except ProtocolError:
            return self._unread(head, Undecoded.MALFORMED_REQUEST, now)

    def _authenticate_again(self, window: Window, total: int, most: int) -> Step | None:
        self.authentication.is_open = True
        return self.authentication.request(window, total, most)

    @property
    def is_of_broker(self) -> bool:
        """True if the connection is a follower's, which is never held up for frames that are not understood."""
        return self._proof.is_given or self._in_flight.link.peer in self._throttle.broker_addresses

    def _produce(self, window: Window, head: RequestHead, total: int, now: float, *, is_whole: bool) -> Step | None:
        end = min(window.end, window.start + total)
        expects: bool | None = True
        if is_whole:
            try:
                expects = expects_response(head, window.buffer, end)
            except ProtocolError:
                is_whole = False
        if expects is None:
            if _more_may_come(window, total):
                return None
            expects, is_whole = True, False
        if not is_whole and self.is_of_broker:
            return None
        entity = self.client.entity(head.client_id, ClientTraffic.PRODUCER, now)
        if entity is not None and self.client.waits(entity, now):
            return HELD
        if not is_whole:
            self._in_flight.pass_undecoded(Undecoded.MALFORMED_REQUEST)
        self._in_flight.sent(head, expects_response=expects)
        if entity is not None:
            self._sending = Sending(entity, self._in_flight.relayed, total, self._throttle.count)
            if expects:
                self._answers.await_produce(head.api_version, self._sending)
        return total

    def _unread(self, head: RequestHead, reason: Undecoded | None, now: float) -> Step | None:
        """Let a Fetch that is not understood pass, and charge its answer: the reader passes it on next."""
        number = self._in_flight.frames + 1
        if self.is_of_broker or number == self._last_fetch:  # of the latter the reader waits for more
            return None
        entity = self.client.entity(head.client_id, ClientTraffic.CONSUMER, now)
        if entity is not None:
            if self.awaits_fetch or self.client.waits(entity, now):
                return HELD
            self._last_fetch = number
            self._answers.await_fetch(number, head.api_key, head.api_version, entity)
        is_seen = not self._in_flight.decider.throttle.is_idle and head.api_key == API_FETCH  # the reader counts it
        if reason is not None and not is_seen:
            self._in_flight.pass_undecoded(reason)
        return None

    def request_sent(self, now: float) -> None:
        """Charge the Produce that has gone on, or as much of it as has."""
        self.client.goes_on()
        sending, self._sending = self._sending, None
        if sending is not None:
            sending.end(now)
            self.client.pay(sending.entity, now)

    def _fetch(self, window: Window, head: RequestHead, total: int, most: int, now: float) -> Step | Answer | None:
        if head.api_version not in SUPPORTED_FETCH_VERSIONS:
            return self._unread(head, Undecoded.UNSUPPORTED_VERSION, now)
        is_held_whole = total <= window.capacity
        needed = total if is_held_whole else bytes_to_peek(head, window.start, total)
        if window.size < needed:
            if needed > most:
                return self._unread(head, Undecoded.REQUEST_TOO_LARGE, now)
            return None if window.ended else Need(needed, total - window.size)
        fetch = peek_consumer_fetch(head, window.buffer, window.start + LENGTH_PREFIX_BYTES, window.start + needed)
        if fetch is None:
            return None
        entity = self.client.entity(head.client_id, ClientTraffic.CONSUMER, now)
        if entity is not None and entity.catch_up is not None and self.awaits_fetch:
            return HELD
        if self._decider.decides(None if entity is None else entity.catch_up, fetch):
            self.client.epochs = SessionEpochs()
            return None
        held = None if entity is None else self._held_up(head, fetch, entity, now, may_answer=is_held_whole)
        if held is None:
            self._forward(window, head, fetch, entity, now)
        return held or total

    def _held_up(
        self, head: RequestHead, fetch: ConsumerFetch, entity: Entity, now: float, *, may_answer: bool
    ) -> Step | Answer | None:
        """Hold a Fetch, or answer it, for the last one's answer or while its entity is over quota; None: it goes on."""
        if self.awaits_fetch:
            return HELD
        has_turn = self.client.has_turn(entity)
        if may_answer:
            nothing = fetch.lists_nothing
            session_id = self.client.answer_session(entity, *fetch.session, lists_nothing=nothing, now=now)
            if session_id is not None:
                return Answer(self._empty_response(head, session_id, now))
        return HELD if not has_turn and self.client.waits(entity, now) else None

    def _share_fetch(self, window: Window, head: RequestHead, total: int, now: float) -> Step | None:
        """Charge it as a Fetch, but never answer it here: it acknowledges records. With `catch_up_only` all of it
        counts, since which of its reads are behind nobody tells."""
        entity = self.client.entity(head.client_id, ClientTraffic.CONSUMER, now)
        if entity is None:
            return None
        if self.awaits_fetch or self.client.waits(entity, now):
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
        self._in_flight.sent(head, expects_response=True)
        self._last_fetch = self._in_flight.frames
        self._answers.await_fetch(self._last_fetch, head.api_key, head.api_version, entity)

    def _forward(
        self, window: Window, head: RequestHead, fetch: ConsumerFetch, entity: Entity | None, now: float
    ) -> None:
        if fetch.epoch_at is not None:
            INT32.pack_into(window.buffer, fetch.epoch_at, self.client.epochs.forwarded(*fetch.session))
        if entity is None:
            self._in_flight.sent(head, expects_response=True)
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
        if self.authentication.is_open and (step := self.authentication.response(window, now)) is not None:
            return step
        if self._proof.is_sought and not self.authentication.is_open:
            if (need := self._proof.read(window)) is not None:
                return need
            self._take_part()
        if self._before_authentication and self._answers.is_answered(window, self._before_authentication):
            self._before_authentication = 0
            self._throttle.learn_authentication(is_asked=False)
        return self._answers.read(window, now)


def _more_may_come(window: Window, total: int) -> bool:
    """Return True if the reader waits for more of the frame before it passes it on."""
    return min(window.size, total) < total and not window.ended and window.size < window.capacity


def _head(window: Window, total: int) -> tuple[RequestHead | None, bool]:
    """Return the header at the window's start, and whether it was read to its end; else its fields at fixed places.
    None: the rest is still to come."""
    start, end = window.start + LENGTH_PREFIX_BYTES, min(window.end, window.start + total)
    try:
        head = peek_request(window.buffer, start, end)
    except ProtocolError:
        head = None
    else:
        if head is not None:
            return head, True
        if _more_may_come(window, total):
            return None, False
    return plain_head(window.buffer, start, end), False
