"""An HTTP connection: requests in, answers out, until either side has had enough.

    receive head ─▶ check ─▶ receive body ─▶ handler ─▶ send ─▶ (again | linger, close)

h11 knows the protocol (`_h11` is its state machine); every wait has an end (`Bounds`), everything that works does so in
a turn (`LoopShare`). Knows routes and answers, not their content.

Invariant: `serve` raises nothing but a cancellation from outside, and leaves the socket closed.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

import h11
import trio

from .authorization import subject_of
from .encrypted import EncryptedStream
from .request_checks import (
    HttpRefusal,
    HttpStatistics,
    RefusedError,
    check_size,
    checked,
    length_of,
    printable,
    refusal,
    response_of,
)
from .routing import Answer, Route, Routes, json_answer

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator

    from .authorization import Trust
    from .loop_share import LoopShare
    from .request_checks import Bounds

_RECEIVE_BYTES = 16 * 1024
_READING = "reading a request"
_GONE = (trio.BrokenResourceError, trio.ClosedResourceError)


class Service(NamedTuple):
    """The parts that all HTTP connections share."""

    routes: Routes
    trust: Trust
    bounds: Bounds
    turn: LoopShare
    statistics: HttpStatistics
    waits: Callable[[], None]
    """The callback for a connection that begins to wait for its peer."""
    refused: Callable[[HttpRefusal, str, str], None]
    """The callback for a refusal, with its reason, the peer and the finding, for metrics and log."""
    failed: Callable[[Exception, str], None]
    """The callback for internal errors, with where they showed."""
    tls: Callable[[], ssl.SSLContext] | None = None
    """The TLS context of the next connection; None: connections are in plaintext."""


class HttpConnection:
    """An HTTP connection. Call `serve` once."""

    def __init__(self, stream: trio.SocketStream, peer: str, service: Service) -> None:
        self.waits_since: float | None = None
        """The time at which the connection began to wait for its peer; None while one of its requests is being
        answered."""
        self._transport = stream
        self._encrypted = None if service.tls is None else EncryptedStream(stream, service.tls(), service.turn)
        self._stream = self._encrypted or stream
        self._peer = peer
        self._subject = ""
        self._service = service
        self._bounds = service.bounds
        self._h11 = h11.Connection(h11.SERVER, max_incomplete_event_size=service.bounds.head_bytes)
        self._place = _READING
        self._head_alone = False
        self._scope = trio.CancelScope()

    def make_room(self) -> None:
        """End the connection now, because others need its place."""
        self._service.refused(HttpRefusal.MADE_ROOM, self._peer, "")
        self._scope.cancel()

    async def serve(self) -> None:
        try:
            with self._scope:
                await self._serve()
        except _GONE:
            pass
        except Exception as error:  # noqa: BLE001 - the others share a nursery with this connection
            self._service.failed(error, self._place)
        finally:
            self._transport.socket.close()

    async def _serve(self) -> None:
        try:
            await self._shake_hands()
            await self._converse()
        except _GONE:
            raise
        except RefusedError as refused:
            self._service.refused(refused.reason, self._peer, refused.found)
            answer = refused.answer
        except Exception as error:  # noqa: BLE001 - whatever a handler or h11 raises costs this connection alone
            self._service.refused(HttpRefusal.FAILED, self._peer, "")
            self._service.failed(error, self._place)
            answer = json_answer(500, {"error": "this is a defect of the sidecar's; its log has more"})
        else:
            answer = None
        if answer is not None and self._h11.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            with suppress(RefusedError):
                await self._send(answer, last=True)
        await self._linger()

    async def _shake_hands(self) -> None:
        if self._encrypted is None:
            return
        self._wait_for_peer()
        with self._within(self._bounds.head_seconds, HttpRefusal.SLOW_HEAD, None):
            try:
                await self._encrypted.shake_hands()
            except trio.BrokenResourceError as error:
                found = printable(f"no TLS: {error.__cause__ or error}")
                raise RefusedError(HttpRefusal.MALFORMED, None, found) from error
        self._subject = subject_of(self._encrypted.peer_certificate())
        self.waits_since = None

    async def _converse(self) -> None:
        """Return when either side wants no further request on this connection."""
        patience = self._bounds.head_seconds
        while (head := await self._receive_head(patience)) is not None:
            self._head_alone = head.method == b"HEAD"
            answer = await self._answer(head)
            await self._send(answer)
            if self._h11.our_state is not h11.DONE or self._h11.their_state is not h11.DONE:
                return
            self._h11.start_next_cycle()
            self._head_alone = False
            self._place = _READING
            patience = self._bounds.idle_seconds

    async def _receive_head(self, patience: float) -> h11.Request | None:
        """Return the next request, None if none has begun within `patience` seconds or the peer has closed."""
        if not self._h11.trailing_data[0]:
            with trio.move_on_after(patience) as slept:
                await self._receive()
            if slept.cancelled_caught:
                return None
        with self._within(self._bounds.head_seconds, HttpRefusal.SLOW_HEAD, 408, "the request did not come in time"):
            while True:
                async with self._service.turn:
                    event = self._next_of_head()
                if event is not h11.NEED_DATA:
                    break
                await self._receive()
        return event if isinstance(event, h11.Request) else None

    def _next_of_head(self) -> object:
        """Return h11's next event. The size of the bytes received is checked first, because h11 reads a head in one
        step."""
        check_size(self._h11.trailing_data[0], self._bounds)
        return self._next_event()

    def _next_event(self) -> object:
        try:
            return self._h11.next_event()
        except h11.RemoteProtocolError as error:
            found = printable(str(error))
            # The error is a local variable where h11 raises it, so with its traceback it refers to itself, and would
            # stay.
            error.__traceback__ = None
            raise refusal(HttpRefusal.MALFORMED, error.error_status_hint, f"not HTTP/1.1: {found}", found) from error

    def _wait_for_peer(self) -> None:
        self.waits_since = trio.current_time()
        self._service.waits()

    async def _receive(self) -> None:
        self._wait_for_peer()
        received = await self._stream.receive_some(_RECEIVE_BYTES)
        self.waits_since = None
        self._h11.receive_data(bytes(received))

    async def _answer(self, head: h11.Request) -> Answer:
        request = checked(head, self._peer, self._subject, self._service.trust)
        route = self._service.routes.find(request.method, request.path)
        limit = self._bounds.body_bytes
        if not request.by_our_name and not (isinstance(route, Route) and route.any_host):
            host = printable(request.host)
            error = f"{host} is no name of this sidecar's; use its address, or add the name to http.allowed_hosts"
            raise refusal(HttpRefusal.FOREIGN_HOST, 421, error, host)
        if isinstance(route, Route):
            self._place = f"{route.method} {route.path}"
            denied = route.admit(request)
            if denied is not None:
                raise RefusedError(HttpRefusal.NOT_ADMITTED, denied)
            limit = limit if route.max_body_bytes is None else route.max_body_bytes
        body = await self._receive_body(length_of(head), limit)
        if isinstance(route, Answer):
            return route
        with self._within(self._bounds.handler_seconds, HttpRefusal.SLOW_HANDLER, 503, "no answer was found in time"):
            return await route.handler(request._replace(body=body))

    async def _receive_body(self, length: int, limit: int) -> bytes:
        if length > limit:
            raise refusal(HttpRefusal.BODY_TOO_LARGE, 413, f"a body of {length} bytes; at most {limit} are read here")
        body = bytearray()
        with self._within(self._bounds.body_seconds, HttpRefusal.SLOW_BODY, 408, "the body did not come in time"):
            if length and self._h11.they_are_waiting_for_100_continue:
                await self._send_bytes(self._h11.send(h11.InformationalResponse(status_code=100, headers=[])) or b"")
            while True:
                async with self._service.turn:
                    event = self._next_event()
                if isinstance(event, h11.Data):
                    body += event.data
                elif isinstance(event, h11.EndOfMessage):
                    return bytes(body)
                else:
                    await self._receive()

    async def _send(self, answer: Answer, *, last: bool = False) -> None:
        """Send an answer as a whole. Raises RefusedError: its peer does not read."""
        async with self._service.turn:
            message = b"".join(self._h11.send(event) or b"" for event in self._events(answer, last=last))
            self._service.statistics.answers[answer.status] += 1
        with self._within(self._bounds.answer_seconds, HttpRefusal.SLOW_READER, None):
            await self._send_bytes(message)

    def _events(self, answer: Answer, *, last: bool) -> list[h11.Event]:
        body = [] if self._head_alone else [h11.Data(data=answer.body)]
        return [response_of(answer, last=last), *body, h11.EndOfMessage()]

    async def _send_bytes(self, message: bytes) -> None:
        self._wait_for_peer()
        await self._stream.send_all(message)
        self.waits_since = None

    async def _linger(self) -> None:
        """Close our side, and let go of what is still on its way here: a socket that is closed with bytes unread
        takes back what was sent (RFC 9112, 9.6)."""
        await self._transport.send_eof()
        self._wait_for_peer()
        left = self._bounds.linger_bytes
        with trio.move_on_after(self._bounds.linger_seconds):
            while left > 0 and (received := await self._transport.receive_some(4 * _RECEIVE_BYTES)):
                left -= len(received)

    @contextmanager
    def _within(self, seconds: float, reason: HttpRefusal, status: int | None, error: str = "") -> Iterator[None]:
        """Raise RefusedError if the block takes longer."""
        try:
            with trio.fail_after(seconds):
                yield
        except trio.TooSlowError as late:
            answer = None if status is None else json_answer(status, {"error": f"{error}: {seconds:g} s"})
            raise RefusedError(reason, answer) from late
