"""Reads from a connection who its user is: SASL PLAIN and SCRAM, from the first frame until another request follows.

    SaslHandshake ──mechanism──▶ SaslAuthenticate, or a raw token ──user──▶ the broker accepts: the user counts

`frames.ClientFrames` shows it each frame while it is open. The first request that is no part of an authentication
closes it: from then on it costs nothing. Where some client has a quota, a re-authentication (KIP-368) opens it again.
Elsewhere one passes unseen, in which Kafka accepts no other user.

Pure: no I/O, no waiting. Invariants: every frame goes on as it came; a user counts only after the broker has accepted
it; no token is kept, and whatever is not understood is a user that is not known.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from protocol.errors import ProtocolError
from protocol.sasl import (
    AcceptingAnswer,
    accepting_answer,
    has_mechanism,
    is_accepted,
    is_first,
    named_user,
    names_user,
    read_mechanism,
    read_token,
)
from protocol.wire.apis import API_SASL_AUTHENTICATE, API_SASL_HANDSHAKE, API_VERSIONS
from protocol.wire.correlation import MAX_TOKEN_BYTES
from protocol.wire.framing import LENGTH_PREFIX_BYTES, RESPONSE_START, RESPONSE_START_BYTES
from protocol.wire.headers import peek_request, plain_head

from ..relay.transfer import Need

if TYPE_CHECKING:
    from protocol.wire.framing import Bytes
    from protocol.wire.headers import RequestHead

    from ..relay.direction import Step
    from ..relay.in_flight import InFlightRequests
    from ..relay.transfer import Window
    from .connection import ClientConnection

MAX_HEADER_TAGS = 8192
"""The most tagged fields in the header of a part of an exchange: those of one take some milliseconds, once a
connection."""
UNREAD = "unread"
"""The user of an exchange whose token is not read, although others of its mechanism are."""
SASL_APIS = frozenset({API_SASL_HANDSHAKE, API_SASL_AUTHENTICATE})


class _Attempt(NamedTuple):
    """A token in flight, or the handshake before it."""

    number: int | None
    """The number of its request among the connection's; None: it has no header."""
    version: int
    mechanism: str
    user: str | None
    is_handshake: bool = False


