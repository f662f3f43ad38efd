"""From the follower to the leader: frame by frame, opaque unless it is a replica's Fetch that may be throttled.

A Fetch that may be throttled is read whole (it is small: 16 bytes a partition), decided, and forwarded, held or
answered here. Everything else is passed on as it arrives. While a request is held nothing more is read: that is
the back-pressure.

Invariant: what is passed undecoded is passed byte for byte, counted, and logged once per connection.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeVar

import trio

from protocol.apis import API_FETCH
from protocol.correlation import State, expects_response
from protocol.errors import ProtocolError
from protocol.fetch import SUPPORTED_FETCH_VERSIONS
from protocol.fetch_glance import peek_session
from protocol.fetch_request import LAST_VERSION_WITH_REPLICA_ID, parse_fetch_request, peek_replica_id
from protocol.framing import LENGTH_PREFIX_BYTES, frame_size, with_length
from protocol.headers import REQUEST_CORRELATION_ID_AT, peek_request, request_correlation_id

from ..throttle.decision import Answer, Forward, Hold
from .copying import copy, copy_rest, send
from .eager import Eager
from .exchange import MAX_FRAME_BYTES, Undecoded
from .poller import by_task
from .whole_frames import passable_requests, passes_unseen, whole_fetch
from .window import Window

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from protocol.fetch_glance import SessionAt
    from protocol.fetch_request import FetchRequest
    from protocol.headers import RequestHead

    from ..settings import LimitSettings
    from ..throttle.decision import Decision, Demand
    from .exchange import Exchange
    from .leg import Leg

T = TypeVar("T")

WINDOW_BYTES = 128 * 1024
"""Holds any header (client ids are at most 32 KiB) and the Fetch of some thousand partitions; grows for more."""
TLS_HANDSHAKE = b"\x16\x03"
GLANCE_BYTES = 32
"""Of a body: they hold the replica id and the fetch session, where a version has them at the beginning."""
LEAST_READ_BYTES = 64
"""Less is not waited for: most headers are shorter."""
AFTER_CORRELATION_ID = REQUEST_CORRELATION_ID_AT + 4


class RequestRelay:
    """One direction of one connection; `run` ends when the follower has finished sending."""

    def __init__(self, exchange: Exchange, *, follower: Leg, leader: Leg, limits: LimitSettings) -> None:
        self._exchange = exchange
        self._follower = follower
        self._leader = leader
        self._limits = limits
        self._window = self.window = Window(follower, WINDOW_BYTES)
        self._eager = Eager(self._window, leader, self._take, count=exchange.passed_request)
        self._left: tuple[Demand | None, Hold | Answer] | None = None
        """Decided, and not to be done at once."""
        self._last: tuple[bytes, bytes, FetchRequest] | None = None
        """What came before and after the correlation id of the last replica's Fetch, and what it was."""

    async def run(self) -> None:
        """Raises OSError when either side is broken; bad framing turns the connection opaque instead."""
        exchange, window = self._exchange, self._window
        if await window.fill(len(TLS_HANDSHAKE)) and window.peek(len(TLS_HANDSHAKE)) == TLS_HANDSHAKE:
            exchange.turn_opaque(Undecoded.TLS)
        # The other direction may find meanwhile that frames cannot be told apart.
        while not exchange.opaque and await self._next() and not exchange.opaque:
            if passable := passable_requests(window, exchange):
                await send(window, self._leader, passable, exchange.passed_request)
                continue
            try:
                size = frame_size(window.buffer, window.start, maximum=MAX_FRAME_BYTES)
            except ProtocolError:
                exchange.turn_opaque(Undecoded.FRAMING)
            else:
                await self._frame(size)
        await copy_rest(window, self._leader, exchange.passed_request)
        self._leader.finish_sending()

    async def _next(self) -> bool:
        """Have the beginning of a frame in the window that is not to be taken at once; False at the end."""
        await self._eager.wait()
        while self._left is not None:
            (demand, decision), self._left = self._left, None
            await self._do(demand, decision)
            await self._eager.wait()
        if self._exchange.room <= 0:
            await self._by_task(self._exchange.wait_room)
        await self._follower.pause_if_over()
        return await self._window.fill(LENGTH_PREFIX_BYTES)

    def _take(self) -> bool:
        """Deal with what is whole at the window's start, if that needs no waiting."""
        exchange, window = self._exchange, self._window
        if exchange.opaque or exchange.room <= 0:
            return False
        if not exchange.link.throttle.is_idle:
            frame = whole_fetch(window, exchange)
            if frame is not None:
                return self._take_fetch(frame)
        passable = passable_requests(window, exchange)
        if not passable:
            return False
        data = window.view(passable)
        window.take(passable)
        return self._eager.send(data)

    def _take_fetch(self, frame: bytes) -> bool:
        exchange, window, size = self._exchange, self._window, LENGTH_PREFIX_BYTES + len(frame)
        try:
            request = self._parsed(frame)
        except ProtocolError:
            return False
        if request.replica_id < 0 or size > self._limits.max_request_bytes:
            return False
        as_it_came = window.view(size)
        window.take(size)
        demand, decision = self._decided(frame, request)
        if not isinstance(decision, Forward):
            self._left = demand, decision
            return False
        exchange.sent_whole(request_correlation_id(frame), decision.outlook)
        return self._eager.send(as_it_came if decision.frame is None else with_length(decision.frame))

    def _decided(self, frame: bytes, request: FetchRequest) -> tuple[Demand | None, Decision]:
        """A replica's Fetch has come: what is to be done about it now."""
        exchange, now = self._exchange, trio.current_time()
        exchange.fetched(request.head.api_version)
        replicas = exchange.link.replicas
        before = replicas.not_remembered
        demand = exchange.link.begin(frame, request, now)
        if replicas.not_remembered != before:
            exchange.pass_undecoded(Undecoded.TOO_MANY_REPLICAS)
        if isinstance(demand, Answer):
            return None, demand
        return demand, exchange.link.decide(demand, now, may_hold=not exchange.draining)

    async def _frame(self, size: int) -> None:
        exchange = self._exchange
        exchange.begins_reading()
        head = await self._head(size)
        exchange.has_read()
        if head is None or exchange.correlator.is_token(head):
            if exchange.correlator.state is State.KAFKA:
                exchange.pass_undecoded(Undecoded.MALFORMED_REQUEST)
            exchange.correlator.sent_token()
            await self._pass(size)
        elif head.api_key == API_FETCH and head.api_version in SUPPORTED_FETCH_VERSIONS:
            await self._fetch(head, size)
        else:
            if head.api_key == API_FETCH:
                self._not_supported()
            await self._pass_on(head, size, expects_response=await self._expects_response(head, size))

    async def _pass_on(self, head: RequestHead, size: int, *, expects_response: bool = True) -> None:
        """The request goes on as it comes, and nothing is to be done about its answer."""
        self._exchange.sent(head, expects_response=expects_response)
        await self._pass(size)

    async def _pass(self, size: int) -> None:
        total = LENGTH_PREFIX_BYTES + size
        await copy(self._window, self._leader, total, self._exchange.passed_request)

    async def _head(self, size: int) -> RequestHead | None:
        """Return the frame's header, reading only as much of the frame as that takes; None if it has none.

        One that does not fit the window is none: tagged fields may claim any size, and no memory for it.
        """
        window = self._window
        while True:
            start = window.start + LENGTH_PREFIX_BYTES
            held = min(window.size - LENGTH_PREFIX_BYTES, size)
            try:
                head = peek_request(window.buffer, start, start + held)
            except ProtocolError:
                return None
            if head is not None or held == size or not await self._read_on(size):
                return head

    async def _read_on(self, size: int) -> bool:
        """Have more of the frame in the window; False if it ends, or the window is full.

        Twice as much, or all of it: what did not suffice is looked at again from its beginning, so a header that comes
        byte by byte is looked at about ten times instead of once for each of its bytes.
        """
        window = self._window
        wanted = min(max(2 * window.size, LEAST_READ_BYTES), LENGTH_PREFIX_BYTES + size, window.capacity)
        return window.size < wanted and await window.fill(wanted)

    async def _fetch(self, head: RequestHead, size: int) -> None:
        """A consumer's passes, a replica's is decided unless nothing can come of it."""
        exchange, window, start, total = self._exchange, self._window, self._window.start, LENGTH_PREFIX_BYTES + size
        shows_replica = head.api_version <= LAST_VERSION_WITH_REPLICA_ID
        await window.fill(min(head.body_at - start + GLANCE_BYTES if shows_replica else window.capacity, total))
        if window.start != start:
            head = head._replace(body_at=head.body_at - start + window.start)
        end = min(window.end, window.start + total)
        replica_id = peek_replica_id(head, window.buffer, end)
        is_consumers = shows_replica and (replica_id is None or replica_id < 0)
        if is_consumers or passes_unseen(exchange, head, window.buffer, end, is_whole=end - window.start == total):
            await self._pass_on(head, size)
        else:
            await self._replica_fetch(head, size, peek_session(head, window.buffer, end))

    async def _expects_response(self, head: RequestHead, size: int) -> bool:
        window = self._window
        body_offset = head.body_at - window.start
        while True:
            end = min(window.end, window.start + LENGTH_PREFIX_BYTES + size)
            at = head._replace(body_at=window.start + body_offset)
            try:
                expects = expects_response(at, window.buffer, end)
            except ProtocolError:
                return True
            if expects is not None:
                return expects
            if end - window.start == LENGTH_PREFIX_BYTES + size or not await self._read_on(size):
                return True

    async def _replica_fetch(self, head: RequestHead, size: int, session: SessionAt | None) -> None:
        """Read the request whole and decide it, if it can be understood and is a replica's."""
        read = await self._read(size, session)
        if read is None or read[1].replica_id < 0:
            await self._pass_on(head, size)
            return
        self._window.take(LENGTH_PREFIX_BYTES + size)
        await self._follower.pause_if_over()
        await self._do(*self._decided(*read))

    async def _read(self, size: int, session: SessionAt | None) -> tuple[bytes, FetchRequest] | None:
        """Read the request whole, which stays in the window; None if it cannot be understood and so passes as it is.

        Raises ProtocolError if it must not pass: it may go on with a fetch session that has been altered.
        """
        window = self._window
        if size > self._limits.max_request_bytes:
            self._not_understood(Undecoded.REQUEST_TOO_LARGE, session)
            return None
        if not self._exchange.buffers.reserve(size):
            self._not_understood(Undecoded.MEMORY, session)
            return None
        self._exchange.begins_reading()
        try:
            if not await window.fill(LENGTH_PREFIX_BYTES + size):
                return None
            start = window.start + LENGTH_PREFIX_BYTES
            frame = window.buffer[start : start + size]
            return frame, self._parsed(frame)
        except ProtocolError:
            self._not_understood(Undecoded.MALFORMED_REQUEST, session)
            return None
        finally:
            self._exchange.has_read()
            self._exchange.buffers.release(size)

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

    async def _do(self, demand: Demand | None, decision: Decision) -> None:
        """Hold the request if need be, then forward it or answer it. Without a `demand` it can only be answered."""
        exchange = self._exchange
        with exchange.deciding():
            if demand is not None and isinstance(decision, Hold):
                decision = await self._by_task(partial(self._hold, demand, decision))
            if demand is not None and isinstance(decision, Forward):
                exchange.sent_whole(demand.correlation_id, decision.outlook)
                message = with_length(demand.frame if decision.frame is None else decision.frame)
                await self._leader.send_all(message)
                exchange.passed_request(len(message))
            elif isinstance(decision, Answer):
                if exchange.in_flight:
                    await self._by_task(exchange.wait_answered)
                message = with_length(decision.frame)
                await self._follower.send_all(message)
                exchange.passed_response(len(message))

    async def _by_task(self, errand: Callable[[], Awaitable[T]]) -> T:
        """What waits for anything but a leg is waited for by Trio."""
        return await (by_task(errand) if self._follower.polled else errand())

    async def _hold(self, demand: Demand, decision: Hold) -> Forward | Answer:
        """Wait until something may be fetched, the follower's max_wait_ms is over, or a drain begins."""
        exchange, statistics = self._exchange, self._exchange.statistics
        began = trio.current_time()
        statistics.held_requests += 1
        try:
            decided: Forward | Answer | Hold = decision
            while isinstance(decided, Hold):
                with trio.move_on_at(decided.until):
                    await exchange.changes.wait()
                decided = exchange.link.decide(demand, trio.current_time(), may_hold=not exchange.draining)
            return decided
        finally:
            held = trio.current_time() - began
            statistics.held_requests -= 1
            statistics.hold_seconds.observe(held)
            exchange.held_seconds += held
