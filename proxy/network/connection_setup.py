"""An accepted connection until it is relayed: its destination, both handshakes, and the dial.

Knows no Kafka and no quota. Invariant: a connection that cannot be received is closed, counted and logged; it is never
relayed with less than its leg was to have, nor led back to the sidecar itself (`dial_except_own`); a connection waits
for names at most `RESOLVE_SECONDS`, whatever the resolver does.
"""

from __future__ import annotations

import ipaddress
import math
import socket
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import trio

from ..config.settings_values import Address
from ..quotas.client_entity import ANONYMOUS
from ..relay.tls_socket import TlsSocket
from ..relay.transport import PlainSocket, adopt, answer_within, open_stream
from ..roles import Role
from ..threads import NoThreadError, in_thread
from ..tls.handshakes import HandshakeError
from .redirected import RefusedError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from contextlib import AbstractContextManager

    from ..config.settings import PeerSettings, Settings
    from ..logs.log import Log
    from ..relay.connection import Dial
    from ..relay.transport import Transport
    from ..statistics.counters import RoleStatistics
    from ..tls.leg import Leg
    from ..tls.legs import Legs
    from .redirected import Redirected

_Result = TypeVar("_Result")

LOOKUP_THREADS = 20
"""The threads for looking names up. A sidecar dials a handful of names, each for as many connections as a broker has
fetchers."""
RESOLVE_SECONDS = 1.0
FRESH_SECONDS = 5.0
"""The time for which looked-up names are used. Brokers dial rarely, and then open many connections at once."""


class Route(NamedTuple):
    """The destination of a listener's connections."""

    role: Role
    listen: Address
    upstream: Address | None
    """The address to dial; None: where the connection was going before it was redirected here."""
    peer: str | None
    """The remote broker's id; None: any peer that dials, named by its address."""
    key: str
    """The setting the address is from, for messages."""
    server_name: str | None = None
    """The name of the dialled peer, which its certificate must have."""


class Received(NamedTuple):
    follower: Transport
    upstream: Address
    peer: str
    dial: Dial
    user: str | None = ANONYMOUS
    """The user that the peer is by its certificate; None: it is not known."""


class _Met(NamedTuple):
    """A connection of which it is known whom it is for."""

    plain: PlainSocket
    reached: tuple[Any, ...]
    """The listener's address by which it came."""
    upstream: Address
    peer: str


class ConnectionSetup:
    """Receives connections for both roles. `refused` counts; `meet` is called with the brokers that redirected
    connections were meant for, and the name that each certificate must have, if it is known."""

    def __init__(
        self,
        settings: Settings,
        legs: Legs,
        redirected: Redirected,
        *,
        meet: Callable[[Address, str | None], None],
        refused: RoleStatistics,
        log: Log,
    ) -> None:
        self._redirected = redirected
        self.meet = meet
        self._statistics = refused
        self._log = log
        peers: tuple[PeerSettings, ...] = () if settings.egress is None else settings.egress.peers
        self._peer_names = PeerNames(peers)
        self._server_names = {str(peer.broker): peer.server_name for peer in peers}
        self._legs: dict[Role, tuple[Leg | None, Leg | None]] = {}
        for role, table in ((Role.LEADER, settings.ingress), (Role.FOLLOWER, settings.egress)):
            tls = None if table is None else table.tls
            self._legs[role] = (None, None) if tls is None else (legs.of(tls.listen), legs.of(tls.upstream))

    @asynccontextmanager
    async def receive(self, route: Route, sock: socket.socket) -> AsyncIterator[Received | None]:
        """Yield the connection to relay; None if there is none: then everything is closed and logged."""
        met = await self._meet(route, sock)
        if met is None:
            yield None
            return
        listen, dials = self._legs[route.role]
        name = route.server_name or self._server_names.get(met.peer)
        follower: Transport = met.plain
        user: str | None = ANONYMOUS
        if listen is not None:
            names = (met.upstream.host,) if name is None else (name, met.upstream.host)
            try:
                shaken = await listen.accept(met.plain.sock, peer=met.peer, names=names)
            except HandshakeError:  # counted and logged by the leg
                yield None
                return
            # A redirected connection has no name in proxy.toml. The broker beside us has named the broker that it means
            # in its own handshake, and the certificate of that broker must have this name.
            name = name or shaken.asked
            if route.upstream is None:
                self.meet(met.upstream, name)
            follower = TlsSocket(shaken.sock, shaken.refused)
            user = listen.user_of(shaken.sock)
        with self._dialling(route, met.reached) as dial:
            leads = dial if dials is None else _secured(dial, dials, name or met.upstream.host)
            yield Received(follower, met.upstream, met.peer, leads, user)

    async def _meet(self, route: Route, sock: socket.socket) -> _Met | None:
        peer = ""
        try:
            peer = route.peer or sock.getpeername()[0]
            upstream = route.upstream or self._redirected.destination(sock)
            if route.upstream is None:
                self.meet(upstream, None)
                peer = await self._peer_names.of(upstream)
            return _Met(PlainSocket(sock), sock.getsockname(), upstream, peer)
        except OSError:  # reset before it was served
            sock.close()
        except RefusedError as refused:
            sock.close()
            self._refused(refused, peer)
        return None

    def _dialling(self, route: Route, reached: tuple[Any, ...]) -> AbstractContextManager[Dial]:
        if route.upstream is None:
            return self._redirected.dialling()
        return nullcontext(dial_except_own(route.listen, reached, route.key))

    def _refused(self, refused: RefusedError, peer: str) -> None:
        counts = self._statistics.refused
        counts[refused.reason.value] += 1
        if counts[refused.reason.value] == 1:
            self._log.warning(
                "redirected_connection_refused",
                role=Role.FOLLOWER.value,
                peer=peer,
                reason=refused.reason.value,
                destination=None if refused.destination is None else str(refused.destination),
            )


