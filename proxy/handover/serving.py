"""The part of a server that is handed over, and what the server in the next process makes of it.

Knows throttles, listeners and connections, and puts `giving` and `taking` between them. Invariant: a server that gives
accepts nothing more, answers no page and drains. A server that drains for another reason gives what it still has open:
the socket of its pages. A server that takes is ready before it asks for the first connection.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING

import trio

from protocol.fetch.walker import prepare_walkers

from ..config.settings_values import Address
from ..process.supervision import Task
from ..relay.connection import relay
from ..relay.transport import PlainSocket
from ..roles import Role
from .channel import ChannelError, address_of
from .connection_state import restore
from .giving import Giving, Listener
from .link_state import available_bytes, restore_budget
from .taking import Inheritance, inherit

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from ..config.settings import Settings
    from ..logs.log import Log
    from ..process.service_manager import ServiceManager
    from ..process.supervision import Supervisor
    from ..relay.connection import Draining
    from ..relay.transport import Transport
    from ..throttle.role_throttle import RoleThrottle
    from .kept_ends import KeptEnds
    from .states import ConnectionState

OPTION = "--take-over"


class HandOver:
    """Of one server, both ways."""

    def __init__(
        self,
        settings: Settings,
        throttles: Mapping[Role, RoleThrottle],
        draining: Draining,
        *,
        manager: ServiceManager,
        log: Log,
    ) -> None:
        self.broker = settings.broker.id
        self._pages: list[trio.CancelScope] = []
        """The scopes in which pages are answered; cancelled when another process answers them."""
        self._close_pages: Callable[[], None] = lambda: None
        self.taken = 0
        self._address = address_of(settings.path, settings.broker.id)
        self._throttles = throttles
        self._draining = draining
        self._manager = manager
        self._log = log
        self._listeners: Mapping[str, tuple[Address, socket.socket | trio.socket.SocketType]] = {}
        self._inheritance: Inheritance | None = None
        self._giving = Giving(self._address, self, log)

    async def ask(self) -> Inheritance | None:
        """Ask the process before this one for its listeners. Raises ConfigurationError."""
        self._inheritance = await inherit(self._address, self.broker)
        if self._inheritance is None:
            self._log.info("nothing_to_take_over")
            return None
        for role, throttle in self._throttles.items():
            restore_budget(throttle, self._inheritance.available_bytes.get(role.value), trio.current_time())
        for version in self._inheritance.fetch_versions:
            prepare_walkers(version)
        return self._inheritance

    def listens(
        self,
        listeners: Mapping[str, tuple[Address, socket.socket | trio.socket.SocketType]],
        *,
        close_pages: Callable[[], None],
    ) -> None:
        """Offer these listening sockets to the next process, each by its setting and with the address that was
        configured. `close_pages` closes the socket that the pages are served on."""
        self._close_pages = close_pages
        self._listeners = listeners

    async def keep(self, supervisor: Supervisor, task: Task, run: Callable[[], Awaitable[None]]) -> None:
        """Run a background task until cancelled; pages are answered until another process does."""
        if task not in (Task.HTTP, Task.CONTROL):
            await supervisor.keep(task, run)
            return
        with trio.CancelScope() as scope:
            self._pages.append(scope)
            await supervisor.keep(task, run)
        # Their addresses are freed: if the other process dies while this one still drains, a process that is started
        # then can listen there.
        self._close_pages()

    async def run(self) -> None:
        """Offer itself, until cancelled."""
        await self._giving.run()

    async def take(
        self,
        hold: Callable[[str, Callable[[], Awaitable[None]], Callable[[], object]], None],
        go_on: Callable[[ConnectionState, PlainSocket, PlainSocket], Awaitable[None]],
    ) -> None:
        """Take every connection of the process before this one, until that process is gone. `hold` runs a connection
        like one that was accepted from its source, and closes it if that fails.

        If the other process has given up waiting and serves on, this one drains: two would let twice the quota through.
        """
        if self._inheritance is None:
            return
        try:
            await self._inheritance.ready()
            await self._take_all(self._inheritance, hold, go_on)
        except ChannelError as error:  # it has ended in between: there is nothing more to take
            self._log.warning("handover_failed", error=str(error))
        if await self._inheritance.serves_on():
            self._log.error(
                "handover_failed", error="the process before this one gave up waiting and serves on: this one ends"
            )
            self._draining.begun.set()
        else:
            self._log.info("taken_over", connections=self.taken)
        self._inheritance.close()

    async def _take_all(
        self,
        inheritance: Inheritance,
        hold: Callable[[str, Callable[[], Awaitable[None]], Callable[[], object]], None],
        go_on: Callable[[ConnectionState, PlainSocket, PlainSocket], Awaitable[None]],
    ) -> None:
        """Raises ChannelError."""
        async with aclosing(inheritance.connections()) as connections:
            async for state, follower, leader in connections:
                self.taken += 1
                source = _source(follower) if state.source is None else state.source
                ends = PlainSocket(follower), PlainSocket(leader)
                hold(source, partial(go_on, state, *ends), partial(_close, ends))

    def keep_tls(self, kept: KeptEnds | None) -> None:
        """Keep the TLS sockets of connections that are handed over in `kept`; None: such connections end."""
        self._giving.kept = kept

    def end_soon(self) -> None:
        """This process is told to end, before or after another one took over: close its TLS sockets after the grace."""
        if self._giving.kept is not None:
            self._giving.kept.end_soon()

    # What `giving` calls on a server:

    def listening(self) -> Sequence[Listener]:
        """Those that are open: a drain closes all but the pages', and their descriptors may be other files by now."""
        found = (Listener(key, address, sock.fileno()) for key, (address, sock) in self._listeners.items())
        return [each for each in found if each.descriptor >= 0]

    def available_bytes(self) -> Mapping[str, float | None]:
        now = trio.current_time()
        return {role.value: available_bytes(throttle, now) for role, throttle in self._throttles.items()}

    def fetch_versions(self) -> Sequence[int]:
        return sorted({each for throttle in self._throttles.values() for each in throttle.statistics.fetch_requests})

    def hand_over(self, giving: Giving, process: int) -> None:
        for scope in self._pages:
            scope.cancel()
        # systemd that is stopping this process would wait for the end of the one that replaces it.
        if not self._draining.begun.is_set():
            self._manager.replaced_by(process)
        self._draining.give = giving.give
        self._draining.begun.set()

    def start_next(self) -> None:
        """Start the program anew, as it is installed now, to take over from this process. Never raises."""
        if os.getpid() == 1:
            self._log.warning(
                "handover_refused", error="the first process of a container ends it: start another beside it"
            )
            return
        command = [*sys.orig_argv, *([] if OPTION in sys.orig_argv else [OPTION])]
        environ = os.environ.copy()
        # It names this process. The next one would take systemd's watchdog for another's, and be killed by it.
        environ.pop("WATCHDOG_PID", None)
        # Not a task of this server: the process may stay for TLS sockets alone, and its child must not become a zombie.
        trio.lowlevel.spawn_system_task(self._run_next, command, environ)

    async def _run_next(self, command: list[str], environ: dict[str, str]) -> None:
        """Start the next process and wait for its end."""
        try:
            started = await trio.lowlevel.open_process(
                command, env=environ, stdin=subprocess.DEVNULL, start_new_session=True
            )
        except OSError as error:
            self._log.warning("handover_refused", error=str(error))
            return
        self._log.info("next_process_started", pid=started.pid)
        status = await started.wait()
        if self._giving.taker != started.pid:
            told = f"process {started.pid} ended with status {status} before it took over; its standard error says why"
            self._log.warning("handover_failed", error=told)


def _source(follower: socket.socket) -> str:
    try:
        return str(follower.getpeername()[0])
    except OSError:  # it has gone in between
        return ""


def _close(ends: tuple[PlainSocket, PlainSocket]) -> None:
    for end in ends:
        end.close()


async def go_on(
    state: ConnectionState,
    follower: PlainSocket,
    leader: PlainSocket,
    *,
    throttles: Mapping[Role, RoleThrottle],
    relayed: Callable[..., Awaitable[None]] = relay,
) -> None:
    """Relay what another process relayed before. `relayed`: `relay`, with all that every connection is given."""

    async def dial(address: Address, *, timeout_seconds: float) -> Transport:
        del address, timeout_seconds
        return leader

    await relayed(
        follower,
        Address(*state.upstream),
        peer=state.link.peer,
        throttle=throttles[Role(state.role)],
        dial=dial,
        restore=lambda connection: restore(connection, state, trio.current_time()),
    )
