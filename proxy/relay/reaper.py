"""Looks after connections once a second: ends those that stall, are idle for too long or have lost their follower,
takes back unused memory.

There is no timer per connection and no clock on the byte path: a connection counts the bytes it moves, and a count that
is the same at two looks means that nothing moved in between. Where the process comes close to its limit of memory, it
gives way in the order of Envoy's overload manager: from nine tenths of the limit on no connection is accepted, from
nineteen twentieths on nothing new is remembered or held, so that new traffic passes untouched. Knows no sockets and no
frames.

Invariants: a connection that moves bytes is never ended for being idle; a frame that passes without being held may take
as long as it likes.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import trio

from ..process.resources import container_limit, most_bytes, resident_bytes
from .direction import Cause

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ..config.settings import LimitSettings
    from ..logs.log import Log
    from ..throttle.replicas import ReplicaCountLimit
    from .in_flight import Buffers, InFlightRequests
    from .transfer import Window
    from .transport import Transport

LOOK_SECONDS = 1.0
"""How often each connection is looked at; the timeouts that it may exceed are of 30 seconds and more."""
MEMORY_LOOKS = 4
"""How often memory is looked at in `LOOK_SECONDS`. What requests of many partitions take grows by 100 MB a second at
most, so by 25 MB between two looks."""
REST_SECONDS = 10.0
"""A connection that moved nothing for so long gives the pages of its buffers back to the system."""
STOPS_ACCEPTING, REMEMBERS_NOTHING_NEW = 0.9, 0.95
"""The shares of the limit at which nothing is accepted, and nothing new is remembered. The limit is
`limits.max_memory`, or nine tenths of the container's."""
_LOOKS_AT_ONCE = 256
"""Connections looked at between two checkpoints."""


@dataclass(slots=True, eq=False)
class _Tended:
    in_flight: InFlightRequests
    windows: tuple[Window, ...]
    follower: Transport
    end: Callable[[], None]
    moved: int
    still_since: float
    reading: int = 0
    """The number of the frame that was being read whole at the last look; 0: none."""
    reading_since: float = 0.0
    has_rested: bool = False


class Remembering(Protocol):
    """A throttle, or what has several: it remembers replicas, a bounded number of them."""

    @property
    def remembered(self) -> ReplicaCountLimit: ...

    def recount(self) -> None: ...


class Reaper:
    """Looks after all connections of the process: one task."""

    def __init__(
        self,
        limits: LimitSettings,
        buffers: Buffers,
        throttles: Iterable[Remembering],
        log: Log,
        *,
        resident: Callable[[], int] = resident_bytes,
        container: Callable[[], int] = container_limit,
    ) -> None:
        self._limits = limits
        self.max_memory_bytes = most_bytes(limits.max_memory_bytes, container())
        """The process's limit; 0: none."""
        self.buffers = buffers
        self._throttles = tuple(throttles)
        self._log = log
        self._resident = resident
        self._tended: set[_Tended] = set()
        self.of_brokers = 0
        """How many connections were brokers' at the last look."""
        self.resident_bytes = 0
        self.stops_accepting = False

    @contextmanager
    def tends(
        self, in_flight: InFlightRequests, windows: tuple[Window, ...], follower: Transport, end: Callable[[], None]
    ) -> Iterator[None]:
        """Watch a connection while the block lasts; `end` is called if it is to end."""
        tended = _Tended(in_flight, windows, follower, end, in_flight.moved, trio.current_time())
        self._tended.add(tended)
        try:
            yield
        finally:
            self._tended.discard(tended)

    async def run(self) -> None:
        while True:
            for _ in range(MEMORY_LOOKS):
                await trio.sleep(LOOK_SECONDS / MEMORY_LOOKS)
                self.look_at_memory()
            for throttle in self._throttles:
                throttle.recount()
            of_brokers = 0
            for number, tended in enumerate(tuple(self._tended), 1):
                self._look(tended, trio.current_time())
                clients = tended.in_flight.attached_clients
                of_brokers += clients is None or clients.is_of_broker
                if number % _LOOKS_AT_ONCE == 0:
                    await trio.lowlevel.checkpoint()
            self.of_brokers = of_brokers

    def look_at_memory(self) -> None:
        most = self.max_memory_bytes
        self.resident_bytes = self._resident()
        stops = bool(most) and self.resident_bytes >= STOPS_ACCEPTING * most
        full = bool(most) and self.resident_bytes >= REMEMBERS_NOTHING_NEW * most
        if (stops, full) != (self.stops_accepting, self.buffers.is_memory_short):
            tell = self._log.warning if stops else self._log.info
            tell(
                "memory_short" if stops else "memory_sufficient",
                resident_bytes=self.resident_bytes,
                max_memory_bytes=most,
                remembers_nothing_new=full,
            )
        self.stops_accepting = stops
        self.buffers.is_memory_short = full
        for throttle in self._throttles:
            throttle.remembered.is_memory_short = full

    def _look(self, tended: _Tended, now: float) -> None:
        in_flight, limits = tended.in_flight, self._limits
        if in_flight.clients is not None and in_flight.clients.muted_until > now:
            tended.reading_since = now  # what is unread waits for us; that a peer has gone, or is idle, still counts
        if in_flight.reading != tended.reading:
            tended.reading, tended.reading_since = in_flight.reading, now
        elif in_flight.reading and now - tended.reading_since >= limits.frame_timeout_seconds:
            in_flight.end(Cause.FRAME_TIMEOUT, f"no whole request within {limits.frame_timeout_seconds:g} s")
            tended.end()
        if in_flight.moved != tended.moved:
            tended.moved, tended.still_since, tended.has_rested = in_flight.moved, now, False
            return
        still_seconds = now - tended.still_since
        has_left = tended.follower.hung_up or in_flight.cause is Cause.FOLLOWER_CLOSED
        if has_left and still_seconds >= limits.frame_timeout_seconds:
            # It was owed answers, and its leader hangs: nothing else would end the connection.
            in_flight.end(Cause.FOLLOWER_CLOSED, f"nothing moved for {limits.frame_timeout_seconds:g} s after that")
            tended.end()
        elif still_seconds >= limits.idle_timeout_seconds:
            in_flight.end(Cause.IDLE, f"nothing moved for {limits.idle_timeout_seconds:g} s")
            tended.end()
        elif still_seconds >= REST_SECONDS and not tended.has_rested:
            tended.has_rested = True
            for window in tended.windows:
                window.rest()
