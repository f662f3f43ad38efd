"""Connections that the kernel redirected to us (`[egress] mode = "transparent"`): where they were going.

The broker beside us dials another broker. iptables' REDIRECT leads the connection to our listener, and the kernel still
knows whom it was meant for (SO_ORIGINAL_DST). The rules have to except the sidecar's own connections, by an owner
match: otherwise it would be redirected to itself without end. Knows sockets, nothing of Kafka.

Invariant: no connection of ours comes back to us more than once: one that arrives from a port we dial from is refused.
"""

from __future__ import annotations

import enum
import socket
import struct
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import trio

from ..config.settings_values import Address
from ..relay.transport import adopt, answer_within, refuse_itself

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..relay.connection import Dial
    from ..relay.transport import PlainSocket

SO_ORIGINAL_DST = 80
"""The option of linux/netfilter_ipv4.h; IP6T_SO_ORIGINAL_DST in linux/netfilter_ipv6/ip6_tables.h has the same
number."""
_SOCKADDR_IN = struct.Struct("!2xH4s8x")
_SOCKADDR_IN6 = struct.Struct("!2xHI16sI")
_MAPPED = "::ffff:"


class Refusal(enum.StrEnum):
    """Reason why a connection to the transparent listener is not relayed."""

    NOT_REDIRECTED = "not_redirected"
    """The peer dialled the transparent listener itself, so no broker can be meant by the connection."""
    OWN_CONNECTION = "own_connection"
    """A connection of the sidecar itself was redirected: the rules lack the owner match, or match another user."""


class RefusedError(Exception):
    """`destination` is None if the kernel does not know it."""

    def __init__(self, reason: Refusal, destination: Address | None) -> None:
        super().__init__(reason.value)
        self.reason = reason
        self.destination = destination


class AcceptedSocket(Protocol):
    """The socket methods used here."""

    @property
    def family(self) -> int: ...

    def getpeername(self) -> tuple[str, int] | tuple[str, int, int, int]: ...
    def getsockname(self) -> tuple[str, int] | tuple[str, int, int, int]: ...
    def getsockopt(self, level: int, name: int, size: int, /) -> bytes: ...


class Redirected:
    """Knows which ports this process dials from."""

    def __init__(self) -> None:
        self._ours: set[int] = set()

    def destination(self, sock: AcceptedSocket) -> Address:
        """Return where the broker wanted to go. Raises RefusedError, and OSError if the connection is gone already."""
        peer_port = sock.getpeername()[1]
        try:
            found = original_destination(sock)
        except OSError as error:  # no conntrack entry, or no conntrack at all
            raise RefusedError(Refusal.NOT_REDIRECTED, None) from error
        if found == Address(_plain(sock.getsockname()[0]), sock.getsockname()[1]):
            raise RefusedError(Refusal.NOT_REDIRECTED, found)
        if peer_port in self._ours:
            raise RefusedError(Refusal.OWN_CONNECTION, found)
        return found

    @contextmanager
    def dialling(self) -> Iterator[Dial]:
        """Yield what one connection dials with. Until the block ends, the ports that it dials from are known to be
        ours."""
        ports: set[int] = set()

        async def dial(address: Address, *, timeout_seconds: float) -> PlainSocket:
            family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
            sock = trio.socket.socket(family, socket.SOCK_STREAM)
            try:
                # The port must be known before the first packet leaves: it may be accepted here before connect returns.
                await sock.bind(("::" if family == socket.AF_INET6 else "0.0.0.0", 0))
                ports.add(sock.getsockname()[1])
                self._ours.update(ports)
                with answer_within(timeout_seconds):
                    await sock.connect(tuple(address))
                refuse_itself(sock)
            except BaseException:
                sock.close()
                raise
            return adopt(trio.SocketStream(sock))

        try:
            yield dial
        finally:
            self._ours.difference_update(ports)


def original_destination(sock: AcceptedSocket) -> Address:
    """Return the destination of an accepted connection before it was redirected; its own address if it was not.

    Raises OSError if the kernel does not track it.
    """
    # A dual-stack listener accepts IPv4 on IPv6 sockets, whose destination only SOL_IP tells.
    if sock.family == socket.AF_INET or sock.getpeername()[0].startswith(_MAPPED):
        port, packed = _SOCKADDR_IN.unpack(sock.getsockopt(socket.SOL_IP, SO_ORIGINAL_DST, _SOCKADDR_IN.size))
        return Address(socket.inet_ntop(socket.AF_INET, packed), port)
    raw = sock.getsockopt(socket.IPPROTO_IPV6, SO_ORIGINAL_DST, _SOCKADDR_IN6.size)
    port, _, packed, _ = _SOCKADDR_IN6.unpack(raw)
    return Address(socket.inet_ntop(socket.AF_INET6, packed), port)


def _plain(host: str) -> str:
    return host.removeprefix(_MAPPED)