def _secured(dial: Dial, leg: Leg, name: str) -> Dial:
    async def dial_and_verify(address: Address, *, timeout_seconds: float) -> Transport:
        plain = await dial(address, timeout_seconds=timeout_seconds)
        shaken = await leg.dial(cast("PlainSocket", plain).sock, name)
        return TlsSocket(shaken.sock, shaken.refused)

    return dial_and_verify


class OwnListenerError(OSError):
    """Says what `upstream` was found to be, and what is expected instead."""


def dial_except_own(listen: Address, reached: tuple[Any, ...], key: str) -> Dial:
    """Return the dial function for a connection that the listener `listen` (the setting `key`) accepted at
    `reached`."""

    async def dial(address: Address, *, timeout_seconds: float) -> PlainSocket:
        with answer_within(timeout_seconds):
            looked_up = await trio.socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
            for family, _, _, _, found in looked_up:
                if is_own(listen, reached, family, found):
                    raise OwnListenerError(
                        f"expected another address than that of {key}, found {Address(*found[:2])}: the sidecar would "
                        "dial itself; give the upstream an address, or a name that this host's hosts file does not "
                        "lead here"
                    )
            return adopt(await open_stream(address))

    return dial


def is_own(listen: Address, reached: tuple[Any, ...], family: int, found: tuple[Any, ...]) -> bool:
    """Return True if `found`, an address to dial, is that of the listener."""
    if found[1] != reached[1]:
        return False
    if not listen.is_any:
        return ipaddress.ip_address(found[0]) == ipaddress.ip_address(reached[0])
    return listen.covers(Address(*found[:2])) and _is_of_this_host(family, found)


def _is_of_this_host(family: int, found: tuple[Any, ...]) -> bool:
    """Return True if the address can be bound, as only this host's can."""
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((found[0], 0, *found[2:]))
        except OSError:
            return False
    return True


class NameLookups(trio.abc.HostnameResolver):
    """Looks up host names in threads of their own.

    Trio runs getaddrinfo in 40 threads that the whole process shares. A lookup cannot be interrupted: if the name
    server does not answer, it keeps its thread for 5 to 30 seconds after its caller has given up. With 60 such dials, a
    change of quotas waited for 44 s (measured). Numeric addresses never come here: Trio reads them itself.

    A resolver for `trio.socket.set_custom_hostname_resolver`. `lookup` is called as socket.getaddrinfo is, in a thread.
    """

    def __init__(self, lookup: Callable[..., list[Any]] = socket.getaddrinfo) -> None:
        self._lookup = lookup
        self._threads = trio.CapacityLimiter(LOOKUP_THREADS)

    async def getaddrinfo(
        self,
        host: bytes | None,
        port: bytes | str | int | None,
        family: int = 0,
        type: int = 0,  # noqa: A002 - as the base class has it
        proto: int = 0,
        flags: int = 0,
    ) -> list[Any]:
        """Look a host name up. Raises socket.gaierror."""
        return await self._in_thread(self._lookup, host, port, family, type, proto, flags)

    async def getnameinfo(self, sockaddr: tuple[str, int] | tuple[str, int, int, int], flags: int) -> tuple[str, str]:
        """Look an address up. Raises socket.gaierror."""
        return await self._in_thread(socket.getnameinfo, sockaddr, flags)

    async def _in_thread(self, work: Callable[..., _Result], *arguments: Any) -> _Result:
        try:
            return await in_thread(work, *arguments, limiter=self._threads)
        except NoThreadError as error:
            raise socket.gaierror(socket.EAI_AGAIN, str(error)) from error


class PeerNames:
    """Broker ids by the address of each peer's `upstream`.

    Peers are usually written by name, and the address of a name changes when its pod does; so names are looked up
    again. Nothing is decided by it: an address that is no peer's stands for itself, in logs and metrics.
    """

    def __init__(self, peers: Sequence[PeerSettings]) -> None:
        self._peers = peers
        self._found: dict[Address, str] = {}
        self._found_at = -math.inf
        self._turn = trio.Lock()

    async def of(self, address: Address) -> str:
        """Return the broker's id; the address if it is none of the peers'."""
        async with self._turn:
            if self._peers and trio.current_time() - self._found_at >= FRESH_SECONDS:
                await self._resolve()
                self._found_at = trio.current_time()
        return self._found.get(address, str(address))

    async def _resolve(self) -> None:
        """Look all names up. A name that cannot be resolved now keeps its last addresses."""
        with trio.move_on_after(RESOLVE_SECONDS):
            async with trio.open_nursery() as nursery:
                for peer in self._peers:
                    nursery.start_soon(self._resolve_one, peer)

    async def _resolve_one(self, peer: PeerSettings) -> None:
        try:
            answers = await trio.socket.getaddrinfo(*peer.upstream, type=socket.SOCK_STREAM)
        except OSError:
            return
        name = str(peer.broker)
        kept = {address: broker for address, broker in self._found.items() if broker != name}
        self._found = kept | {Address(*answer[4][:2]): name for answer in answers}
