"""Names that nobody has heard of: whatever remembers what it met must forget again."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, ClassVar

import trio

from ..cases.delivery import READ_BYTES, send_all
from .fetches import made_up_topics
from .scene import Scene

if TYPE_CHECKING:
    from ..stage.stage import Stage

BYTES = 96 * 1024 * 1024
FRAME_TOPICS = 8_000


class MadeUpTopics(Scene):
    """96 MB of fetches on one connection, each of topics that no other has."""

    name: ClassVar[str] = "made-up-topics"

    modes: ClassVar[tuple[str, ...]] = ("quotas", "journal", "listed")

    async def run(self, stage: Stage) -> None:
        """Begin a connection again wherever it was ended."""
        self.doing = "fetches of made-up topics on one connection"
        left = self.scaled(BYTES)
        while left > 0:
            with contextlib.suppress(OSError), trio.socket.socket() as sock:
                await sock.connect(("127.0.0.1", stage.sidecar.ports["ingress"]))
                while left > 0:
                    frame = await trio.to_thread.run_sync(made_up_topics, self.things)
                    left -= len(frame)
                    self.things += FRAME_TOPICS
                    await send_all(sock, frame)
                    await _read_some(sock)
            await trio.sleep(0.01)


async def _read_some(sock: trio.socket.SocketType) -> None:
    with trio.move_on_after(0.5):
        if not await sock.recv(READ_BYTES):
            raise ConnectionError("ended")
