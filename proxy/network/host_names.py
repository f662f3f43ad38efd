"""Looks up host names in threads of their own, and finds the broker id for an address.

Trio runs getaddrinfo in 40 threads that the whole process shares. A lookup cannot be interrupted: if the name server
does not answer, it keeps its thread for 5 to 30 seconds after its caller has given up. With 60 such dials, a change of
quotas waited for 44 s (measured). Numeric addresses never come here: Trio reads them itself.

Peers are usually written by name, and the address of a name changes when its pod does; so names are looked up again.
Nothing is decided by it: an address that is no peer's stands for itself, in logs and metrics.

Invariants: no more than `LOOKUP_THREADS` lookups are under way at once; a caller that waits for one can be cancelled; a
connection waits for names at most `RESOLVE_SECONDS`, whatever the resolver does.
"""

from __future__ import annotations

import math
import socket
from typing import TYPE_CHECKING, Any

import trio

from ..config.settings_values import Address
from ..threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..config.settings import PeerSettings


LOOKUP_THREADS = 20
"""Enough: a sidecar dials a handful of names, each for as many connections as a broker has fetchers."""


class NameLookups(trio.abc.HostnameResolver):
    """A resolver for `trio.socket.set_custom_hostname_resolver`. `lookup` is called as socket.getaddrinfo is, in a
    thread."""

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
        return await in_thread(self._lookup, host, port, family, type, proto, flags, limiter=self._threads)

    async def getnameinfo(self, sockaddr: tuple[str, int] | tuple[str, int, int, int], flags: int) -> tuple[str, str]:
        """Look an address up. Raises socket.gaierror."""
        return await in_thread(socket.getnameinfo, sockaddr, flags, limiter=self._threads)


RESOLVE_SECONDS = 1.0
FRESH_SECONDS = 5.0
"""The time for which looked-up names are used. Brokers dial rarely, and then open many connections at once."""


class PeerNames:
    """Broker ids by the address of each peer's `upstream`."""

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
