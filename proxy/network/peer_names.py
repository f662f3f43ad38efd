"""Finds the broker id for an address, for logs and metrics: transparent egress knows the address alone.

Peers are usually written by name, and the address of a name changes when its pod does; so names are looked up again.
Nothing is decided by it: an address that is no peer's stands for itself.

Invariant: a connection waits for names at most `RESOLVE_SECONDS`, whatever the resolver does.
"""

from __future__ import annotations

import math
import socket
from typing import TYPE_CHECKING

import trio

from ..config.settings_values import Address

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..config.settings import PeerSettings

RESOLVE_SECONDS = 1.0
FRESH_SECONDS = 5.0
"""How long looked-up names are used. Brokers dial rarely, and then open many connections at once."""


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
