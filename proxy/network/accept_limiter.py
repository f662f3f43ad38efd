"""Accepts connections while there is room for more: enough descriptors, few enough connections, enough memory.

A connection that is not accepted waits in the kernel's backlog, and its peer tries again. So of all that could give
way, accepting is the first (Envoy's overload manager, too, stops accepting before it does anything else). The last
tenth of the places is kept for brokers. Knows listeners and counts, not the purpose of a connection.

Invariants: no error of an accept ends the accepting; one log line a minute tells of each cause.
"""

from __future__ import annotations

import enum
import math
import socket
from collections import Counter
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import trio

from ..changes import Changes
from ..process.resources import most_connections, open_files_limit, too_few_open_files
from ..relay.transport import detached
from .silent_peers import SilentPeers

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ..config.settings import LimitSettings
    from ..logs.log import Log

MAX_AT_ONCE = 64
"""Connections that are accepted before those that are open have their turn again: a few milliseconds."""
RETRY_SECONDS = 0.1
"""The pause after an accept that failed because there was no descriptor, or no memory in the kernel."""
TELL_SECONDS = 60.0
KEPT_SHARE = 10
"""One of so many places is kept for connections of brokers."""
LASTS_SECONDS = 1.0
"""A lack of descriptors is over when no accept has failed for so long: while connections wait, one fails every
`RETRY_SECONDS`."""


class Pause(enum.StrEnum):
    """Reason why no connection is accepted; the value is the metric's label."""

    CONNECTIONS = "connections"
    """The number of open connections is at `limits.max_connections`, or at the bound by the limit of open files."""
    DESCRIPTORS = "descriptors"
    """The kernel had no descriptor, or no memory, for another."""
    MEMORY = "memory"
    """The process nears `limits.max_memory`."""


