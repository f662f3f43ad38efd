"""Openers of URLs, for what asks others over HTTP: a command asks a sidecar.

Blocking. Invariants: a redirect is never followed, since a token or a certificate is for one server alone. Without a
context no authorities are loaded, which are some 150 certificates: no TLS is spoken then. An answer is waited for no
longer than it may take; that includes its headers, a refusal, and what a proxy says.
"""

from __future__ import annotations

import http.client
import io
import ssl
import time
import urllib.request
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable


class _Timed(io.RawIOBase):
    """Reads from a socket for no longer than `timeouts` times its time-out in all. The socket's own time-out is for one
    piece and begins again with every byte, so a server that sends a byte now and then would be waited for without
    end."""

    def __init__(self, sock: socket.socket, timeouts: float) -> None:
        self._sock, self._raw = sock, sock.makefile("rb", buffering=0)
        self._patience = sock.gettimeout() or 0.0
        self._seconds = timeouts * self._patience
        self._deadline = time.monotonic() + self._seconds

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        if self._patience:
            self._sock.settimeout(max(min(self._deadline - time.monotonic(), self._patience), 0.001))
        try:
            count = self._raw.readinto(buffer)
        except TimeoutError:
            self._refuse_if_late()
            raise
        self._refuse_if_late()
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()

    def _refuse_if_late(self) -> None:
        if self._patience and time.monotonic() > self._deadline:
            raise TimeoutError(f"the answer does not end: expected all of the answer within {self._seconds:g} s")


class _TimedResponse(http.client.HTTPResponse):
    def __init__(self, sock: socket.socket, *args: Any, timeouts: float, **named: Any) -> None:
        super().__init__(sock, *args, **named)
        self.fp.close()
        self.fp = io.BufferedReader(_Timed(sock, timeouts))


def _connecting(
    connection: Callable[..., http.client.HTTPConnection], timeouts: float
) -> Callable[..., http.client.HTTPConnection]:
    def made(*args: Any, **named: Any) -> http.client.HTTPConnection:
        one = connection(*args, **named)
        one.response_class = partial(_TimedResponse, timeouts=timeouts)  # type: ignore[assignment]  # said to be a class
        return one

    return made


class _Http(urllib.request.HTTPHandler):
    def __init__(self, timeouts: float) -> None:
        super().__init__()
        self._connection = _connecting(http.client.HTTPConnection, timeouts)

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(self._connection, req)


class _Encrypted(http.client.HTTPSConnection):
    """A handler of HTTPS that reports why a server refused the client's certificate.

    A server that refuses it says so and closes; then the request cannot be sent, and that error says nothing of why. In
    45 to 60 of 300 requests without a certificate, for a server that wants one, the request was what failed.
    """

    def send(self, data: Any) -> None:
        try:
            super().send(data)
        except (ConnectionError, ssl.SSLError):  # not a time-out: that would be waited for twice
            self._raise_alert()
            raise

    def _raise_alert(self) -> None:
        """Raise the ssl.SSLError that the server has sent, if it has."""
        if isinstance(self.sock, ssl.SSLSocket):
            with suppress(ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionError, TimeoutError):
                self.sock.recv(1)


class _Https(urllib.request.HTTPSHandler):
    def __init__(self, context: ssl.SSLContext, timeouts: float) -> None:
        super().__init__(context=context)
        self._connection = _connecting(partial(_Encrypted, context=context), timeouts)

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(self._connection, req)


class NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect is the error that its status says."""

    def redirect_request(self, *_: object) -> None:
        return None


def opener(context: ssl.SSLContext | None = None, *, timeouts: float = 1) -> urllib.request.OpenerDirector:
    """Return an opener for ``http``, and with a context for ``https`` as well. It uses the proxies that the environment
    names. An answer may take `timeouts` times the time-out of its request, from the moment it is first waited for.

    `urllib.request.build_opener` is not used: it makes a context at once, even if only ``http`` is opened.
    """
    made = urllib.request.OpenerDirector()
    handlers: list[urllib.request.BaseHandler] = [
        urllib.request.ProxyHandler(),
        urllib.request.UnknownHandler(),
        _Http(timeouts),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        NoRedirects(),
    ]
    if context is not None:
        handlers.append(_Https(context, timeouts))
    for handler in handlers:
        made.add_handler(handler)
    return made


def read_whole(answer: http.client.HTTPResponse, *, most_bytes: int) -> bytes:
    """Return the content of a response, without reading beyond it. Raises OSError, TimeoutError for one that does not
    end."""
    content = bytearray()
    while piece := answer.read1(most_bytes - len(content)):
        content += piece
    return bytes(content)
