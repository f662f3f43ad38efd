"""Checks whether a request may be served, counts those that are not, and makes the head of an answer. Pure.

`Bounds` has every bound on the cost of one HTTP connection and of all of them together; docs/security.md has the same
figures, and a test compares the two. Invariants: a request that is not served raises RefusedError, with the reason and
with the answer that tells the peer; every counter but `connections` only grows.
"""

from __future__ import annotations

import enum
import re
from collections import Counter
from dataclasses import dataclass, field
from email.utils import formatdate
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple

import h11

from .routing import Answer, Request, json_answer

if TYPE_CHECKING:
    from .authorization import Trust


_END_OF_HEAD = re.compile(rb"\n\r?\n")


class RefusedError(Exception):
    """The request is not served, and the connection ends after `answer`, if any."""

    def __init__(self, reason: HttpRefusal, answer: Answer | None, found: str = "") -> None:
        super().__init__(reason.value)
        self.reason = reason
        self.answer = answer
        self.found = found


def refusal(reason: HttpRefusal, status: int, error: str, found: str = "") -> RefusedError:
    """Return the error that is answered with `status`; `found` is for the log."""
    return RefusedError(reason, json_answer(status, {"error": error}), found)


def check_size(held: bytes, bounds: Bounds) -> None:
    """Check the size of the part of a head that has come, before h11 reads it: h11 reads a whole head in one step.
    Raises RefusedError."""
    whole = _END_OF_HEAD.search(held)
    size = len(held) if whole is None else whole.end()
    line_end = held.find(b"\n", 0, size)
    if (size if line_end < 0 else line_end) > bounds.request_line_bytes:
        raise refusal(HttpRefusal.HEAD_TOO_LARGE, 414, f"more than {bounds.request_line_bytes} bytes of URI")
    if size > bounds.head_bytes:
        raise refusal(HttpRefusal.HEAD_TOO_LARGE, 431, f"more than {bounds.head_bytes} bytes of headers")
    if held.count(b"\n", 0, size) > bounds.headers + 2:
        raise refusal(HttpRefusal.HEAD_TOO_LARGE, 431, f"more than {bounds.headers} headers")


def checked(head: h11.Request, peer: str, subject: str, trust: Trust) -> Request:
    """Return the request without its body. Raises RefusedError if it may not be served."""
    if head.http_version not in (b"1.0", b"1.1"):
        found = f"HTTP/{head.http_version.decode()}"
        raise refusal(HttpRefusal.MALFORMED, 505, f"{found} is not spoken here; use HTTP/1.1", found)
    headers = tuple((name.decode("ascii"), value.decode("latin-1")) for name, value in head.headers)
    authority, path, query = _split(head.target.decode("ascii"))
    request = Request(head.method.decode("ascii"), path, headers, query=query, peer=peer, subject=subject)
    if request.header("transfer-encoding"):
        raise refusal(HttpRefusal.BODY_WITHOUT_LENGTH, 411, "send Content-Length, not Transfer-Encoding")
    host = authority or request.header("host")
    origin = request.header("origin")
    if not trust.may_change(request.method, origin=origin, fetch_site=request.header("sec-fetch-site"), host=host):
        error = "this came from a page of another site; only pages of this one may change anything"
        raise refusal(HttpRefusal.FOREIGN_ORIGIN, 403, error, printable(origin))
    # A request without Host passes. Every browser sends one; a program that speaks HTTP/1.0 need not.
    return request._replace(host=host, by_our_name=host == "" or trust.is_our_name(host))


def response_of(answer: Answer, *, last: bool) -> h11.Response:
    """Return the head of an answer; `last`: the connection ends after it."""
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
    return h11.Response(status_code=answer.status, headers=headers, reason=reason)


def length_of(head: h11.Request) -> int:
    """Return the body's length; h11 has made sure that there is at most one Content-Length, and that it is digits."""
    return next((int(value) for name, value in head.headers if name == b"content-length"), 0)


def _split(target: str) -> tuple[str, str, str]:
    """Split a request's target into authority ("" as a rule), path and query. Proxies are sent whole URLs (RFC 9112,
    3.2.2)."""
    authority = ""
    scheme = next((each for each in ("http://", "https://") if target.lower().startswith(each)), None)
    if scheme is not None:
        authority, slash, rest = target[len(scheme) :].partition("/")
        target = slash + rest
    path, _, query = target.partition("?")
    return authority, path, query


def printable(text: str) -> str:
    """Return text for a log line or an answer: without terminal escapes, and not longer than a line."""
    return ascii(text[:100])[1:-1]


class Bounds(NamedTuple):
    """Sizes in bytes, times in seconds. Prometheus' requests have some 500 bytes and ten headers."""

    connections: int = 64
    """Connections open at once. One more takes the place of the one that waited longest for its peer."""
    request_line_bytes: int = 2 * 1024
    head_bytes: int = 8 * 1024
    """The request line and all headers."""
    headers: int = 64
    """The most header lines of a request: h11 takes 3 µs for each (measured), and a head is read in one step of the
    loop."""
    body_bytes: int = 4 * 1024
    """The longest body of a request whose route says nothing else; such a body is read and ignored."""
    head_seconds: float = 5.0
    """The longest time from the accept, or a later request's first byte, to the end of its head."""
    body_seconds: float = 10.0
    handler_seconds: float = 10.0
    """The time a handler may take. Only a reload and large pages, which are worked out in slices, take any."""
    answer_seconds: float = 5.0
    """The time in which an answer must be sent; a peer that reads no faster is disconnected."""
    idle_seconds: float = 120.0
    """The time between two requests of a connection; scrapes are rarely more than a minute apart."""
    linger_seconds: float = 1.0
    """The time for which a closed connection is still read from: closing a socket with unread bytes makes TCP reset it,
    and the peer may lose the last answer."""
    linger_bytes: int = 16 * 1024 * 1024


class HttpRefusal(enum.Enum):
    """Reason why the server ended a connection. The value is the metric label `reason`."""

    MALFORMED = "malformed"
    """The request was not HTTP/1.x, or cut off in the middle."""
    HEAD_TOO_LARGE = "head_too_large"
    BODY_TOO_LARGE = "body_too_large"
    BODY_WITHOUT_LENGTH = "body_without_length"
    SLOW_HEAD = "slow_head"
    SLOW_BODY = "slow_body"
    SLOW_HANDLER = "slow_handler"
    SLOW_READER = "slow_reader"
    FOREIGN_HOST = "foreign_host"
    FOREIGN_ORIGIN = "foreign_origin"
    NOT_ADMITTED = "not_admitted"
    """The route needs a token, and the request had none or a wrong one."""
    MADE_ROOM = "made_room"
    """The connection had waited longest for its peer when there were too many connections."""
    NOT_ACCEPTED = "not_accepted"
    """The kernel gave no socket, because file descriptors or memory were exhausted."""
    FAILED = "failed"
    """A defect of the sidecar, answered with 500."""


@dataclass(slots=True)
class HttpStatistics:
    """Counters of a process since its start."""

    answers: Counter[int] = field(default_factory=Counter)
    """The number of answers by status code."""
    refused: Counter[HttpRefusal] = field(default_factory=Counter)