class AcceptLimiter:
    """Accepts connections within limits on their number, descriptors and memory. Counts are read at scrape time."""

    def __init__(
        self,
        limits: LimitSettings,
        log: Log,
        *,
        memory_is_short: Callable[[], bool] = lambda: False,
        of_brokers: Callable[[], int] = lambda: 0,
    ) -> None:
        """Create a limiter. `of_brokers` returns the number of open connections that are known to be brokers'."""
        self._limits = limits
        self._of_brokers = of_brokers
        self.broker_addresses: frozenset[str] = frozenset()
        """The addresses of the brokers that the cluster names; empty: not known."""
        self._log = log
        self._memory_is_short = memory_is_short
        self.open_files = open_files_limit()
        self.most = min(limits.max_connections or math.inf, most_connections(self.open_files))
        self.open = 0
        self.pauses: Counter[Pause] = Counter()
        self.refused_of_source = 0
        self.refused_of_others = 0
        """Connections that were closed, since the places that were left are for brokers."""
        self.silent = SilentPeers(limits.frame_timeout_seconds)
        """The open connections that make room for others."""
        self._by_source: Counter[str] = Counter()
        self._left = Changes()
        self._told: dict[str, float] = {}
        self._failed_at = -math.inf
        """The time of the last accept that failed."""

    @property
    def pausing(self) -> Pause | None:
        """The reason why no connection is accepted now; None while there is room."""
        pause = self._pause()
        if pause is None and trio.current_time() - self._failed_at < LASTS_SECONDS:
            return Pause.DESCRIPTORS
        return pause

    def pause_in_words(self) -> str | None:
        """Return why no connection is accepted, ready to print; None while there is room."""
        pause = self.pausing
        return None if pause is None else f"no connection is accepted ({pause.value}): {self.open} are open"

    def few_open_files(self) -> str | None:
        """Return a warning about a limit of open files that is too low; None if it is not."""
        return too_few_open_files(self.open_files, self._limits.max_connections)

    async def serve(
        self,
        listener: trio.SocketListener,
        handle: Callable[[socket.socket], Awaitable[None]],
        handlers: trio.Nursery,
        *,
        is_for_brokers: bool = False,
    ) -> None:
        """Accept until cancelled. Each connection is handled in `handlers`; an error that it raises ends that
        connection alone. `is_for_brokers`: nobody else dials this listener."""
        own = listener.socket
        with socket.fromfd(own.fileno(), own.family, own.type) as waiting:
            waiting.settimeout(0)
            while True:
                await self._wait_for_room(is_for_brokers=is_for_brokers)
                try:
                    first = detached(await listener.accept())
                    room = self.most - self.open if is_for_brokers else self._room
                    accepted = [first, *_accept_at_once(waiting, min(room, MAX_AT_ONCE) - 1)]
                except OSError as error:
                    await self._cannot_accept(error)
                    continue
                for sock in accepted:
                    source = _source(sock)
                    if source is not None and self._enters(source, is_for_brokers=is_for_brokers):
                        handlers.start_soon(self._handle, partial(handle, sock), sock.close, source)
                    else:
                        sock.close()

    def hold(
        self, handlers: trio.Nursery, source: str, run: Callable[[], Awaitable[None]], close: Callable[[], object]
    ) -> None:
        """Run a connection that was accepted before, by another process: it counts like all others."""
        self.open += 1
        self._by_source[source] += 1
        handlers.start_soon(self._handle, run, close, source)

    async def _handle(self, run: Callable[[], Awaitable[None]], close: Callable[[], object], source: str) -> None:
        try:
            await run()
        except* Exception as errors:  # noqa: BLE001 - the others share a nursery with this connection
            close()
            self._log.error("connection_failed", peer=source, exc_info=errors)
        finally:
            self.open -= 1
            self._by_source[source] -= 1
            if not self._by_source[source]:
                del self._by_source[source]
            self._left.notify()

    @property
    def most_of_others(self) -> float:
        """The number of connections that may be others than brokers'."""
        return self.most if math.isinf(self.most) else self.most - self.most // KEPT_SHARE

    @property
    def _room(self) -> float:
        """The number of further connections that may be others than brokers'."""
        return min(self.most - self.open, self.most_of_others - self.open + self._of_brokers())

    def _enters(self, source: str, *, is_for_brokers: bool) -> bool:
        most = self._limits.max_connections_per_source
        if not is_for_brokers and source not in self.broker_addresses and self._room <= 0:
            self.refused_of_others += 1
            self._tell("connection_refused", reason="others", source=source, open=self.open)
            return False
        if most and self._by_source[source] >= most:
            self.refused_of_source += 1
            self._tell("connection_refused", reason="source", source=source, open=most)
            return False
        self.open += 1
        self._by_source[source] += 1
        return True

    async def _wait_for_room(self, *, is_for_brokers: bool) -> None:
        if self._room < MAX_AT_ONCE:
            self.silent.make_room(MAX_AT_ONCE)
        pause = self._pause(is_for_brokers=is_for_brokers)
        if pause is None:
            return
        self.pauses[pause] += 1
        self._tell("accept_paused", reason=pause.value, open=self.open)
        while self._pause(is_for_brokers=is_for_brokers) is not None:
            self.silent.make_room(MAX_AT_ONCE)
            with trio.move_on_after(RETRY_SECONDS):
                await self._left.wait()

    def _pause(self, *, is_for_brokers: bool = False) -> Pause | None:
        knows_brokers = is_for_brokers or bool(self.broker_addresses)  # then others are closed where room is short
        if self.open >= self.most or (self._room <= 0 and not knows_brokers):
            return Pause.CONNECTIONS
        return Pause.MEMORY if self._memory_is_short() else None

    async def _cannot_accept(self, error: OSError) -> None:
        """Log and count an error of accept, which mostly is a lack of descriptors, and pause. Trio's own accept loop
        would log 22 KB of tracebacks a second."""
        self._failed_at = trio.current_time()
        self.pauses[Pause.DESCRIPTORS] += 1
        self._tell("accept_paused", reason=Pause.DESCRIPTORS.value, open=self.open, error=str(error))
        await trio.sleep(RETRY_SECONDS)

    def _tell(self, event: str, *, reason: str, **facts: object) -> None:
        """Log it, but no more than once a minute for each reason."""
        now = trio.current_time()
        if now - self._told.get(reason, -math.inf) >= TELL_SECONDS:
            self._told[reason] = now
            self._log.warning(event, reason=reason, **facts)


def _accept_at_once(listener: socket.socket, most: float) -> list[socket.socket]:
    """Return the connections that wait, up to `most`. Trio would go through all its tasks for each of them."""
    found: list[socket.socket] = []
    with suppress(OSError):  # nothing waits any more; any other error is raised by the next accept as well
        while len(found) < most:
            sock, _ = listener.accept()
            sock.settimeout(0)
            found.append(sock)
    return found


def _source(sock: socket.socket) -> str | None:
    """Return the peer's address without its port; None if the connection has ended already."""
    try:
        return str(sock.getpeername()[0])
    except OSError:
        return None
