"""Crowds of connections that send nothing, that stop in the middle of a fetch, that never read; slow HTTP."""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, ClassVar

import trio

from ..cases.delivery import send_all
from .fetches import fetch, many_partitions
from .scene import Scene

if TYPE_CHECKING:
    from ..stage.stage import Stage

HOLD_SECONDS = 3.0
SEND_SECONDS = 2.0


class Crowd(Scene):
    """Half say nothing, a quarter stops in the middle of a fetch of 25 000 partitions, and a quarter sends it whole."""

    name: ClassVar[str] = "crowd"
    door: ClassVar[str] = "ingress"
    modes: ClassVar[tuple[str, ...]] = ("quotas",)

    about: ClassVar[str] = "connections that say nothing, stop in the middle of a fetch, or send a large one"
    connections: ClassVar[int] = 1000

    def says(self, number: int) -> bytes:
        """Return what connection `number` sends before it stops."""
        whole = many_partitions(3, 25_000)
        return b"" if number % 2 else whole if number % 4 else whole[: len(whole) // 2]

    async def run(self, stage: Stage) -> None:
        """Open all, hold them, go."""
        self.doing = self.about
        async with trio.open_nursery() as nursery:
            for number in range(self.scaled(self.connections)):
                nursery.start_soon(self._stay, stage.sidecar.ports[self.door], self.says(number))
                if number % 20 == 0:
                    await trio.sleep(0.02)
            await trio.sleep(HOLD_SECONDS)
            nursery.cancel_scope.cancel()

    async def _stay(self, port: int, data: bytes) -> None:
        with contextlib.suppress(OSError), trio.socket.socket() as sock:
            await sock.connect(("127.0.0.1", port))
            self.things += 1
            with trio.move_on_after(SEND_SECONDS):
                await send_all(sock, data)
            await trio.sleep_forever()


@functools.cache
def deaf_bytes() -> bytes:
    """Return a megabyte of fetches."""
    return fetch(3, [("t", 2000)]) * 20


class Deaf(Crowd):
    """Attackers that ask and ask, and never read an answer."""

    name: ClassVar[str] = "deaf"

    about: ClassVar[str] = "connections that ask for 2000 partitions again and again, and never read"
    connections: ClassVar[int] = 50
    modes: ClassVar[tuple[str, ...]] = ("none", "quotas")

    def says(self, number: int) -> bytes:
        """Return a megabyte."""
        return deaf_bytes() if number >= 0 else b""


class Loris(Crowd):
    """HTTP requests that never end."""

    name: ClassVar[str] = "loris"
    door: ClassVar[str] = "http"

    about: ClassVar[str] = "HTTP connections that say nothing, or send a head without an end"
    modes: ClassVar[tuple[str, ...]] = ("none",)

    def says(self, number: int) -> bytes:
        """Return nothing, a head, or a head and the beginning of a body."""
        return (
            b"",
            b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ",
            b"POST /-/reload HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\nx",
        )[number % 3]
