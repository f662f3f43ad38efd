"""Openers of URLs, for what asks others over HTTP: a command asks a sidecar, a sidecar asks Prometheus.

Blocking. Invariants: nobody is sent elsewhere by an answer, since a token or a certificate is for one server alone;
without a context nothing is read of whom to trust, which is 150 certificates, where no TLS is spoken; and whoever sends
headers, or the reason of a refusal, byte after byte is given up like one who sends nothing.
"""

from __future__ import annotations

import functools
import http.client
import io
import time
import urllib.request
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import socket
    import ssl


class NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect is the error that its status says."""

    def redirect_request(self, *_: object) -> None:
        return None


def opener(context: ssl.SSLContext | None = None, *, most_timeouts: float = 1.0) -> urllib.request.OpenerDirector:
    """For ``http`` alone, or with a context for ``https`` as well; by the proxies that the environment names.

    The time-out that something is opened with is of each piece of the answer, and so many of it of all the answer: then
    TimeoutError is raised. `urllib.request.build_opener` would make a context of its own at once, whatever is opened by
    it.
    """
    made = urllib.request.OpenerDirector()
    handlers: list[urllib.request.BaseHandler] = [
        urllib.request.ProxyHandler(),
        urllib.request.UnknownHandler(),
        _HttpHandler(most_timeouts),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        NoRedirects(),
    ]
    if context is not None:
        handlers.append(_HttpsHandler(context, most_timeouts))
    for handler in handlers:
        made.add_handler(handler)
    return made


def read_whole(answer: http.client.HTTPResponse, *, most_bytes: int) -> bytes:
    """The content of an answer, no more than that of it. Raises OSError, TimeoutError among them."""
    content = bytearray()
    while piece := answer.read1(most_bytes - len(content)):
        content += piece
    return bytes(content)


class _HttpHandler(urllib.request.HTTPHandler):
    def __init__(self, most_timeouts: float) -> None:
        super().__init__()
        self._most_timeouts = most_timeouts

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(functools.partial(_connection, http.client.HTTPConnection, self._most_timeouts), req)


class _HttpsHandler(urllib.request.HTTPSHandler):
    def __init__(self, context: ssl.SSLContext, most_timeouts: float) -> None:
        super().__init__()
        self._trusted = context
        self._most_timeouts = most_timeouts

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        connection = functools.partial(_connection, http.client.HTTPSConnection, self._most_timeouts)
        return self.do_open(connection, req, context=self._trusted)


def _connection(
    kind: type[http.client.HTTPConnection], most_timeouts: float, host: str, *, timeout: float, **others: Any
) -> http.client.HTTPConnection:
    made = kind(host, timeout=timeout, **others)
    within = most_timeouts * timeout
    deadline = time.monotonic() + within
    made.response_class = functools.partial(_Answer, deadline=deadline, within=within)  # type: ignore[assignment]
    return made


class _Answer(http.client.HTTPResponse):
    """One whose every byte comes before a deadline, of its headers as well."""

    def __init__(self, sock: socket.socket, *others: Any, deadline: float, within: float, **named: Any) -> None:
        super().__init__(sock, *others, **named)
        self.fp = io.BufferedReader(_Until(self.fp.detach(), sock, deadline, within))


class _Until(io.RawIOBase):
    """What a socket says until a deadline. Owns `pieces`, which reads from `sock`."""

    def __init__(self, pieces: io.RawIOBase, sock: socket.socket, deadline: float, within: float) -> None:
        self._pieces = pieces
        self._sock = sock
        self._timeout = sock.gettimeout() or within
        self._deadline = deadline
        self._within = within

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise self._late()
        self._sock.settimeout(min(self._timeout, left))
        try:
            return self._pieces.readinto(buffer)
        except TimeoutError as error:
            raise (self._late() if left < self._timeout else error) from None

    def _late(self) -> TimeoutError:
        return TimeoutError(f"the answer does not end: expected all of the answer within {self._within:g} s")

    def close(self) -> None:
        self._pieces.close()
        super().close()
