"""A reader of the log that stops reading, or dies, while there is much to log."""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING, ClassVar

import trio

from ..cases.case import Case, Door, Ending
from ..cases.delivery import Attack
from .fetches import fetch
from .scene import Scene

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..stage.stage import Stage

PIPE_BYTES = 4096
_NO_LENGTH = b"\xff\xff\xff\xfc" + bytes(40)


def _talkative() -> bytes:
    """Return a replica's fetch, whose connection's end is logged, and then bytes that are logged as unintelligible."""
    return fetch(3, [("t", 1)]) + _NO_LENGTH


class FullLog(Scene):
    """A pipe that nobody reads any more."""

    name: ClassVar[str] = "full-log"
    reader_dies: ClassVar[bool] = False

    connections: ClassVar[int] = 1500

    async def run(self, stage: Stage) -> None:
        """Start the sidecar with a pipe for its log, take the reader away, and give it much to say."""
        pipe = stage.sidecar.home / "log.fifo"
        pipe.unlink(missing_ok=True)
        os.mkfifo(pipe)
        reader = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
        try:
            fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
            await stage.restart(output=pipe)
            if self.reader_dies:
                os.close(reader)
            self.doing = f"{self.scaled(self.connections)} connections that log their end, where nobody reads the log"
            attack = Attack(stage.sidecar.ports)
            await attack.run(iter(self._garbage()), at_once=16)
            await trio.sleep(1.0)
        finally:
            if not self.reader_dies:
                os.close(reader)
        self.doing += ", and its reader died at last"
        await trio.sleep(1.0)
        await stage.restart()

    def _garbage(self) -> Iterator[Case]:
        for number in range(self.scaled(self.connections)):
            self.things += 1
            yield Case(
                family=self.name,
                number=number,
                door=Door.INGRESS,
                chunks=(_talkative(),),
                frames=1,
                ending=Ending.LINGER,
            )


class DeadLog(FullLog):
    """A pipe whose reader has died."""

    name: ClassVar[str] = "dead-log"
    reader_dies: ClassVar[bool] = True
