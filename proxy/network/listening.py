"""Listening sockets, all of them or none.

An ingress on 0.0.0.0:9092 and an egress peer on 127.0.102.1:9092 are what an operator writes, and the kernel sends
each connection to the more specific of the two; but it lets both listen only with SO_REUSEPORT. That would also let
a second sidecar share our ports in silence, so every address is first tried without it.

Invariant: when `open_listeners` raises, nothing is left open.
"""

from __future__ import annotations

import os
import socket
import sys
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ..config.settings import Address

BACKLOG = 128
MOST_SEGMENT_BYTES = 16 * 1024
"""The most that TCP sends to whoever dials in one segment. On loopback it would be 64 KiB, which is as much as Kafka's
fetchers have room for (replica.socket.receive.buffer.bytes): where little of that room is left, the kernel neither
sends a part nor hears of more room, and asks again after 200 ms. A few such waits took an eighth of the throughput of
a move of 4 s: unlisted partitions beside a throttled one, over a card of 1 Gbit/s, 78 MiB/s without this bound and 89
with it, and without quotas 92 both times (medians of seven rounds, in turns). A card's own segments are smaller."""


class CannotListenError(OSError):
    """`index` is that of the address which cannot be listened on; the message is ready to print."""

    def __init__(self, index: int, message: str) -> None:
        super().__init__(message)
        self.index = index


async def open_listeners(
    addresses: Sequence[Address],
    *,
    dual_stack: Collection[Address] = (),
    taken: Sequence[socket.socket | None] = (),
) -> list[trio.SocketListener]:
    """Return one listener per address, in order. An address `[::]` in `dual_stack` accepts IPv4, too, on every
    interface. If `taken` (in the same order) has a socket for an address, that socket listens already and is used.

    Raises CannotListenError.
    """
    has = {index: sock for index, sock in enumerate(taken) if sock is not None}
    shares = [any(a.overlaps(b) for b in addresses if b is not a) for a in addresses]
    for index, address in enumerate(addresses):
        if shares[index] and not has:
            (await _listen(address, index, both=address in dual_stack)).close()
    opened: list[trio.socket.SocketType] = []
    try:
        for index, address in enumerate(addresses):
            if index in has:
                opened.append(trio.socket.from_stdlib_socket(has[index]))
                _bound_segments(opened[-1])
            else:
                opened.append(await _listen(address, index, shares=shares[index], both=address in dual_stack))
    except BaseException:
        for sock in opened:
            sock.close()
        raise
    return [trio.SocketListener(sock) for sock in opened]


async def _listen(address: Address, index: int, *, shares: bool = False, both: bool) -> trio.socket.SocketType:
    try:
        found = await trio.socket.getaddrinfo(*address, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, where = found[0]
        sock = trio.socket.socket(family, kind, protocol)
    except OSError as error:
        raise CannotListenError(index, f"cannot listen on {address}: {_reason(error)}") from error
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not both)
        if shares:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        await sock.bind(where)
        _bound_segments(sock)
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        raise CannotListenError(index, f"cannot listen on {address}: {_reason(error)}") from error
    return sock


def _bound_segments(sock: trio.socket.SocketType) -> None:
    """Of connections that are accepted from now on."""
    if sys.platform == "linux":
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, MOST_SEGMENT_BYTES)


def _reason(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
