"""One HTTP connection: requests in, answers out, until either side has had enough.

    receive head ─▶ check ─▶ receive body ─▶ handler ─▶ send ─▶ (again | linger, close)

h11 knows the protocol (`_h11` is its state machine); every wait has an end (`Bounds`), everything that works does so in
a turn (`Turn`). Knows routes and answers, not what they are about.

Invariant: `serve` raises nothing but a cancellation of somebody else's, and leaves the socket closed.
"""

from __future__ import annotations

import re
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from email.utils import formatdate
from http import HTTPStatus
from typing import TYPE_CHECKING

import h11
import trio

from .routing import Answer, Request, Route, Routes, json_answer
from .statistics import HttpStatistics, Refusal
from .writers import subject_of

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator

    from .bounds import Bounds
    from .trust import Trust
    from .turn import Turn

_RECEIVE_BYTES = 16 * 1024
_END_OF_HEAD = re.compile(rb"\n\r?\n")
_READING = "reading a request"
_GONE = (trio.BrokenResourceError, trio.ClosedResourceError)


@dataclass(frozen=True, slots=True)
class Service:
    """What all connections share."""

    routes: Routes
    trust: Trust
    bounds: Bounds
    turn: Turn
    statistics: HttpStatistics
    waits: Callable[[], None]
    """Called whenever a connection begins to wait for its peer."""
    refused: Callable[[Refusal, str, str], None]
    """Called for every refusal with its reason, the peer and what was found, for metrics and log."""
    failed: Callable[[Exception, str], None]
    """Told of a defect, and where it showed."""
    tls: Callable[[], ssl.SSLContext] | None = None
    """What the next connection is encrypted by; None: nothing is."""


class RefusedError(Exception):
    """The request is not served, and the connection ends after `answer`, if there is to be one."""

    def __init__(self, reason: Refusal, answer: Answer | None, found: str = "") -> None:
        super().__init__(reason.value)
        self.reason = reason
        self.answer = answer
        self.found = found


def _refusal(reason: Refusal, status: int, error: str, found: str = "") -> RefusedError:
    return RefusedError(reason, json_answer(status, {"error": error}), found)


