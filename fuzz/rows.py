"""Single conversations that have ended or stopped a sidecar once, as they were first sent by hand. Pure.

Beside what chance finds, these are sent whenever the project is tested.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from .cases.case import Case, Door, Ending
from .scenes.fetches import fetch
from .scenes.quota_files import ODD

if TYPE_CHECKING:
    from collections.abc import Iterator

_HEAD = struct.Struct(">ihhih")
_GET = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n"
_UPGRADE = (
    b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """Return a frame of HTTP/2 (RFC 9113, 4.1)."""
    return struct.pack(">I", len(payload))[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + payload


def _headers(path: bytes, method: bytes = b"GET") -> bytes:
    fields = ((b":method", method), (b":path", path), (b":scheme", b"http"), (b":authority", b"a"))
    block = b"".join(b"\0" + bytes([len(n)]) + n + bytes([len(v)]) + v for n, v in fields)
    return _frame(1, 5, 1, block)


HTTP = {
    "a WebSocket's protocol that is no ASCII": _GET + _UPGRADE + b"Sec-WebSocket-Protocol: \xff\r\n\r\n",
    "HTTP/2, a byte ff in :path": _PREFACE + _headers(b"/\xff"),
    "HTTP/2, a byte ff in :method": _PREFACE + _headers(b"/", b"G\xff"),
    "1500 PRIORITY frames": _PREFACE + b"".join(_frame(2, 0, 2 * n + 1, bytes(5)) for n in range(1500)),
    "a body after the answer": _GET + b"Content-Length: 5\r\nConnection: close\r\n\r\n" + b"hello" * 200_000,
    "CONNECT": b"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n" + bytes(1000),
    "3 MB to /-/reload by HTTP/2": _PREFACE
    + _frame(1, 4, 1, _headers(b"/-/reload", b"POST")[9:])
    + b"".join(_frame(0, 0, 1, bytes(16_384)) for _ in range(190)),
    "3 MB to /-/reload": b"POST /-/reload HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 3000000\r\n\r\n"
    + bytes(3_000_000),
}


def kafka_cases() -> Iterator[Case]:
    """Yield headers of fourteen bytes whose sizes are negative, after one ordinary frame, for each door."""
    ordinary = fetch(3, [("t", 1)])
    number = 0
    for door in (Door.INGRESS, Door.EGRESS):
        for size in (-4, -8, -14, -(2**31)):
            for client_id_bytes in (-(2**15), -2, 2**15 - 1):
                number += 1
                bad = _HEAD.pack(size, 3, 0, 2, client_id_bytes)
                yield Case(
                    family="fourteen-bytes", number=number, door=door, chunks=(ordinary + bad,), frames=2,
                    ending=Ending.LINGER,
                )  # fmt: skip


def http_cases() -> Iterator[Case]:
    """Yield requests after which a web server's exception ended the relay."""
    for number, (said, data) in enumerate(HTTP.items()):
        yield Case(
            family=said, number=number, door=Door.HTTP, chunks=(data,), frames=1, ending=Ending.LINGER
        )  # fmt: skip


def quota_cases() -> Iterator[Case]:
    """Yield contents of quotas.toml that ended a sidecar, or kept it busy for good."""
    for number, (said, content) in enumerate(ODD.items()):
        yield Case(family=said, number=number, door=Door.QUOTAS, chunks=(content,), frames=1)
