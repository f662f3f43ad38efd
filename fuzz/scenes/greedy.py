"""Connections that take as much as they can get: the largest fetches, the smallest, and frames of nothing."""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, ClassVar

import trio

from ..cases.delivery import READ_BYTES, send_all
from .fetches import fetch, many_partitions
from .scene import Scene

if TYPE_CHECKING:
    from ..stage.stage import Stage

CONNECTIONS = 8
SECONDS = 6.0
BURST_BYTES = 256 * 1024


@functools.cache
def loads() -> dict[str, bytes]:
    """Return the requests that are repeated, by kind."""
    small = fetch(3, [("t", 1)])
    return {
        "fetches of 25 000 partitions": many_partitions(3, 25_000),
        "fetches of 20 000 partitions": many_partitions(3, 20_000),
        "small replica fetches": small * (BURST_BYTES // len(small)),
        "empty frames": bytes(BURST_BYTES),
        "fetches of 2 000 partitions, v12": many_partitions(12, 2_000),
    }


class Greedy(Scene):
    """Eight connections for each load, as fast as they can."""

    name: ClassVar[str] = "greedy"

    modes: ClassVar[tuple[str, ...]] = ("none", "quotas", "kip73", "journal")

    async def run(self, stage: Stage) -> None:
        """Send each load for some seconds."""
        for said, data in loads().items():
            self.doing = f"{CONNECTIONS} connections with {said}"
            with trio.move_on_after(SECONDS * self.size):
                await self.beside(stage, data)

    async def beside(self, stage: Stage, data: bytes) -> None:
        """Send this from all connections, until cancelled."""
        async with trio.open_nursery() as nursery:
            for n in range(CONNECTIONS):
                door = ("ingress", "strange")[n % 2]
                nursery.start_soon(self._greedy, stage.sidecar.ports[door], data)

    async def _greedy(self, port: int, data: bytes) -> None:
        while True:
            await trio.sleep(0.01)
            with contextlib.suppress(OSError), trio.socket.socket() as sock:
                await sock.connect(("127.0.0.1", port))
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_drain, sock, nursery.cancel_scope)
                    with contextlib.suppress(OSError):
                        while True:
                            await send_all(sock, data)
                            self.things += 1
                    nursery.cancel_scope.cancel()


async def _drain(sock: trio.socket.SocketType, scope: trio.CancelScope) -> None:
    with contextlib.suppress(OSError):
        while await sock.recv(READ_BYTES):
            pass
    scope.cancel()
