"""Every connection of the process, from the accept until a drain is over: accepted, received, relayed, for both roles.

Knows the parts and their order; decides nothing about traffic. Invariant: when `accept` returns, every
listener and every connection it served is closed.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import trio

from ..clients.frames import attach_clients
from ..handover.serving import go_on
from ..process.supervision import Task
from ..relay.connection import relay
from ..relay.poller import open_poller
from ..roles import Role

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from ..changes import Changes
    from ..clients.throttle import ClientThrottle
    from ..config.settings import LimitSettings
    from ..config.settings_values import Address
    from ..handover.serving import HandOver
    from ..journal.reports import JournalReports
    from ..logs.log import Log
    from ..network.accept_limiter import AcceptLimiter
    from ..network.connection_setup import ConnectionSetup, Route
    from ..process.supervision import Supervisor
    from ..relay.connection import Dial, Draining
    from ..relay.reaper import Reaper
    from ..relay.transport import Transport
    from ..statistics.counters import Unreachable
    from ..throttle.role_throttle import RoleThrottle


class Shared(NamedTuple):
    """The parts of the process that every relayed connection uses and that outlive it."""

    limits: LimitSettings
    changes: Changes
    draining: Draining
    reports: JournalReports
    reaper: Reaper
    log: Log
    clients: ClientThrottle


class Connections:
    """The connections of a process. `supervisor` handles failures while listeners are served."""

    def __init__(
        self,
        shared: Shared,
        throttles: Mapping[Role, RoleThrottle],
        *,
        accept_limiter: AcceptLimiter,
        connection_setup: ConnectionSetup,
        handover: HandOver,
        supervisor: Supervisor,
    ) -> None:
        self._shared = shared
        self._throttles = throttles
        self._accept_limiter = accept_limiter
        self._connection_setup = connection_setup
        self._handover = handover
        self._supervisor = supervisor

    async def accept(self, listeners: Sequence[tuple[Route, trio.SocketListener]]) -> None:
        """Serve every listener until a drain is over: at its deadline the rest is closed. Listeners stay open until
        a process that takes over is certain to serve them."""
        limits, changes, draining, reports, reaper, log, clients = self._shared
        async with open_poller(self.poller_failed) as poller, trio.open_nursery() as handlers:
            relayed = partial(
                relay, limits=limits, changes=changes, draining=draining, poller=poller,
                log=log, ended=reports.connection_ended, reaper=reaper, clients=partial(attach_clients, clients),
            )  # fmt: skip
            async with AsyncExitStack() as opened:
                for _, listener in listeners:
                    await opened.enter_async_context(listener)
                is_over = False
                while not is_over:
                    async with trio.open_nursery() as accepting:
                        for route, listener in listeners:
                            run = partial(
                                self._accept_limiter.serve,
                                listener,
                                self._handler(route, relayed),
                                handlers,
                                is_for_brokers=route.role is Role.FOLLOWER,
                            )
                            kept = partial(self._supervisor.keep, Task.ACCEPT, run)
                            accepting.start_soon(self._handover.accept, kept)
                        accepting.start_soon(
                            self._handover.take_connections,
                            partial(self._accept_limiter.hold, handlers),
                            partial(
                                go_on, throttles=self._throttles, meet=self._connection_setup.meet, relayed=relayed
                            ),
                        )
                        await draining.begun.wait()
                        accepting.cancel_scope.cancel()
                    self._accept_limiter.silent.look_again()
                    is_over = await self._handover.is_over()
            handlers.cancel_scope.deadline = trio.current_time() + limits.drain_seconds

    def poller_failed(self, error: BaseException) -> None:
        """Log an error that a poller survived."""
        self._supervisor.tell(Task.POLLER, error, pause_seconds=0.0)

    def _handler(
        self, route: Route, relayed: Callable[..., Awaitable[None]]
    ) -> Callable[[socket.socket], Awaitable[None]]:
        async def handle(sock: socket.socket) -> None:
            if not await self._accept_limiter.silent.has_spoken(sock, self._shared.draining):
                sock.close()
                return
            async with self._connection_setup.receive(route, sock) as received:
                if received is None:
                    return
                await relayed(
                    received.follower,
                    received.upstream,
                    peer=received.peer,
                    throttle=self._throttles[route.role],
                    dial=_noted(received.dial, self._throttles[route.role].statistics.unreachable),
                    clients=partial(attach_clients, self._shared.clients, user=received.user),
                )

        return handle


def _noted(dial: Dial, unreachable: Unreachable) -> Dial:
    """Return the same, with a note of who can be reached and who cannot."""

    async def dial_and_note(address: Address, *, timeout_seconds: float) -> Transport:
        try:
            leader = await dial(address, timeout_seconds=timeout_seconds)
        except OSError as error:
            unreachable.failed(str(address), str(error) or type(error).__name__, trio.current_time())
            raise
        unreachable.reached(str(address))
        return leader

    return dial_and_note
