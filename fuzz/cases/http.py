"""Hostile HTTP: heads that no client writes, bodies nobody asked for, other protocols, and requests that never end.

Pure.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from .case import Case, Door, Ending, generator
from .mutations import chunks, mutated

if TYPE_CHECKING:
    from random import Random

METHODS = (b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"OPTIONS", b"CONNECT", b"TRACE", b"PATCH", b"PRI", b"g\xff")
PATHS = (
    b"/metrics", b"/healthz", b"/readyz", b"/config", b"/throttle", b"/-/reload", b"/", b"*", b"//", b"/%ff%00",
    b"/metrics?x=1", b"http://127.0.0.1/healthz", b"127.0.0.1:80", b"/" + b"a" * 9000, b"/\xff", b"/..%2f..%2fetc",
    b"/quotas", b"/fleet",
)  # fmt: skip
VERSIONS = (b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.0", b"HTTP/2.0", b"HTTP/0.9", b"HTTP/1.1 ", b"")
FIELDS = (
    b"Host: 127.0.0.1", b"Host: evil.example", b"Host: a\r\nHost: b", b"Host:", b"Host: [::1", b"Host: \xff",
    b"Origin: http://evil.example", b"Origin: null", b"Content-Length: 0", b"Content-Length: 5",
    b"Content-Length: -1", b"Content-Length: 99999999999999999999", b"Content-Length: 1\r\nContent-Length: 2",
    b"Transfer-Encoding: chunked", b"Transfer-Encoding: gzip, chunked", b"Transfer-Encoding: identity",
    b"Connection: close", b"Connection: keep-alive", b"Connection: Upgrade", b"Connection: Upgrade, HTTP2-Settings",
    b"Upgrade: websocket", b"Upgrade: h2c", b"Upgrade: \xff", b"HTTP2-Settings: AAMAAABkAAQAAP__",
    b"HTTP2-Settings: \xff",
    b"Sec-WebSocket-Version: 13", b"Sec-WebSocket-Version: 99", b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    b"Sec-WebSocket-Key: x", b"Sec-WebSocket-Protocol: \xff", b"Sec-WebSocket-Extensions: permessage-deflate; \xff",
    b"Expect: 100-continue", b"Expect: x", b"Accept: application/openmetrics-text", b"Accept: \xff;q=\xfe",
    b"Accept-Encoding: gzip", b"Range: bytes=0-1", b"Cookie: " + b"x" * 7000, b" folded", b"NoColon", b": empty",
    b"X: \x00", b"X: \r", b"\xff: x", b"Authorization: Basic \xff", b"If-None-Match: *", b"X-Many: " + b"y, " * 300,
)  # fmt: skip
UPGRADE = (b"Upgrade: websocket", b"Connection: Upgrade", b"Sec-WebSocket-Version: 13",
           b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==")  # fmt: skip
BODIES = (
    b"",
    b"",
    b"hello",
    b"0\r\n\r\n",
    b"5\r\nhello\r\n0\r\n\r\n",
    b"ffffffffffffffff\r\n",
    b"-1\r\n",
    b"{}" * 3000,
)
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_FRAME_TYPES = range(12)


def http_case(seed: int, number: int) -> Case:
    """Make a connection to the HTTP port."""
    rng = generator(seed, "http", number)
    kind = rng.random()
    requests = 1
    if kind < 0.25:
        data = _http2(rng)
    elif kind < 0.30:
        data = rng.randbytes(rng.choice((1, 10, 1000, 70_000)))
    else:
        requests = rng.choice((1, 1, 1, 2, 5))
        data = b"".join(_request(rng) for _ in range(requests))
    ending = rng.choice((Ending.CLOSE, Ending.RESET, Ending.HALF_CLOSE, Ending.LINGER, Ending.LINGER))
    return Case(family="http", number=number, door=Door.HTTP, chunks=chunks(rng, data), frames=requests, ending=ending)


def _request(rng: Random) -> bytes:
    fields = [b"Host: 127.0.0.1"] if rng.random() < 0.8 else []
    fields += UPGRADE if rng.random() < 0.15 else ()
    fields += rng.sample(FIELDS, rng.choice((0, 1, 2, 4, 9)))
    if rng.random() < 0.02:
        fields += [b"X-%d: y" % n for n in range(rng.choice((50, 500, 3000)))]
    method = rng.choice(METHODS) if rng.random() < 0.5 else b"GET"
    start = b" ".join((method, rng.choice(PATHS), rng.choice(VERSIONS)))
    head = b"\r\n".join((start, *fields, b"", b""))
    whole = head + rng.choice(BODIES)
    return mutated(rng, whole) if rng.random() < 0.4 else whole


def _http2(rng: Random) -> bytes:
    """Return a client's preface and frames of HTTP/2 (RFC 9113), most of them wrong, header blocks of literals among
    them."""
    frames = [_frame(4, 0, 0, b"")] if rng.random() < 0.8 else []
    for _ in range(rng.choice((1, 2, 5, 30))):
        stream = rng.choice((0, 1, 3, 5, 2, 2**31 - 1))
        kind = rng.choice(_FRAME_TYPES)
        payload = _headers(rng) if kind == 1 else rng.randbytes(rng.choice((0, 4, 5, 8, 6, 16, 100)))
        frames.append(_frame(kind, rng.choice((0, 1, 4, 5, 0x25, 0xFF)), stream, payload))
    if rng.random() < 0.1:
        frames += [_frame(2, 0, 2 * n + 1, bytes(5)) for n in range(1500)]
    data = PREFACE + b"".join(frames)
    return mutated(rng, data, times=1) if rng.random() < 0.3 else data


def _headers(rng: Random) -> bytes:
    """Return literals without indexing (RFC 7541, 6.2.2)."""
    wanted = {b":method": rng.choice(METHODS), b":path": rng.choice(PATHS), b":scheme": b"http", b":authority": b"a"}
    fields = [one for one in wanted.items() if rng.random() < 0.95]
    fields += [(b"x\xff", b"y")] if rng.random() < 0.1 else []
    fields += [(b":protocol", b"websocket")] if rng.random() < 0.1 else []
    return b"".join(b"\0" + _literal(name) + _literal(value) for name, value in fields)


def _literal(text: bytes) -> bytes:
    if len(text) < 127:
        return bytes([len(text)]) + text
    rest = len(text) - 127
    return bytes([127, rest & 0x7F | 0x80, rest >> 7 & 0x7F]) + text


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + payload
