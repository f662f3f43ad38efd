"""Looks up host names in threads of their own: a name server that hangs delays the dials by name, and nothing else.

Trio runs getaddrinfo in 40 threads that the whole process shares. A lookup cannot be interrupted: if the name server
does not answer, it keeps its thread for 5 to 30 seconds after its caller has given up. With 60 such dials, a change of
quotas waited for 44 s (measured). Numeric addresses never come here: Trio reads them itself.

Invariant: no more than `LOOKUP_THREADS` lookups are under way at once; a caller that waits for one can be cancelled.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

import trio

from ..threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable

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
