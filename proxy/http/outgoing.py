"""Openers of URLs, for what asks others over HTTP: a command asks a sidecar, a sidecar asks Prometheus.

Blocking. Invariant: nobody is sent elsewhere by an answer, since a token or a certificate is for one server alone; and
without a context nothing is read of whom to trust, which is 150 certificates, where no TLS is spoken.
"""

from __future__ import annotations

import time
import urllib.request
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import http.client
    import ssl


class NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect is the error that its status says."""

    def redirect_request(self, *_: object) -> None:
        return None


def opener(context: ssl.SSLContext | None = None) -> urllib.request.OpenerDirector:
    """For ``http`` alone, or with a context for ``https`` as well; by the proxies that the environment names.

    `urllib.request.build_opener` would make a context of its own at once, whatever is opened by it.
    """
    made = urllib.request.OpenerDirector()
    handlers: list[urllib.request.BaseHandler] = [
        urllib.request.ProxyHandler(),
        urllib.request.UnknownHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        NoRedirects(),
    ]
    if context is not None:
        handlers.append(urllib.request.HTTPSHandler(context=context))
    for handler in handlers:
        made.add_handler(handler)
    return made


def read_whole(answer: http.client.HTTPResponse, *, most_bytes: int, seconds: float) -> bytes:
    """The content of an answer, no more than that of it. A time-out is of each piece: of who sends byte after byte it
    would never come. Raises TimeoutError after `seconds`, and OSError."""
    deadline = time.monotonic() + seconds
    content = bytearray()
    while piece := answer.read1(most_bytes - len(content)):
        content += piece
        if time.monotonic() > deadline:
            raise TimeoutError(
                f"the answer does not end: expected all of the answer within {seconds:g} s, found {len(content)} bytes"
            )
    return bytes(content)
