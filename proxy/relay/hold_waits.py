"""Waits for what the requests of one connection need besides their sockets: time, quotas, answers to earlier requests.

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

    from .direction import Direction
    from .fetch_handling import FetchHandler
    from .in_flight import InFlightRequests


class HoldWaits:
    """Waits for what holds up one connection's requests. `later` puts a direction in line for its next turn."""

    __slots__ = ("_answering", "_decision", "_held", "_in_flight", "_later", "_requests", "_responses", "for_answers")

    def __init__(
        self,
        in_flight: InFlightRequests,
        decision: FetchHandler,
        *,
        requests: Direction,
        responses: Direction,
        later: Callable[[Direction], None],
    ) -> None:
        self._in_flight = in_flight
        self._decision = decision
        self._requests = requests
        self._responses = responses
        self._later = later
        self._held = trio.Event()
        self.for_answers = False
        """True while requests wait for answers: whenever the direction of the responses has advanced, `look` is due."""
        self._answering = False
        """True while an answer of our own is on its way to the follower."""

    def close(self) -> None:
        """Drop the reference to the connection, which has ended, so that its memory is freed at once."""
        self._later = _to_nobody

    def begin(self) -> bool:
        """Hold the requests. Return True if they wait until a time, which `run` watches; False if for
        answers."""
        held = self._decision.held
        if held is not None and isinstance(held.decision, Hold) and not self._decision.due:
            self._held.set()
            return True
        if held is None and self._is_muted:
            self._held.set()
            return True
        self.for_answers = True
        self.look()
        return False

    def look(self) -> None:
        """Release the requests if what they wait for has happened.

        A held request that is to be answered here is answered once all earlier requests are, and the next request is
        read once all of that answer is sent. Where too many were in flight, reading goes on once there is room.

        Raises OSError when the follower's connection is broken, ProtocolError where an answer is due among bytes that
        are no frames.
        """
        held, transfer = self._decision.held, self._responses.transfer
        if held is None or isinstance(held.decision, Hold):  # one that is due waits for the end of an answer, too
            if self._in_flight.has_room_again:
                self.for_answers = False
                self._later(self._requests)
            return
        if isinstance(held.decision, Answer) and not self._answering:
            if self._in_flight.owes_response:
                if self._in_flight.opaque:
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
        self._decision.answered()
        self._later(self._requests)

    async def run(self) -> None:
        """Wait for each held request until its time has come or quotas have changed, and then have it decided again.

        Runs until cancelled.
        """
        changes = self._in_flight.changes
        while True:
            await self._held.wait()
            self._held = trio.Event()
            held = self._decision.held
            if held is None:
                await self._wait_unmuted()
                self._later(self._requests)
            elif isinstance(held.decision, Hold):
                with trio.move_on_at(held.decision.until):
                    while changes.count == held.changes:
                        await changes.wait()
                self._decision.due = True
                self._later(self._requests)

    @property
    def _is_muted(self) -> bool:
        clients = self._in_flight.clients
        return clients is not None and clients.muted_until > trio.current_time()

    async def _wait_unmuted(self) -> None:
        """Wait until a client's throttle time is over (KIP-219). What shortens it notifies `settled`."""
        while (clients := self._in_flight.clients) is not None and self._is_muted:
            with trio.move_on_at(clients.muted_until):
                await self._in_flight.settled.wait()


def _to_nobody(direction: Direction) -> None:
    del direction
