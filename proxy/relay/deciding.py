"""A replica's Fetch from when all of it is here until it goes on or is answered: decided, perhaps held, decided again.

    take ─▶ decide ─┬─▶ it goes on
               ▲    ├─▶ it is held: `held.decision` says until when ──▶ due ──▶ again
               └────┼────────────────────────────────────────────────────────────┘
                    └─▶ it is to be answered here, in its turn: `answered` once that is done

Pure: no I/O, no waiting. Invariant: one request at a time; the next is not read before this one is dealt with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from protocol.fetch.request import parse_fetch_request
from protocol.fetch.tables import FIRST_VERSION_WITH_SESSIONS
from protocol.wire.framing import LENGTH_PREFIX_BYTES, with_length
from protocol.wire.headers import REQUEST_CORRELATION_ID_AT

from ..throttle.decision import Answer, Forward, Hold
from .exchange import Undecoded
from .reading import Replace
from .transport import HELD

if TYPE_CHECKING:
    from collections.abc import Callable

    from protocol.fetch.request import FetchRequest

    from ..throttle.decision import Decision, Demand
    from .exchange import Exchange
    from .reading import Step

AFTER_CORRELATION_ID = REQUEST_CORRELATION_ID_AT + 4


class Held(NamedTuple):
    """A request that was taken from the follower, and cannot be dealt with at once."""

    demand: Demand | None
    decision: Hold | Answer
    changes: int
    """How often quotas had changed before it was decided."""


class Deciding:
    """Decides one connection's requests, one at a time. `clock` tells Trio's time."""

    __slots__ = ("_clock", "_exchange", "_held_since", "_is_same", "_last", "due", "held")

    def __init__(self, exchange: Exchange, clock: Callable[[], float]) -> None:
        self._exchange = exchange
        self._clock = clock
        self.held: Held | None = None
        """The request that waits: for its time, or for the answers to earlier requests; None: none does."""
        self.due = False
        """The held request is to be decided again: its time has come, or quotas have changed."""
        self._held_since: float | None = None
        self._is_same = False
        """The request that was read last is equal to the one before it, but for its correlation id."""
        self._last: tuple[int, bytes, bytes, FetchRequest] | None = None
        """The last Fetch: its length, its bytes before and after the correlation id, and what was parsed from them."""

    def same(self, frame: bytes) -> FetchRequest | None:
        """Return what was parsed from the last Fetch if this one is equal to it, but for the correlation id, which
        stays the last one's; None if it differs. Before v7 an idle follower sends the same request again and again,
        and comparing costs less than parsing."""
        last = self._last
        if last is None or len(frame) != last[0] or frame[AFTER_CORRELATION_ID:] != last[2]:
            return None
        self._is_same = frame[:REQUEST_CORRELATION_ID_AT] == last[1]
        return last[3] if self._is_same else None

    def parsed(self, frame: bytes) -> FetchRequest:
        """Raises ProtocolError."""
        request = parse_fetch_request(frame)
        self._forget()
        self._is_same = False
        if request.head.api_version < FIRST_VERSION_WITH_SESSIONS and self._exchange.buffers.keep(len(frame)):
            self._last = len(frame), frame[:REQUEST_CORRELATION_ID_AT], frame[AFTER_CORRELATION_ID:], request
        return request

    def _forget(self) -> None:
        if self._last is not None:
            self._exchange.buffers.let_go(self._last[0])
            self._last = None

    def take(self, frame: bytes, request: FetchRequest, correlation_id: int) -> Step:
        """Decide a replica's Fetch, the next frame of the window: forward it, hold it, or have it answered here. If it
        differs from the last Fetch by its correlation id alone, `request` may be what was parsed from that one."""
        exchange, now, total = self._exchange, self._clock(), LENGTH_PREFIX_BYTES + len(frame)
        exchange.fetched(request.head.api_version)
        link, changes = exchange.link, exchange.changes.count
        replicas = link.replicas
        before = replicas.not_remembered
        demand = link.begin(frame, request, now, is_same=self._is_same)
        if replicas.not_remembered != before:
            exchange.pass_undecoded(Undecoded.TOO_MANY_REPLICAS)
        if isinstance(demand, Answer):
            return self._hold(Held(None, demand, changes), total)
        decision: Decision = link.decide(demand, now, may_hold=not exchange.draining)
        if not isinstance(decision, Forward):
            return self._hold(Held(demand, decision, changes), total)
        exchange.sent_whole(correlation_id, decision.outlook)
        return total if decision.frame is None else Replace(total, with_length(decision.frame))

    def again(self, held: Held) -> Step:
        """Decide the held request once more: HELD if it still has to wait, or is to be answered here."""
        demand, exchange, changes = held.demand, self._exchange, self._exchange.changes.count
        self.due = False
        if demand is None:
            return HELD
        decision: Decision = exchange.link.decide(demand, self._clock(), may_hold=not exchange.draining)
        if not isinstance(decision, Forward):
            self.held = Held(demand, decision, changes)
            if isinstance(decision, Answer):
                self._held_long_enough()
            return HELD
        self._held_long_enough()
        exchange.sent_whole(demand.correlation_id, decision.outlook)
        self.answered()
        return Replace(0, with_length(demand.frame if decision.frame is None else decision.frame))

    def answered(self) -> None:
        """The request that was held has been dealt with: the next one may come."""
        self.held = None
        self._exchange.decided()

    def lost(self) -> None:
        """The connection has ended: nothing is held for it any more."""
        self._held_long_enough()
        self._forget()

    def _hold(self, held: Held, total: int) -> Step:
        self.held = held
        self._exchange.deciding = True
        if isinstance(held.decision, Hold):
            self._held_since = self._clock()
            self._exchange.statistics.held_requests += 1
        return Replace(total, b"")

    def _held_long_enough(self) -> None:
        if self._held_since is not None:
            seconds, self._held_since = self._clock() - self._held_since, None
            self._exchange.statistics.held_requests -= 1
            self._exchange.statistics.hold_seconds.observe(seconds)
            self._exchange.held_seconds += seconds
