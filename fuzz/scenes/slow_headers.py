"""A header of many tagged fields, byte by byte: what is looked at anew with each byte costs its square."""

from __future__ import annotations

import contextlib
import struct
from typing import TYPE_CHECKING, ClassVar

import trio

from ..cases.delivery import send_all
from .scene import Scene

if TYPE_CHECKING:
    from ..stage.stage import Stage

PAUSE_SECONDS = 0.0005
_HEAD = struct.Struct(">ihhih")


def tagged_header(fields: int, claimed: int) -> bytes:
    """Return the beginning of a flexible Fetch with so many empty tagged fields, which claims more."""
    tags = bytearray()
    while claimed > 0x7F:
        tags.append(claimed & 0x7F | 0x80)
        claimed >>= 7
    tags.append(claimed)
    tags += b"".join(bytes((n % 128, 0)) for n in range(fields))
    return _HEAD.pack(_HEAD.size - 4 + len(tags) + 1000, 1, 12, 1, 0) + tags


class SlowHeaders(Scene):
    """Open some connections at once, each byte in a packet of its own."""

    name: ClassVar[str] = "slow-headers"

    modes: ClassVar[tuple[str, ...]] = ("none", "quotas")

    async def run(self, stage: Stage) -> None:
        """Run all of them."""
        self.doing = "headers of tagged fields, byte by byte"
        fields = min(self.scaled(2000), 2000)
        async with trio.open_nursery() as nursery:
            for n in range(self.scaled(16, least=2)):
                claimed = (fields, 2**32 - 1)[n % 2]
                nursery.start_soon(self._drip, stage.sidecar.ports["ingress"], tagged_header(fields, claimed))

    async def _drip(self, port: int, data: bytes) -> None:
        with contextlib.suppress(OSError), trio.socket.socket() as sock:
            await sock.connect(("127.0.0.1", port))
            sock.setsockopt(trio.socket.IPPROTO_TCP, trio.socket.TCP_NODELAY, 1)
            for n in range(len(data)):
                await send_all(sock, data[n : n + 1])
                self.things += 1
                await trio.sleep(PAUSE_SECONDS)
