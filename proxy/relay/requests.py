"""From the follower to the leader: frame by frame, opaque unless it is a replica's Fetch that may be throttled.

A Fetch that may be throttled is read whole (it is small: 16 bytes a partition), decided, and forwarded, held or
answered here. Everything else is passed on as it arrives. While a request is held nothing more is read: that is
the back-pressure.

Invariant: what is passed undecoded is passed byte for byte, counted, and logged once per connection.
"""

from __future__ import annotations

import struct
from dataclasses import replace
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
from protocol.headers import peek_request

from ..throttle.link import Answer, Forward, Hold
from .copying import copy, copy_rest, send
from .exchange import MAX_FRAME_BYTES, Undecoded
from .poller import by_task
from .whole_frames import passable_requests, passes_unseen
from .window import Window

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from protocol.fetch_glance import SessionAt
    from protocol.fetch_request import FetchRequest
    from protocol.headers import RequestHead

    from ..settings import LimitSettings
    from ..throttle.link import Demand
    from .exchange import Exchange
    from .leg import Leg

T = TypeVar("T")

WINDOW_BYTES = 128 * 1024
"""Holds any header (client ids are at most 32 KiB) and the Fetch of some thousand partitions; grows for more."""
TLS_HANDSHAKE = b"\x16\x03"
GLANCE_BYTES = 32
"""Of a body: they hold the replica id and the fetch session, where a version has them at the beginning."""
CORRELATION_ID = struct.Struct(">i")
CORRELATION_ID_AT = 4


class RequestRelay:
    """One direction of one connection; `run` ends when the follower has finished sending."""

    def __init__(self, exchange: Exchange, *, follower: Leg, leader: Leg, limits: LimitSettings) -> None:
        self._exchange = exchange
        self._follower = follower
        self._leader = leader
        self._limits = limits
        self._window = Window(follower, WINDOW_BYTES)
        self._last: tuple[bytes, FetchRequest] | None = None

    async def run(self) -> None:
        """Raises OSError when either side is broken; bad framing turns the connection opaque instead."""
        exchange, window = self._exchange, self._window
        if await window.fill(len(TLS_HANDSHAKE)) and window.peek(len(TLS_HANDSHAKE)) == TLS_HANDSHAKE:
            exchange.turn_opaque(Undecoded.TLS)
        while not exchange.opaque and await window.fill(LENGTH_PREFIX_BYTES):
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

    async def _frame(self, size: int) -> None:
        exchange = self._exchange
        head = await self._head(size)
        if head is None or exchange.correlator.is_token(head):
            if exchange.correlator.state is State.KAFKA:
                exchange.pass_undecoded(Undecoded.MALFORMED_REQUEST)
            exchange.correlator.sent_token()
            await self._pass(size)
        elif head.api_key == API_FETCH and head.api_version in SUPPORTED_FETCH_VERSIONS:
            await self._fetch(head, size)
        else:
            if head.api_key == API_FETCH and not exchange.link.throttle.is_idle:
                exchange.pass_undecoded(Undecoded.UNSUPPORTED_VERSION)
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
            if head is not None or held == size or not await self._read_on():
                return head

    async def _read_on(self) -> bool:
        """Have more of the frame in the window; False if it ends, or the window is full."""
        window = self._window
        return window.size < window.capacity and await window.fill(window.size + 1)

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
            if end - window.start == LENGTH_PREFIX_BYTES + size or not await self._read_on():
                return True

    async def _replica_fetch(self, head: RequestHead, size: int, session: SessionAt | None) -> None:
        """Read the request whole and decide it, if it can be understood and is a replica's."""
        exchange = self._exchange
        read = await self._read(size, session)
        if read is None or read[1].replica_id < 0:
            await self._pass_on(head, size)
            return
        frame, request = read
        exchange.fetched(head.api_version)
        self._window.take(LENGTH_PREFIX_BYTES + size)
        with exchange.deciding():
            begun = exchange.link.begin(frame, request, trio.current_time())
            decision = begun if isinstance(begun, Answer) else await self._decided(begun)
            await self._do(decision, request.head, frame)

    async def _read(self, size: int, session: SessionAt | None) -> tuple[bytes, FetchRequest] | None:
        """Read the request whole, which stays in the window; None if it cannot be understood and so passes as it is.

        Raises ProtocolError if it must not pass: it may go on with a fetch session that has been altered.
        """
        window = self._window
        if size > self._limits.max_request_bytes:
            self._not_understood(Undecoded.REQUEST_TOO_LARGE, session)
            return None
        if not await window.fill(LENGTH_PREFIX_BYTES + size):
            return None
        start = window.start + LENGTH_PREFIX_BYTES
        frame = window.buffer[start : start + size]
        try:
            return frame, self._parsed(frame)
        except ProtocolError:
            self._not_understood(Undecoded.MALFORMED_REQUEST, session)
            return None

    def _parsed(self, frame: bytes) -> FetchRequest:
        """Before v7 an idle follower asks for the same again and again: but for its correlation id nothing is read."""
        last = self._last
        if last is not None and frame[:CORRELATION_ID_AT] == last[0][:CORRELATION_ID_AT]:
            after = CORRELATION_ID_AT + CORRELATION_ID.size
            if frame[after:] == last[0][after:]:
                (correlation_id,) = CORRELATION_ID.unpack_from(frame, CORRELATION_ID_AT)
                return replace(last[1], head=last[1].head._replace(correlation_id=correlation_id))
        request = parse_fetch_request(frame)
        self._last = (frame, request)
        return request

    def _not_understood(self, reason: Undecoded, session: SessionAt | None) -> None:
        self._exchange.pass_undecoded(reason)
        link = self._exchange.link
        link.forget()
        if link.translator.undecoded(session):
            raise ProtocolError(f"{reason.value}, of a fetch session that is being translated")

    async def _decided(self, demand: Demand) -> Forward | Answer:
        """What is to be done with the request, after holding it if need be."""
        exchange = self._exchange
        decision = exchange.link.decide(demand, trio.current_time(), may_hold=not exchange.draining)
        if isinstance(decision, Hold):
            decision = await self._by_task(partial(self._hold, demand, decision))
        return decision

    async def _do(self, decision: Forward | Answer, head: RequestHead, asked: bytes) -> None:
        """Forward the request, as it was `asked` or as it was decided, or answer it."""
        exchange = self._exchange
        match decision:
            case Forward(frame, outlook):
                exchange.sent(head, expects_response=True, outlook=outlook)
                message = with_length(asked if frame is None else frame)
                await self._leader.send_all(message)
                exchange.passed_request(len(message))
            case Answer(frame):
                if exchange.in_flight:
                    await self._by_task(exchange.wait_answered)
                message = with_length(frame)
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
