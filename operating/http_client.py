"""Connections to a sidecar over HTTP: in plaintext, over TLS, or to the control.sock of this host.

Blocking. Invariants: an answer is waited for no longer than it may take, its headers and a refusal included; nobody is
asked but the server that the URL names, since a token or a certificate is for a single server: no redirect is
followed, and no proxy of the environment is used.
"""

from __future__ import annotations

import http.client
import io
import socket
import ssl
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from proxy.control.directory import control_path, short_path

if TYPE_CHECKING:
    from collections.abc import Callable

UNIX = "unix:"
"""The beginning of the URL of a sidecar on this host, before the directory of its private sockets: unix:/run/…/101."""
MAX_TIMEOUTS = 5
"""The number of time-outs after which an answer that goes on and on is given up."""


def connection_to(
    url: str, page: str, timeout_seconds: float, context: Callable[[], ssl.SSLContext]
) -> tuple[http.client.HTTPConnection, str]:
    """Return the connection for a page (``/overrides/undo``) of a URL, not connected yet, and the path to ask for.

    `context` is called for https alone: trusted authorities are some 150 certificates to read. Raises ValueError for a
    URL without a host, or with a port that is none.
    """
    if url.startswith(UNIX):
        return _Control(Path(url.removeprefix(UNIX)), timeout_seconds), page
    parts = urlsplit(url)
    if not parts.hostname:
        raise ValueError("no host given")
    path = parts.path.rstrip("/") + page
    if parts.scheme == "https":
        return _Encrypted(parts.hostname, parts.port, timeout=timeout_seconds, context=context()), path
    return _Plain(parts.hostname, parts.port, timeout=timeout_seconds), path


def read_whole(answer: http.client.HTTPResponse, *, most_bytes: int) -> bytes:
    """Return the content of a response, without reading beyond it. Raises OSError, TimeoutError for one that does not
    end."""
    content = bytearray()
    while piece := answer.read1(most_bytes - len(content)):
        content += piece
    return bytes(content)


class _Timed(io.RawIOBase):
    """Reads from a socket for no longer than `MAX_TIMEOUTS` times its time-out in all. The socket's own time-out is
    for one piece and begins again with every byte, so a server that sends a byte now and then would be waited for
    without end."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock, self._raw = sock, sock.makefile("rb", buffering=0)
        self._patience = sock.gettimeout() or 0.0
        self._seconds = MAX_TIMEOUTS * self._patience
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
    def __init__(self, sock: socket.socket, *args: Any, **named: Any) -> None:
        super().__init__(sock, *args, **named)
        self.fp.close()
        self.fp = io.BufferedReader(_Timed(sock))


class _Plain(http.client.HTTPConnection):
    response_class = _TimedResponse


class _Control(_Plain):
    """HTTP to the control.sock in a directory."""

    def __init__(self, directory: Path, timeout_seconds: float) -> None:
        super().__init__("localhost", timeout=timeout_seconds)
        self._path = control_path(directory)

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        with short_path(self._path) as path:
            self.sock.connect(path)


class _Encrypted(http.client.HTTPSConnection):
    """HTTPS that reports why a server refused the client's certificate.

    A server that refuses it says so and closes; then the request cannot be sent, and that error says nothing of why. In
    45 to 60 of 300 requests without a certificate, for a server that wants one, the request was what failed.
    """

    response_class = _TimedResponse

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
