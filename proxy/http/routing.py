"""Finds the handler of a request. Requests, answers and routes are values; no socket and no bytes of HTTP.

Invariant: every method and path has a route or an answer that says which there are.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

JSON = "application/json"
TEXT = "text/plain; charset=utf-8"
TOKEN = re.compile(rb"[A-Za-z0-9._~+/=-]+")
"""The bearer tokens that RFC 6750 allows in a header."""
MAX_TOKEN_BYTES = 4096


class Request(NamedTuple):
    """A request, its body read as a whole."""

    method: str
    """The method as it was sent: HEAD is answered by the route of GET."""
    path: str
    """The path without the query."""
    headers: tuple[tuple[str, str], ...] = ()
    """Names in lower case; bytes beyond ASCII as Latin-1."""
    body: bytes = b""
    query: str = ""
    """The text after the question mark."""
    peer: str = ""
    """The address it came from."""
    host: str = ""
    """The name that the request was sent to: the authority of a whole URL, or else the Host header."""
    subject: str = ""
    """The distinguished name in the certificate that its sender has shown, as `authorization` has it; "" without
    one."""
    by_our_name: bool = True
    """True if `host` is one of our names, or absent: then the page that sent the request cannot be one whose own name
    was rebound to our address (DNS rebinding, `authorization.Trust`)."""

    def header(self, name: str) -> str:
        """Return the values of a header, joined by commas; "" without any. `name` is in lower case."""
        return ",".join(value for found, value in self.headers if found == name)


class Answer(NamedTuple):
    status: int
    body: bytes
    content_type: str = JSON
    headers: tuple[tuple[str, str], ...] = ()
    """The headers beside those that every answer has."""


Handler = Callable[[Request], Awaitable[Answer]]
Admit = Callable[[Request], Answer | None]


class Route(NamedTuple):
    """The handler of a method at a path."""

    method: str
    path: str
    handler: Handler
    """The function that answers; an exception becomes a 500 and one line in the log."""
    max_body_bytes: int | None = None
    """The longest body; None: the default in `Bounds`."""
    any_host: bool = False
    """True if it answers under any host name, for probes."""
    admit: Admit = lambda _: None
    """The check that is made before the body is read, with an empty one: an answer refuses the request and ends the
    connection."""


def json_answer(
    status: int, body: Mapping[str, Any] | msgspec.Struct, *, headers: tuple[tuple[str, str], ...] = ()
) -> Answer:
    """Return `body` as one line of JSON; values that JSON lacks (an infinity) become null or text."""
    return Answer(status, msgspec.json.encode(body, enc_hook=str) + b"\n", headers=headers)


class Routes:
    """The table of all routes."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._paths: dict[str, dict[str, Route]] = {}
        for route in routes:
            self._paths.setdefault(route.path, {})[route.method] = route

    def find(self, method: str, path: str) -> Route | Answer:
        """Return the route, or a 404 that names the paths there are, or a 405 with the methods."""
        methods = self._paths.get(path)
        if methods is None:
            return json_answer(404, {"error": f"no such path: {path}", "paths": list(self._paths)})
        route = methods.get("GET" if method == "HEAD" else method)
        if route is not None:
            return route
        allowed = [each for known in methods for each in (("GET", "HEAD") if known == "GET" else (known,))]
        error = f"{method} is not allowed here; use {' or '.join(methods)}"
        return json_answer(405, {"error": error}, headers=(("allow", ", ".join(allowed)),))