class Authentication:
    """The exchange of a connection, and the user that its client has named last."""

    __slots__ = ("_attempts", "_client", "_has_mechanism", "_in_flight", "is_open", "mechanism", "named")

    def __init__(self, in_flight: InFlightRequests, client: ClientConnection) -> None:
        self.is_open = True
        """Frames are to be shown: a part of an exchange may follow, or an answer to it."""
        self.mechanism = ""
        self.named: str | None = None
        """The user that the client has named in the exchange that is going on; None: none that is known."""
        self._in_flight = in_flight
        self._client = client
        self._has_mechanism = False
        """True if the broker has taken the mechanism: else its answers to supposed tokens accept nobody."""
        self._attempts: deque[_Attempt] = deque()

    @property
    def accepted_mechanism(self) -> str:
        """The mechanism that the broker has taken; empty if none."""
        return self.mechanism if self._has_mechanism else ""

    def restore(self, mechanism: str, named: str | None) -> None:
        """Continue an exchange of another process."""
        self.mechanism, self.named, self._has_mechanism = mechanism, named, bool(mechanism)

    def request(self, window: Window, total: int, most: int) -> Step | None:
        """Note what the frame of `total` bytes at the window's start, of which `most` may be waited for, says about its
        user, and return how it goes on; None: by others, who read it as well."""
        start, end = window.start + LENGTH_PREFIX_BYTES, min(window.end, window.start + total)
        try:
            head = peek_request(window.buffer, start, end, most_tags=MAX_HEADER_TAGS)
        except ProtocolError:
            head = None
        if head is None:
            head = plain_head(window.buffer, start, end)
            if head is None and end - window.start < total and not window.ended:
                return None  # the reader waits for the header
            if head is not None and head.api_key in SASL_APIS and window.size < min(total, most) and not window.ended:
                return Need(min(total, most), total - window.size)
        if self._in_flight.correlator.is_token(head):
            return self._part(window, None, total, most)
        if head is not None and head.api_key in SASL_APIS:
            return self._part(window, head, total, most)
        if head is not None and head.api_key != API_VERSIONS and not self._attempts:
            self.is_open = False
        return None

    def _part(self, window: Window, head: RequestHead | None, total: int, most: int) -> Step:
        """Let a part of an exchange go on: a request, or a token, which has no header."""
        is_handshake = head is not None and head.api_key == API_SASL_HANDSHAKE
        is_read = total <= min(most, MAX_TOKEN_BYTES) and (is_handshake or names_user(self.mechanism))
        if is_read and window.size < total:
            if not window.ended:
                return Need(total, total - window.size)
            is_read = False
        buffer, end = window.buffer, window.start + total
        if head is None:
            self._in_flight.correlator.sent_token()
            self._attempt(None, 0, buffer[window.start + LENGTH_PREFIX_BYTES : end] if is_read else b"")
            return total
        self._in_flight.sent(head, expects_response=True)
        if is_handshake:
            self.mechanism = read_mechanism(buffer, head.body_at, end) if is_read else ""
            self._has_mechanism = False
            self._attempts.append(
                _Attempt(self._in_flight.frames, head.api_version, self.mechanism, None, is_handshake=True)
            )
        else:
            token = read_token(head.api_version, buffer, head.body_at, end) if is_read else b""
            self._attempt(self._in_flight.frames, head.api_version, token)
        return total

    def _attempt(self, number: int | None, version: int, token: bytes) -> None:
        if names_user(self.mechanism) and not token:
            self.named = UNREAD
        elif is_first(self.mechanism, token):
            self.named = named_user(self.mechanism, token)
        self._attempts.append(_Attempt(number, version, self.mechanism, self.named))

    def response(self, window: Window, now: float) -> Need | None:
        """Learn from the broker's answer to a token whether it accepts the user. The answer goes on as it is; Need: not
        all of it has come."""
        attempt = self._oldest_attempt(window)
        if attempt is not None:
            total = LENGTH_PREFIX_BYTES + int.from_bytes(window.view(LENGTH_PREFIX_BYTES), signed=True)
            if window.size < total <= MAX_TOKEN_BYTES and not window.ended:
                return Need(total, total - window.size)
            self._attempts.popleft()
            if LENGTH_PREFIX_BYTES <= total <= window.size:
                self._learn(attempt, window.buffer, window.start + LENGTH_PREFIX_BYTES, window.start + total, now)
        return None

    def _learn(self, attempt: _Attempt, buffer: Bytes, start: int, end: int, now: float) -> None:
        if attempt.is_handshake:
            self._has_mechanism = has_mechanism(attempt.version, buffer, start, end)
            return
        answer = _accepting(attempt, buffer, start, end)
        if self._has_mechanism and answer is not None and is_accepted(attempt.mechanism, answer.token):
            self._client.authenticated(attempt.user, by_sasl=True)
            self._client.session_ends_at = now + answer.session_seconds

    def _oldest_attempt(self, window: Window) -> _Attempt | None:
        """Return the attempt that the response at the window's start answers; None if it answers something else."""
        pending = self._in_flight.correlator.pending
        if not self._attempts or not pending:
            return None
        expected, request = pending[0]
        attempt = self._attempts[0]
        if attempt.number is None:
            return attempt if expected is None else None
        if request is None or request[0] != attempt.number or window.size < RESPONSE_START_BYTES:
            return None
        return attempt if RESPONSE_START.unpack_from(window.buffer, window.start)[1] == expected else None


def _accepting(attempt: _Attempt, buffer: Bytes, start: int, end: int) -> AcceptingAnswer | None:
    """Return the meaning of a whole answer; None if the broker refuses."""
    if attempt.number is None:  # then a broker that refuses closes the connection
        return AcceptingAnswer(bytes(buffer[start:end]))
    return accepting_answer(attempt.version, buffer, start, end)