class HttpConnection:
    """`serve` it once."""

    def __init__(self, stream: trio.SocketStream, peer: str, service: Service) -> None:
        self.waits_since: float | None = None
        """When the connection began to wait for its peer; None while one of its requests is being answered."""
        self._transport = stream
        self._encrypted = (
            None
            if service.tls is None
            else trio.SSLStream(stream, service.tls(), server_side=True, https_compatible=True)
        )
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
        self._service.refused(Refusal.MADE_ROOM, self._peer, "")
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
            self._service.refused(Refusal.FAILED, self._peer, "")
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
        with self._within(self._bounds.head_seconds, Refusal.SLOW_HEAD, None):
            try:
                await self._encrypted.do_handshake()
            except trio.BrokenResourceError as error:
                found = _printable(f"no TLS: {error.__cause__ or error}")
                raise RefusedError(Refusal.MALFORMED, None, found) from error
        self._subject = subject_of(self._encrypted)
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
        with self._within(self._bounds.head_seconds, Refusal.SLOW_HEAD, 408, "the request did not come in time"):
            while True:
                async with self._service.turn:
                    event = self._next_of_head()
                if event is not h11.NEED_DATA:
                    break
                await self._receive()
        return event if isinstance(event, h11.Request) else None

    def _next_of_head(self) -> object:
        """What h11 makes of what has come. How much that is, is looked at first: it reads a head in one step."""
        held = self._h11.trailing_data[0]
        whole = _END_OF_HEAD.search(held)
        size = len(held) if whole is None else whole.end()
        line_end = held.find(b"\n", 0, size)
        if (size if line_end < 0 else line_end) > self._bounds.request_line_bytes:
            raise _refusal(Refusal.HEAD_TOO_LARGE, 414, f"more than {self._bounds.request_line_bytes} bytes of URI")
        if size > self._bounds.head_bytes:
            raise _refusal(Refusal.HEAD_TOO_LARGE, 431, f"more than {self._bounds.head_bytes} bytes of headers")
        if held.count(b"\n", 0, size) > self._bounds.headers + 2:
            raise _refusal(Refusal.HEAD_TOO_LARGE, 431, f"more than {self._bounds.headers} headers")
        return self._next_event()

    def _next_event(self) -> object:
        try:
            return self._h11.next_event()
        except h11.RemoteProtocolError as error:
            found = _printable(str(error))
            raise _refusal(Refusal.MALFORMED, error.error_status_hint, f"not HTTP/1.1: {found}", found) from error

    def _wait_for_peer(self) -> None:
        self.waits_since = trio.current_time()
        self._service.waits()

    async def _receive(self) -> None:
        self._wait_for_peer()
        received = await self._stream.receive_some(_RECEIVE_BYTES)
        self.waits_since = None
        self._h11.receive_data(bytes(received))

    async def _answer(self, head: h11.Request) -> Answer:
        """Check, read the body, ask the handler."""
        request = self._checked(head)
        route = self._service.routes.find(request.method, request.path)
        limit = self._bounds.body_bytes
        if not request.by_our_name and not (isinstance(route, Route) and route.any_host):
            host = _printable(request.host)
            error = f"{host} is no name of this sidecar's; use its address, or add the name to http.allowed_hosts"
            raise _refusal(Refusal.FOREIGN_HOST, 421, error, host)
        if isinstance(route, Route):
            self._place = f"{route.method} {route.path}"
            refusal = route.admit(request)
            if refusal is not None:
                raise RefusedError(Refusal.NOT_ADMITTED, refusal)
            limit = limit if route.max_body_bytes is None else route.max_body_bytes
        body = await self._receive_body(_length(head), limit)
        if isinstance(route, Answer):
            return route
        with self._within(self._bounds.handler_seconds, Refusal.SLOW_HANDLER, 503, "no answer was found in time"):
            return await route.handler(replace(request, body=body))

    def _checked(self, head: h11.Request) -> Request:
        """The request without its body. Raises RefusedError for what nobody is served with."""
        if head.http_version not in (b"1.0", b"1.1"):
            found = f"HTTP/{head.http_version.decode()}"
            raise _refusal(Refusal.MALFORMED, 505, f"{found} is not spoken here; use HTTP/1.1", found)
        headers = tuple((name.decode("ascii"), value.decode("latin-1")) for name, value in head.headers)
        authority, path = _split(head.target.decode("ascii"))
        request = Request(head.method.decode("ascii"), path, headers, peer=self._peer, subject=self._subject)
        if request.header("transfer-encoding"):
            raise _refusal(Refusal.BODY_WITHOUT_LENGTH, 411, "send Content-Length, not Transfer-Encoding")
        host = authority or request.header("host")
        origin = request.header("origin")
        trust = self._service.trust
        if not trust.may_change(request.method, origin=origin, fetch_site=request.header("sec-fetch-site"), host=host):
            error = "this came from a page of another site; only pages of this one may change anything"
            raise _refusal(Refusal.FOREIGN_ORIGIN, 403, error, _printable(origin))
        # Every browser sends a Host, and HTTP/1.0's programs need not.
        return replace(request, host=host, by_our_name=host == "" or trust.is_our_name(host))

    async def _receive_body(self, length: int, limit: int) -> bytes:
        if length > limit:
            raise _refusal(Refusal.BODY_TOO_LARGE, 413, f"a body of {length} bytes; at most {limit} are read here")
        body = bytearray()
        with self._within(self._bounds.body_seconds, Refusal.SLOW_BODY, 408, "the body did not come in time"):
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
            message = self._encoded(answer, last=last)
            self._service.statistics.answers[answer.status] += 1
        with self._within(self._bounds.answer_seconds, Refusal.SLOW_READER, None):
            await self._send_bytes(message)

    def _encoded(self, answer: Answer, *, last: bool) -> bytes:
        headers = [
            ("date", formatdate(usegmt=True)),
            ("content-type", answer.content_type),
            ("content-length", str(len(answer.body))),
            ("cache-control", "no-store"),
            ("x-content-type-options", "nosniff"),
            *answer.headers,
        ]
        if last:
            headers.append(("connection", "close"))
        reason = HTTPStatus(answer.status).phrase.encode("ascii")
        response = h11.Response(status_code=answer.status, headers=headers, reason=reason)
        events = [response, *([] if self._head_alone else [h11.Data(data=answer.body)]), h11.EndOfMessage()]
        return b"".join(self._h11.send(event) or b"" for event in events)

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
    def _within(self, seconds: float, reason: Refusal, status: int | None, error: str = "") -> Iterator[None]:
        """Raises RefusedError for what takes longer."""
        try:
            with trio.fail_after(seconds):
                yield
        except trio.TooSlowError as late:
            answer = None if status is None else json_answer(status, {"error": f"{error}: {seconds:g} s"})
            raise RefusedError(reason, answer) from late


def _length(head: h11.Request) -> int:
    """The body's length; h11 has made sure that there is at most one Content-Length, and that it is digits."""
    return next((int(value) for name, value in head.headers if name == b"content-length"), 0)


def _split(target: str) -> tuple[str, str]:
    """A request's target as authority, "" as a rule, and path. Proxies are sent whole URLs (RFC 9112, 3.2.2)."""
    authority = ""
    if target.lower().startswith("http://"):
        authority, slash, rest = target[len("http://") :].partition("/")
        target = slash + rest
    return authority, target.partition("?")[0]


def _printable(text: str) -> str:
    """For a log line and an answer: without anything that a terminal obeys, and not longer than a line."""
    return ascii(text[:100])[1:-1]
