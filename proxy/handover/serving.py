"""The part of a server that is handed over, and the server in the next process that takes it.
 Knows throttles, listeners and connections, and puts `old_process` and `new_process` between them. Invariants: a server
that gives accepts nothing and answers no page until the process that takes has failed. A server that drains for another
reason gives the socket of its pages, which is still open. A server that takes accepts nothing, answers no page and
offers itself to no other process before the other gives."""

from __future__ import annotations

import math
import socket
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import trio

from protocol.fetch.walker import prepare_walkers

from ..clients.uplink import LISTENER
from ..config.settings_values import Address
from ..control.directory import handover_path
from ..process.supervision import Task
from ..relay.connection import Draining, relay
from ..relay.transport import PlainSocket
from ..roles import Role
from .connection_state import restore
from .ending_turns import SPREAD_SECONDS, EndingTurns
from .messages import Begin, Confirmed, ConnectionState
from .new_process import Inherited, inherit
from .next_process import start_next_process
from .old_process import Listener, OldProcess

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from admission.shares import BudgetNode

    from ..clients.entity import ClientDebt
    from ..clients.throttle import ClientThrottle
    from ..config.settings import Settings
    from ..control.override_keeper import OverrideKeeper
    from ..logs.log import Log
    from ..process.supervision import Supervisor
    from ..process.systemd import ServiceManager
    from ..quotas.override import Override
    from ..relay.transport import Transport
    from ..throttle.role_throttle import RoleThrottle

    Hold: TypeAlias = Callable[[str, Callable[[], Awaitable[None]], Callable[[], object]], None]
    GoOn: TypeAlias = Callable[..., Awaitable[None]]


ALONE = frozenset({Task.HTTP, Task.CONTROL, Task.OVERRIDES})
"""The tasks of the serving process alone: pages, and overrides, which a process that begins to serve, or does so again,
reads as the other stored them."""


