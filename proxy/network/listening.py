"""Listening sockets, all of them or none.

Operators write an ingress on 0.0.0.0:9092 and an egress peer on 127.0.102.1:9092, and the kernel sends
each connection to the more specific of the two; but it lets both listen only with SO_REUSEPORT. That would also let
a second sidecar share our ports in silence, so every address is first tried without it.

Invariant: when `open_listeners` raises, nothing is left open.
"""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import trio

from ..relay.transport import bound_segments

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ..config.settings import Address

BACKLOG = 4096
"""Connections that may wait to be accepted, as far as net.core.somaxconn allows. To a full backlog the kernel answers
nothing, and the peer tries again after 1, 3 and 7 s."""


class CannotListenError(OSError):
    """`index` is that of the address which cannot be listened on; the message is ready to print."""

    def __init__(self, index: int, message: str) -> None:
        super().__init__(message)
        self.index = index


async def open_listeners(
    addresses: Sequence[Address],
    *,
    dual_stack: Collection[Address] = (),
    encrypted: Collection[Address] = (),
    taken: Sequence[socket.socket | None] = (),
) -> list[trio.SocketListener]:
    """Return one listener per address, in order. An address `[::]` in `dual_stack` accepts IPv4, too, on every
    interface. Peers that dial an address in `encrypted` are spoken to in TLS. If `taken` (in the same order) has a
    socket for an address, that socket listens already and is used.

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
            else:
                opened.append(await _listen(address, index, shares=shares[index], both=address in dual_stack))
            if address in encrypted:
                bound_segments(opened[-1])
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
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        raise CannotListenError(index, f"cannot listen on {address}: {_reason(error)}") from error
    return sock


def _reason(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
