"""Resets connections that the sidecar has taken, whatever is at their other end: for a sidecar that stands still.

By the kernel's sock_diag(7), as `ss -K` does. A dialler that only waits for an answer would wait for its time-out,
since nothing that it sends meets a rule. Knows no Kafka and no rules. Blocking. Invariants: a socket that listens
stays; a socket whose own end is elsewhere stays.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_SOCK_DIAG_BY_FAMILY = 20
_SOCK_DESTROY = 21
_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_REQUEST, _ACKNOWLEDGE, _DUMP = 0x1, 0x4, 0x300
_NETLINK_SOCK_DIAG = 4
_STATES = 1 << 1 | 1 << 3 | 1 << 8 | 1 << 12
"""The states ESTABLISHED, SYN_RECV, CLOSE_WAIT, NEW_SYN_RECV (linux/tcp_states.h): those whose other end may wait."""
_HEADER = struct.Struct("=IHHII")
_DIAG_REQUEST = struct.Struct("=BBBBI")
"""The head of inet_diag_req_v2; a socket's identity follows it."""
_IDENTITY = struct.Struct("!HH16s16s")
_IDENTITY_BYTES = 48
"""The size of inet_diag_sockid: ports, addresses, the device, and the kernel's cookie, which says which socket is
meant."""
_ANY_SOCKET = struct.Struct("!H46x")
_BUFFER_BYTES = 256 * 1024
_GONE = 2
"""The error ENOENT: the connection was closed in between."""


class _Found(NamedTuple):
    family: int
    identity: bytes
    address: str
    """The address of its own end."""


def reset(listeners: Iterable[tuple[str | None, int]]) -> int:
    """Reset the connections whose own end is one of `listeners` (address, None: any; port); return how many.

    Raises OSError: the kernel cannot, or may not.
    """
    count = 0
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as kernel:
        for address, port in dict.fromkeys(listeners):
            for family in (socket.AF_INET, socket.AF_INET6):
                for found in [*_sockets(kernel, family, port)]:
                    if address in (None, found.address):
                        count += _destroy(kernel, found)
    return count


def _sockets(kernel: socket.socket, family: int, port: int) -> Iterator[_Found]:
    kernel.send(_message(_SOCK_DIAG_BY_FAMILY, _DUMP, family, _ANY_SOCKET.pack(port)))
    for kind, body in _answers(kernel):
        if kind == _NLMSG_ERROR:
            _raise(body)
        # inet_diag_msg: four bytes, the identity, and fields not needed here.
        identity = body[4 : 4 + _IDENTITY_BYTES]
        _, _, source, _ = _IDENTITY.unpack_from(identity)
        yield _Found(family, identity, _shown(source, family))


def _destroy(kernel: socket.socket, found: _Found) -> bool:
    kernel.send(_message(_SOCK_DESTROY, _ACKNOWLEDGE, found.family, found.identity))
    for kind, body in _answers(kernel):
        if kind == _NLMSG_ERROR and _code(body) not in (0, _GONE):
            _raise(body)
        return _code(body) == 0
    return False


def _message(kind: int, flags: int, family: int, identity: bytes) -> bytes:
    body = _DIAG_REQUEST.pack(family, socket.IPPROTO_TCP, 0, 0, _STATES) + identity
    return _HEADER.pack(_HEADER.size + len(body), kind, _REQUEST | flags, 0, 0) + body


def _answers(kernel: socket.socket) -> Iterator[tuple[int, bytes]]:
    """Return the messages up to the last one of a dump; an acknowledgement is a message of its own."""
    while True:
        said = kernel.recv(_BUFFER_BYTES)
        while said:
            size, kind, *_ = _HEADER.unpack_from(said)
            if kind == _NLMSG_DONE:
                return
            yield kind, said[_HEADER.size : size]
            if kind == _NLMSG_ERROR:
                return
            said = said[(size + 3) & ~3 :]


def _code(body: bytes) -> int:
    return -int(struct.unpack_from("=i", body)[0])


def _raise(body: bytes) -> None:
    code = _code(body)
    raise OSError(code, f"sock_diag: {os.strerror(code)}")


def _shown(source: bytes, family: int) -> str:
    if family == socket.AF_INET:
        return str(ipaddress.IPv4Address(source[:4]))
    found = ipaddress.IPv6Address(source)
    return str(found.ipv4_mapped or found)
