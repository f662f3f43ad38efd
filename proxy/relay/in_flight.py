"""Holds what the two directions of one connection share: requests in flight, and the counters of its one log line.

No I/O of its own. Invariant: `owes_response` is false exactly when the follower is owed no response and none is being
sent to it. Then the sidecar may send an answer of its own without cutting another answer in two.
"""

from __future__ import annotations

import enum
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias

from protocol.wire.correlation import Correlator

from ..changes import Changes
from ..statistics.counters import Full, Undecoded

if TYPE_CHECKING:
    from collections.abc import Callable

    from protocol.wire.headers import RequestHead

    from ..logs.log import Log
    from ..statistics.counters import RoleStatistics
    from ..throttle.decision import Answer
    from ..throttle.link import Link
    from ..throttle.pending_fetch import PendingFetch
    from ..topology.racks import Relayed
    from .direction import Cause, Step
    from .transfer import Window

MAX_FRAME_BYTES = 2**31 - 1
"""The most that a length prefix can say: a frame that is only passed on is never held, so its size does not matter."""
LONG_FRAME_BYTES = 4096
"""A Fetch of some hundred partitions, or an answer to it without records. To read a longer one may take as long as a
whole turn."""
UNLIMITED = 2**63
"""The value of `Buffers.most` without a limit, in bytes."""
MAX_KEPT_BYTES = 4 * 2**20
"""The most bytes of requests that all connections keep, to compare the next request with: those of 250 connections
that ask for 1000 partitions each. What was parsed from one takes ten times as much."""
MAX_IN_SLICES = 8
"""The most long Fetches that are decided at the same time. Eight of 25 000 partitions each take 60 MiB."""
MAX_IN_FLIGHT = 1000
"""The most requests of one connection that may wait for their answers, some 250 bytes each: more would wait there."""
MAX_DECIDED_IN_FLIGHT = 16
"""The most fetches that one connection may have in flight whose answers are to be learnt from or edited. A replica
fetcher has one (KIP-227's sessions allow no more). Each takes up to some megabytes, for grants and added entries."""

_Sent: TypeAlias = "tuple[int, PendingFetch | None]"
"""A request in flight: its number among its connection's requests, counted from 1, and the pending fetch that says what
is to be done with its response; None if the response passes as it is. It is a plain tuple, which costs less to make:
one is made for each request."""


@dataclass(slots=True)
class Buffers:
    """The process's account of the memory that all connections hold for frames that have to be whole, in bytes.

    A Fetch that is decided is read whole; a response that loses records is collected to its end. Each frame has a limit
    of its own (`limits`), but a thousand peers that send half a frame and then nothing would still hold half a
    gigabyte. A frame for which there is no room passes as it comes, or ends its connection where it must not pass.

    Invariant: `held` is never above `most`, nor is `kept` above MAX_KEPT_BYTES.
    """

    most: int = UNLIMITED
    held: int = 0
    is_memory_short: bool = False
    """True while the process is close to its limit of memory (`limits.max_memory`): nothing more is held."""

    kept: int = 0
    """Bytes of requests that are kept with what was read from them, for followers that send the same request again."""
    in_slices: int = 0
    """The number of long Fetches that are being read and decided: each takes some 300 bytes for each of its
    partitions."""

    @property
    def has_room_for_slices(self) -> bool:
        """True if another long Fetch may be begun. A connection that must wait asks again in its next turn."""
        return self.in_slices < MAX_IN_SLICES

    def keep(self, size: int, *, instead_of: int = 0) -> bool:
        """Return whether a frame of `size` bytes may be kept with what was read from it. One of `instead_of` bytes is
        kept no longer."""
        self.kept -= instead_of
        if self.is_memory_short or self.kept + size > MAX_KEPT_BYTES:
            return False
        self.kept += size
        return True

    def reserve(self, size: int) -> bool:
        """Return whether there was room for `size` bytes, which now count as held until they are released."""
        if self.is_memory_short or self.held + size > self.most:
            return False
        self.held += size
        return True

    def release(self, size: int) -> None:
        self.held -= size


ClientState: TypeAlias = tuple[float, int, int, str | None, str, str | None, bool, bool, float]
"""The fields of `handover.messages.ClientMessage`."""


class ClientQuotas(Protocol):
    """Looks at each frame before its reader does; `clients.frames` says what it returns."""

    @property
    def muted_until(self) -> float:
        """The time, by Trio's clock, until which nothing is read from the client."""

    @property
    def is_of_broker(self) -> bool: ...

    @property
    def awaits_fetch(self) -> bool:
        """True if a client's Fetch is in flight, and the next one waits for its answer."""

    def request(self, window: Window, total: int, now: float, *, may_hold: bool = True) -> Step | Answer | None: ...

    def request_sent(self, now: float) -> None: ...

    def response(self, window: Window, now: float) -> Step | None: ...

    def state(self, now: float) -> ClientState: ...

    def restore(self, state: ClientState, now: float) -> None: ...


