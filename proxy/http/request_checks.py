"""Checks whether a request may be served, and makes the head of an answer. Pure.

Invariant: a request that is not served raises RefusedError, with the reason and with the answer that tells the peer.
"""

from __future__ import annotations

import re
from email.utils import formatdate
from http import HTTPStatus
from typing import TYPE_CHECKING

import h11

from .routing import Answer, Request, json_answer
from .statistics import HttpRefusal

if TYPE_CHECKING:
    from .bounds import Bounds
    from .trust import Trust

_END_OF_HEAD = re.compile(rb"\n\r?\n")


class RefusedError(Exception):
    """The request is not served, and the connection ends after `answer`, if there is to be one."""

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
    authority, path = _split(head.target.decode("ascii"))
    request = Request(head.method.decode("ascii"), path, headers, peer=peer, subject=subject)
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


def _split(target: str) -> tuple[str, str]:
    """Split a request's target into authority ("" as a rule) and path. Proxies are sent whole URLs (RFC 9112,
    3.2.2)."""
    authority = ""
    scheme = next((each for each in ("http://", "https://") if target.lower().startswith(each)), None)
    if scheme is not None:
        authority, slash, rest = target[len(scheme) :].partition("/")
        target = slash + rest
    return authority, target.partition("?")[0]


def printable(text: str) -> str:
    """Return text for a log line or an answer: without terminal escapes, and not longer than a line."""
    return ascii(text[:100])[1:-1]
