"""Matches responses to requests: one Correlator per connection.

A response names neither its API nor its version, only the correlation id (KIP-511 tells why clients rely on
that). Brokers answer a connection's requests in order, and some not at all: Produce with acks=0. Must not
know sockets or payloads.

States, by what the client last sent::

    START ──known header──▶ KAFKA ──SaslHandshake v0──▶ TOKENS
      │                       ▲                            │ ▲
      └──anything else──▶ TOKENS ──────known header────────┘ └─anything else─┘

In TOKENS the client's frames are SASL tokens, which have no header; the first frame with a header ends that. Brokers
before 1.0 authenticate so (SaslHandshake v0), and brokers before 0.10 send tokens from the first byte on. Each token is
answered by one token, except perhaps the last.

Invariant: memory is bounded; of two unanswered requests with the same correlation id, a response answers the older.
"""

from __future__ import annotations

import enum
import struct
from collections import deque
from typing import TYPE_CHECKING, Generic, TypeVar

from ..errors import ProtocolError
from .apis import API_PRODUCE, API_SASL_HANDSHAKE, APIS, is_flexible
from .framing import read_uvarint

if TYPE_CHECKING:
    from .framing import Bytes
    from .headers import RequestHead

T = TypeVar("T")

MAX_IN_FLIGHT = 10_000
# No API has nearly as many; a PLAIN token that starts like a known API key has printable characters here.
MAX_PLAUSIBLE_VERSION = 31
MAX_POSSIBLE_VERSION = 255
"""The highest version that a request may have: one that fits into a byte. Text has no zero byte there, nor has the
beginning of any other protocol. Kafka's busiest API has come to version 18."""
MAX_TOKEN_BYTES = 512 * 1024
"""The default of sasl.server.max.receive.size: the largest token that a broker takes. Four letters, read as a length,
are at least a thousand times as much."""
FIRST_PRODUCE_VERSION_WITH_TRANSACTIONAL_ID = 3  # KIP-98

_INT16 = struct.Struct(">h")


class State(enum.Enum):
    """The protocol that a client speaks at this point."""

    START = "start"
    KAFKA = "kafka"
    TOKENS = "tokens"


_KAFKA = State.KAFKA  # a member costs ten times a global's look-up (Python 3.11)


class Correlator(Generic[T]):
    """Remembers a connection's unanswered requests, each with what the caller attached.

    The oldest is given up when more than ``maximum`` are unanswered.
    """

    __slots__ = ("_maximum", "has_unanswerable", "pending", "state")

    def __init__(self, *, maximum: int = MAX_IN_FLIGHT) -> None:
        self._maximum = maximum
        self.pending: deque[tuple[int | None, T | None]] = deque()
        """The unanswered requests, the oldest first: the correlation id (None: a SASL token), and what the caller
        attached. Plain tuples, since one is made for each request. Read from outside, changed by this class
        alone."""
        self.state = State.START
        self.has_unanswerable = False
        """True if a request went to the broker that it does not answer."""

    @property
    def in_flight(self) -> int:
        """How many requests and tokens are still to be answered."""
        return len(self.pending)

    def is_token(self, head: RequestHead | None) -> bool:
        """Return True if a client frame is a SASL token, to go on untouched and be noted by ``sent_token``.

        ``head`` is what could be peeked of it, None if nothing. Changes nothing.
        """
        return self.state is not State.KAFKA and not is_known(head)

    def is_possible(self, api_key: int, api_version: int, size: int) -> bool:
        """Return True if a client's frame of `size` bytes that begins so may be a request, or a SASL token."""
        could_be_request = api_key >= 0 and 0 <= api_version <= MAX_POSSIBLE_VERSION
        return could_be_request or (self.state is not State.KAFKA and size <= MAX_TOKEN_BYTES)

    def sent_token(self) -> None:
        """Note that a SASL token went to the broker."""
        self.state = State.TOKENS
        self._append((None, None))

    def sent(self, head: RequestHead, expects_response: bool = True, payload: T | None = None) -> None:
        """Note that a request went to the broker; ``payload`` comes back with its response."""
        starts_tokens = head.api_key == API_SASL_HANDSHAKE and head.api_version == 0
        self.state = State.TOKENS if starts_tokens else State.KAFKA
        if expects_response:
            self._append((head.correlation_id, payload))
        else:
            self.has_unanswerable = True

    def await_answer(self, correlation_id: int, payload: T) -> None:
        """Note, as ``sent`` does, a Kafka request that is answered and is no SaslHandshake."""
        self.state = _KAFKA
        pending = self.pending
        if len(pending) >= self._maximum:
            pending.popleft()
        pending.append((correlation_id, payload))

    def take_oldest(self) -> None:
        """Return the payload of the oldest unanswered request, whose response has come; there must be one."""
        self.pending.popleft()

    def received(self, correlation_id: int | None) -> T | None:
        """Return the payload of the request that this response answers; None if it answers a token or nothing known.

        ``correlation_id`` is None for a frame too short to have one. Earlier requests are forgotten:
        brokers answer in order, so they never will be answered.
        """
        pending = self.pending
        if pending and correlation_id is not None and pending[0][0] == correlation_id:
            return pending.popleft()[1]
        for index, (expected, payload) in enumerate(() if correlation_id is None else pending):
            if expected == correlation_id:
                for _ in range(index + 1):
                    pending.popleft()
                return payload
        if pending and pending[0][0] is None:
            pending.popleft()
        return None

    def _append(self, entry: tuple[int | None, T | None]) -> None:
        if len(self.pending) >= self._maximum:
            self.pending.popleft()
        self.pending.append(entry)


def is_known(head: RequestHead | None) -> bool:
    """Return True if this is the header of an API we know, in a version there could be."""
    return head is not None and head.api_key in APIS and head.api_version <= MAX_PLAUSIBLE_VERSION


def expects_response(head: RequestHead, buffer: Bytes, end: int) -> bool | None:
    """Return True if the broker answers: always, but for Produce with acks=0.

    None if the acks are not all before ``end`` yet. ``buffer`` is the one that ``head`` was peeked in.
    Raises ProtocolError if the acks cannot be found.
    """
    if head.api_key != API_PRODUCE:
        return True
    at: int | None = head.body_at
    if head.api_version >= FIRST_PRODUCE_VERSION_WITH_TRANSACTIONAL_ID:
        at = _after_transactional_id(head, buffer, end)
    if at is None or end - at < _INT16.size:
        return None
    return bool(_INT16.unpack_from(buffer, at)[0])


def _after_transactional_id(head: RequestHead, buffer: Bytes, end: int) -> int | None:
    if is_flexible(head.api_key, head.api_version):
        found = read_uvarint(buffer, head.body_at, end)
        if found is None:
            return None
        length, at = found[0] - 1, found[1]
    elif end - head.body_at < _INT16.size:
        return None
    else:
        length, at = _INT16.unpack_from(buffer, head.body_at)[0], head.body_at + _INT16.size
    if length < -1:
        raise ProtocolError(f"Produce: transactional_id length {length}")
    return at + max(length, 0)