class HandOver:
    """Hands a server over, and takes a server over."""

    def __init__(
        self,
        settings: Settings,
        throttles: Mapping[Role, RoleThrottle],
        draining: Draining,
        *,
        clients: ClientThrottle,
        manager: ServiceManager,
        overrides: OverrideKeeper | None = None,
        record: Callable[[str, str], None] = lambda *_: None,
        log: Log,
    ) -> None:
        """Hand over a server. `overrides`: the keeper whose overrides go over if the disk does not take them. `record`
        is told of hand-overs: the event, and of what."""
        self.broker = settings.broker.id
        self._serving: set[trio.CancelScope] = set()
        """The cancel scopes of tasks that only the serving process runs; cancelled when another process takes over."""
        self._close_pages: Callable[[], None] = lambda: None
        self._serves = trio.Event()
        """An event, set while this process accepts and answers pages."""
        self._serves.set()
        self._is_successor = trio.Event()
        """An event, set once no process before this one takes anything back."""
        self._is_successor.set()
        self._decided = trio.Event()
        """An event, set once it is known whether the process that is given everything keeps it."""
        self._is_told_to_end = False
        self.taken = 0
        directory = settings.control.directory
        self._path = None if directory is None else handover_path(directory)
        self._throttles = throttles
        self._clients = clients
        self._draining = draining
        self._manager = manager
        self._overrides = overrides
        self._record = record
        self._log = log
        self._listeners: Mapping[str, tuple[Address, socket.socket | trio.socket.SocketType]] = {}
        self._inheritance: Inherited | None = None
        self._giving = OldProcess(self._path, self, log)
        self._kept = Draining()
        """The end of the connections whose TLS a process of version 0.1.0 keeps for this one."""
        self._kept.give = EndingTurns(log).give

    async def ask(self, serves: Sequence[tuple[str, Address]] = ()) -> Inherited | None:
        """Ask the previous process for its listeners; `serves`: those of this one, each by its setting. Raises
        ConfigurationError."""
        self._inheritance = None if self._path is None else await inherit(self._path, self.broker, serves)
        if self._inheritance is None:
            self._log.info("nothing_to_take_over")
            return None
        self._serves, self._is_successor = trio.Event(), trio.Event()
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
        """Run a background task until cancelled; what one process alone may do, while this one is it."""
        if task not in ALONE:
            await supervisor.keep(task, run)
            return
        while True:
            await self._serves.wait()
            with trio.CancelScope() as scope:
                self._serving.add(scope)
                await supervisor.keep(task, run)
            self._serving.discard(scope)

    async def run(self) -> None:
        """Offer itself, until cancelled."""
        await self._is_successor.wait()
        await self._giving.run()

    async def accept(self, run: Callable[[], Awaitable[None]]) -> None:
        """Run the accepting tasks, as soon as this process is the one that accepts."""
        await self._serves.wait()
        await run()

    async def is_over(self) -> bool:
        """Tell, after a drain has begun, whether this process accepts nothing more; false: the process that was to take
        over failed. Returns when that is known."""
        if self._draining.give is not None:
            await self._decided.wait()
        return self._draining.begun.is_set()

    async def take_connections(self, hold: Hold, go_on: GoOn) -> None:
        """Take every connection of the previous process, until that process is gone. `hold` runs a connection
        as if it had been accepted from its source, and closes it if that fails.

        If the other process has given this one up and serves on, this one drains: two would let twice the quota
        through.
        """
        inheritance, self._inheritance = self._inheritance, None
        if inheritance is None:
            return
        try:
            await self._take_all(inheritance, hold, go_on)
            if not inheritance.confirmed and await inheritance.serves_on():
                self._log.error(
                    "handover_failed", error="the process before this one gave up waiting and serves on: this one ends"
                )
                self._draining.begun.set()
                return
            if not inheritance.confirmed:
                told = "the process before this one ended before it had handed everything over"
                self._log.warning("handover_failed", error=told)
            self._log.info("taken_over", connections=self.taken)
            self._record("taken_over", f"{self.taken} connections of the process before this one")
            self._serves.set()
            self._is_successor.set()
            self._kept.begun.set()
        finally:
            inheritance.close()

    async def _take_all(self, inheritance: Inherited, hold: Hold, go_on: GoOn) -> None:
        try:
            await inheritance.ready()
            async with trio.open_nursery() as nursery, aclosing(inheritance.messages()) as messages:
                nursery.start_soon(inheritance.report)
                async for message, socks in messages:
                    if isinstance(message, Begin):
                        self._begin(message)
                    elif isinstance(message, Confirmed):
                        self._is_successor.set()
                    elif isinstance(message, ConnectionState):
                        self._take_one(message, socks, hold, go_on)
                nursery.cancel_scope.cancel()
        except* OSError as errors:  # it has ended in between: there is nothing more to take
            self._log.warning("handover_failed", error=str(errors.exceptions[0]))

    def _begin(self, message: Begin) -> None:
        now = trio.current_time()
        for name, budget in self._budgets().items():
            budget.restore(message.available_bytes.get(name), now)
        self._clients.take_debts(message.client_debts, now)
        if self._overrides is not None and message.unstored is not None:
            self._overrides.inherit(message.unstored)
        self._serves.set()

    def _take_one(self, state: ConnectionState, socks: Sequence[socket.socket], hold: Hold, go_on: GoOn) -> None:
        self.taken += 1
        follower, leader = socks
        source = _source(follower) if state.source is None else state.source
        ends = PlainSocket(follower), PlainSocket(leader)
        is_kept = any(sock.family == socket.AF_UNIX for sock in socks)
        run = partial(go_on, state, *ends, draining=self._kept if is_kept else self._draining)
        hold(source, run, partial(_close, ends))

    def end_soon(self) -> None:
        """End the process soon, before or after another takes over: it takes nothing back."""
        self._is_told_to_end = True
        self._decided.set()

    # Called by `old_process`:

    def listening(self) -> Sequence[Listener]:
        """Return those that are open: a drain closes all but the pages', and their descriptors may be other files by
        now."""
        found = (Listener(key, address, sock.fileno()) for key, (address, sock) in self._listeners.items())
        return [each for each in found if each.descriptor >= 0]

    def available_bytes(self) -> Mapping[str, float | None]:
        now = trio.current_time()
        return {name: budget.state(now) for name, budget in self._budgets().items()}

    def _budgets(self) -> Mapping[str, BudgetNode]:
        """Return the budgets that both processes keep to together."""
        of_roles = {role.value: throttle.budget for role, throttle in self._throttles.items()}
        return {**of_roles, LISTENER[0]: self._clients.uplink}

    def client_debts(self) -> list[ClientDebt]:
        return self._clients.debts(trio.current_time())

    def unstored(self) -> list[Override] | None:
        return None if self._overrides is None else self._overrides.unstored

    def fetch_versions(self) -> Sequence[int]:
        return sorted({each for throttle in self._throttles.values() for each in throttle.statistics.fetch_requests})

    def is_ending(self) -> bool:
        return self._is_told_to_end

    def hand_over(self, giving: OldProcess) -> None:
        self._serves = trio.Event()
        for scope in self._serving:
            scope.cancel()
        now = trio.current_time()
        for throttle in self._throttles.values():
            # The other process has the rest. Connections that wait for their end here are granted nothing on top.
            budget = throttle.budget
            if math.isfinite(budget.bytes_per_second):
                budget.restore(-budget.bytes_per_second * SPREAD_SECONDS, now)
        if not self._is_told_to_end:
            self._decided = trio.Event()
        self._draining.give = giving.give
        self._draining.begun.set()

    def take_back(self) -> None:
        if self._is_told_to_end:
            self._draining.give = None
            return
        self._draining.call_off()
        self._record("handover_failed", "this process serves on: its log says why")
        self._serves.set()
        self._decided.set()

    def confirm(self, process: int) -> None:
        self._record("handed_over", f"to process {process}")
        # systemd that is stopping this process would wait for the end of the one that replaces it.
        if not self._is_told_to_end:
            self._manager.replaced_by(process)
        # If the other process dies while this one still drains, a process that is started then can listen there.
        self._close_pages()
        self._decided.set()

    def start_next(self) -> None:
        """Start the program anew, as it is installed now, to take over from this process. Never raises."""
        start_next_process(self._log, has_taken_over=lambda process: self._giving.successor == process)


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
    meet: Callable[[Address, str | None], object],
    relayed: Callable[..., Awaitable[None]] = relay,
    draining: Draining,
) -> None:
    """Continue a connection that another process relayed before.

    `meet`: called with the leader of a follower's connection, which no setting may name. `relayed`: `relay`, with all
    that every connection is given. `draining`: tells when it is to end.
    """
    upstream, role = Address(*state.upstream), Role(state.role)
    if role is Role.FOLLOWER:
        meet(upstream, None)

    async def dial(address: Address, *, timeout_seconds: float) -> Transport:
        del address, timeout_seconds
        return leader

    await relayed(
        follower,
        upstream,
        peer=state.link.peer,
        throttle=throttles[role],
        dial=dial,
        draining=draining,
        restore=lambda connection: restore(connection, state, trio.current_time()),
    )
