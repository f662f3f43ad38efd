"""What the requests of one connection wait for, other than their sockets: time, quotas, answers to earlier requests.

A request that is held is decided again when its time has come or quotas have changed. One that is to be answered here
is answered in its turn, after earlier requests. Where too many are in flight the next one waits until there is room.
Knows no sockets: it tells when the requests may go on.

Invariant: an answer of our own never gets in between the bytes of another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from protocol.errors import ProtocolError
from protocol.wire.framing import with_length

from ..throttle.decision import Answer, Hold

if TYPE_CHECKING:
    from collections.abc import Callable

    from .deciding import Deciding
    from .direction import Direction
    from .exchange import Exchange


class Holding:
    """Of one connection. `later` lets a direction go on when others had their turn."""

    __slots__ = ("_answering", "_deciding", "_exchange", "_held", "_later", "_requests", "_responses", "for_answers")

    def __init__(
        self,
        exchange: Exchange,
        deciding: Deciding,
        *,
        requests: Direction,
        responses: Direction,
        later: Callable[[Direction], None],
    ) -> None:
        self._exchange = exchange
        self._deciding = deciding
        self._requests = requests
        self._responses = responses
        self._later = later
        self._held = trio.Event()
        self.for_answers = False
        """The requests wait for answers: whenever those have moved, `look`."""
        self._answering = False
        """An answer of our own is on its way to the follower."""

    def close(self) -> None:
        """The connection has ended, and is freed at once: nothing here refers to it any more."""
        self._later = _to_nobody

    def begin(self) -> bool:
        """The requests cannot go on; tell whether it is time that they wait for, which `run` looks after."""
        held = self._deciding.held
        if held is not None and isinstance(held.decision, Hold):
            self._held.set()
            return True
        self.for_answers = True
        self.look()
        return False

    def look(self) -> None:
        """Answer what is held, in its turn: after earlier requests. The next may come once the follower has it all, and
        where too many were in flight once there is room. Raises OSError, ProtocolError."""
        held, transfer = self._deciding.held, self._responses.transfer
        if held is None:
            if self._exchange.has_room_again:
                self.for_answers = False
                self._later(self._requests)
            return
        if isinstance(held.decision, Answer) and not self._answering:
            if self._exchange.in_flight:
                if self._exchange.opaque:
                    raise ProtocolError("an answer of our own is due among bytes that are no frames")
                return
            self._answering = True
            wait = transfer.replace(0, with_length(held.decision.frame))
            if wait is not None:
                self._responses.wants = wait
                self._later(self._responses)
        if transfer.owes:
            return
        self.for_answers = self._answering = False
        self._deciding.answered()
        self._later(self._requests)

    async def run(self) -> None:
        """Wait for the time of what is held, one request after the other, until cancelled."""
        changes = self._exchange.changes
        while True:
            await self._held.wait()
            self._held = trio.Event()
            held = self._deciding.held
            if held is not None and isinstance(held.decision, Hold):
                with trio.move_on_at(held.decision.until):
                    while changes.count == held.changes:
                        await changes.wait()
                self._deciding.due = True
                self._later(self._requests)


def _to_nobody(direction: Direction) -> None:
    del direction