class Service(enum.Enum):
    """The service that a connection still gets."""

    OPEN = "it serves"
    HANDING = "it is handed over or ends once nothing is in flight: no new request is read, and none is held"
    DRAINING = "it ends once nothing is in flight: no request is held"


class RequestState(enum.Enum):
    """The state of the request that is being dealt with."""

    NONE = "none is"
    WAITING = "a long one waits in the window: for the end of an answer, or until fewer others are in slices"
    SLICED = "it is being decided in slices: answers wait, since they change what is known of the replicas"
    HELD = "it was taken from the follower, and is neither forwarded nor answered yet"


class AnswerState(enum.Enum):
    """The kind of response that is on its way to the follower."""

    NONE = "nothing"
    PASSING = "a response that passes as it is"
    DECIDED = "the answer to a decided request"


# A member costs ten times a global's look-up (Python 3.11), and these are looked up for every frame.
OPEN, HANDING, DRAINING = Service.OPEN, Service.HANDING, Service.DRAINING
NO_REQUEST, WAITING, SLICED, HELD_REQUEST = RequestState
NO_ANSWER, PASSING, DECIDED = AnswerState.NONE, AnswerState.PASSING, AnswerState.DECIDED


@dataclass(slots=True)
class InFlightRequests:
    """The state of one connection that both of its directions use."""

    link: Link
    changes: Changes
    """The event that wakes held requests: quotas changed, or a drain began."""
    log: Log
    settled: Changes = field(default_factory=Changes)
    """The event that is set after each response."""
    service: Service = OPEN
    request: RequestState = NO_REQUEST
    answer: AnswerState = NO_ANSWER
    opaque: Undecoded | None = None
    """The reason why frames cannot be told apart any more, so that bytes pass as they come; None: they can."""
    cause: Cause | None = None
    error: str | None = None
    frames: int = 0
    replica_fetches: int = 0
    held_seconds: float = 0.0
    undecoded: set[Undecoded] = field(default_factory=set)
    correlator: Correlator[_Sent] = field(default_factory=Correlator)
    decider: Link = field(init=False)
    """The link that decides Fetches: `link`, or that of a consumer's quota for catching up."""
    statistics: RoleStatistics = field(init=False)
    relayed: Relayed = field(init=False)
    buffers: Buffers = field(default_factory=Buffers)
    """The memory that all connections hold for frames that have to be whole."""
    clients: ClientQuotas | None = None
    """The client quotas' part in the connection; None: none can bound it, or it is of the egress."""
    attached_clients: ClientQuotas | None = None
    """The same, whether it takes part now or not; None: the connection is of the egress."""
    count_answer: Callable[[int], None] | None = None
    """Counts the bytes of a client's answer as they go on; None: none is under way for which a client is charged."""
    reading: int = 0
    """The number, from 1, of the request that has to be whole before anything is done with it, and is not yet; 0: there
    is none. A number that stays the same for too long is a request that stalls."""
    _reads: int = 0
    _fetches: deque[_Sent] = field(default_factory=deque)
    """The fetches in flight whose answers are to be learnt from or edited, the oldest first."""

    def __post_init__(self) -> None:
        self.decider = self.link
        self.statistics = self.link.throttle.statistics
        self.relayed = self.link.relayed

    @property
    def moved(self) -> int:
        """Bytes passed in both directions; a connection whose count stands still is idle."""
        return self.relayed.request_bytes + self.relayed.response_bytes

    @property
    def owes_response(self) -> bool:
        return self.answer is not NO_ANSWER or self.correlator.in_flight > 0

    @property
    def is_idle(self) -> bool:
        """True if nothing is owed in either direction: the connection may be closed without loss."""
        return not self.owes_response and self.request not in (SLICED, HELD_REQUEST)

    @property
    def room(self) -> int:
        """The number of further requests that may be in flight; 0: nothing is read from the follower until answers have
        come."""
        if self.service is HANDING or len(self._fetches) >= MAX_DECIDED_IN_FLIGHT:
            return 0
        return MAX_IN_FLIGHT - len(self.correlator.pending)

    @property
    def has_room_again(self) -> bool:
        """True if reading from the follower may go on, because no more than half of the requests that may be in flight
        still are. If it went on at the first answer, it would stop and start again for each request."""
        if self.service is HANDING or (self.answer is DECIDED and self.request is not NO_REQUEST):
            return False
        if self.clients is not None and self.clients.awaits_fetch:
            return False
        return self.opaque is not None or (
            self.correlator.in_flight <= MAX_IN_FLIGHT // 2 and len(self._fetches) <= MAX_DECIDED_IN_FLIGHT // 2
        )

    def waits_for_room(self) -> None:
        """Count a pause: nothing is read from the follower until answers have come. A connection that is handed over
        reads nothing either, and has not too much in flight."""
        if self.service is HANDING:
            return
        full = Full.FETCHES if len(self._fetches) >= MAX_DECIDED_IN_FLIGHT else Full.REQUESTS
        self.statistics.in_flight_pauses[full.value] += 1

    def decided(self) -> None:
        """Note that the request that was taken from the follower has been forwarded or answered."""
        self.request = NO_REQUEST
        self.settled.notify()

    def sent(self, head: RequestHead, *, expects_response: bool, pending: PendingFetch | None = None) -> None:
        """Note a request that is about to go on."""
        self.frames += 1
        request = self.frames, pending
        self.correlator.sent(head, expects_response, request)
        if pending is not None:
            self._fetches.append(request)

    def sent_whole(self, correlation_id: int, pending: PendingFetch | None = None) -> None:
        """Note a request of a Kafka connection that will be answered and is about to go on."""
        self.frames += 1
        request = self.frames, pending
        self.correlator.await_answer(correlation_id, request)
        if pending is not None:
            self._fetches.append(request)

    def decide_by(self, link: Link) -> None:
        """Let another link decide; fetches in flight are settled with the link that decided them."""
        if self.decider is not self.link:
            self.decider.close()
        self.decider = link
        link.relayed = self.relayed

    def fetched(self, api_version: int) -> None:
        """Count a replica's Fetch."""
        self.replica_fetches += 1
        self.link.replicas.fetch_version = api_version
        self.statistics.fetch_requests[api_version] += 1

    def received_whole(self, correlation_id: int) -> bool:
        """Match a response, if it answers the oldest request and nothing is to be done about it."""
        pending = self.correlator.pending
        if not pending:
            return False
        expected, request = pending[0]
        if expected != correlation_id or request is None or request[1] is not None:
            return False
        self.answer = PASSING
        self.correlator.take_oldest()
        return True

    def received(self, correlation_id: int | None, now: float) -> PendingFetch | None:
        """Match a response that begins to arrive; return the pending fetch of its request.

        Leaders answer in order. Requests sent before this one will therefore not be answered any more, and their grants
        are given back.
        """
        self.answer = PASSING
        request = self.correlator.received(correlation_id)
        if request is None:
            return None
        number, pending = request
        while self._fetches and self._fetches[0][0] < number:
            _give_back(self._fetches.popleft(), now)
        if pending is not None:
            self._fetches.popleft()
            self.answer = DECIDED
        return pending

    def begins_reading(self) -> None:
        """Note that a request that has to be whole has begun, and that not all of it has come."""
        self._reads += 1
        self.reading = self._reads

    def has_read(self) -> None:
        self.reading = 0

    def passed_request(self, size: int) -> None:
        self.statistics.relayed_request_bytes += size
        self.relayed.request_bytes += size

    def passed_response(self, size: int) -> None:
        self.statistics.relayed_response_bytes += size
        self.relayed.response_bytes += size
        if self.count_answer is not None:
            self.count_answer(size)

    def responded(self) -> None:
        """Note that the response has gone on."""
        self.answer = NO_ANSWER
        self.settled.notify()

    def close(self, now: float) -> None:
        """Give back every grant whose answer will never come."""
        for request in self._fetches:
            _give_back(request, now)
        self._fetches.clear()
        self.decide_by(self.link)
        self.link.close()
        self.statistics.opaque_connections -= self.opaque is not None

    def pass_undecoded(self, reason: Undecoded) -> None:
        """Count traffic that passes without being understood; logged once per connection and reason."""
        self.statistics.undecoded[reason.value] += 1
        if reason not in self.undecoded:
            self.undecoded.add(reason)
            link = self.link
            self.log.warning("passed_undecoded", role=link.throttle.role.value, peer=link.peer, reason=reason.value)

    def turn_opaque(self, reason: Undecoded) -> None:
        """Pass bytes as they come in both directions from here on, since frames cannot be told apart any more.

        Either direction may find that out, so it may be said twice.
        """
        self.pass_undecoded(reason)
        self.statistics.opaque_connections += self.opaque is None
        self.opaque = reason
        self.settled.notify()

    def end(self, cause: Cause, error: str | None = None) -> None:
        """Note why the connection ends; the first cause is the one that counts."""
        if self.cause is None:
            self.cause, self.error = cause, error


def _give_back(request: _Sent, now: float) -> None:
    _, pending = request
    if pending is not None:
        pending.lost(now)
