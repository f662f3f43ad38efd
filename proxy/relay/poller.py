"""Wakes the directions of every relayed connection without a Trio wake-up each: one epoll, one Trio task.

A small fetch needs two waits, a large one through Kafka's 64 KiB socket buffers one per 64 KiB. Relayed by a loop that
does nothing else, a small fetch costs 39 µs of CPU where Trio waits (epoll_ctl, a pass of its run loop), 26 where a
poller does, 22.5 by HAProxy (measured).

    epoll ──ready──▶ Poller.run ──advance──▶ the direction that waits for it

Knows transports and what their directions want, nothing of what flows. Edge-triggered: the kernel reports once that a
socket has become ready, not at every wait.

Invariant: an error of one direction ends its connection and never reaches the poller.
"""

from __future__ import annotations

import select
from contextlib import asynccontextmanager, suppress
from heapq import heappop, heappush
from itertools import count
from time import perf_counter, thread_time
from typing import TYPE_CHECKING, NamedTuple, Protocol

import trio

from .transport import READ, TURN, WRITE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from .direction import Direction
    from .transport import Transport

TURN_SECONDS = 0.0003
"""The longest that a direction goes on while others may be waiting. A fetch of a follower in sync waits for the turn of
another twice, there and back: beside eight greedy connections its median was 2.1 to 2.4 ms where a turn was 1 ms long,
1.0 to 1.2 where it is 0.3, and 0.9 without them; the greedy took no less (`benchmarks.beside_greedy`)."""
SLICE_SECONDS = 0.0002
"""The longest that a Fetch of many partitions, or its answer, is worked on before others have their turn."""
LONG_SECONDS = 0.0005
"""The length of a turn beyond which the kernel is asked how much of it this thread had a core."""
LITTLE_SECONDS = 0.0002
"""The sockets that are ready together are served in one round. Once a round has taken as long as a turn, a connection
is still served at once if it used no more than this above its free share, and for no longer than this. All others wait
in line."""
MAX_SECONDS = 0.05
"""The most that is remembered of what a connection used. Without a limit, a connection that had the core alone for a
minute would wait in line for the next ten minutes."""
FREE_SHARE = 0.1
"""The share of one core that a connection may use without waiting in line. A follower in sync that fetches 400 times a
second uses 0.03, and three times as much while other connections push its data out of the processor's caches."""
LINGER_SECONDS = 0.001
"""How long the poller waits in epoll for more events before it lets Trio run. The next events are usually microseconds
away, and to wait for them by way of Trio costs more. A millisecond is the least that epoll can wait, and nothing else
that runs under Trio is harmed by it."""
ROUND_SECONDS = 0.003
"""The longest time from one Trio checkpoint to the next, however much the poller has to do: everything else in the
process runs under Trio (HTTP, quotas, holds)."""
RETRY_SECONDS = 0.1
"""The pause after an error of the poller's own that came soon after another, so that a poller that fails all the time
leaves time for everything else."""
_ALL_EVENTS = select.EPOLLIN | select.EPOLLOUT | select.EPOLLRDHUP | select.EPOLLET if hasattr(select, "epoll") else 0
_READ_EVENTS = select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR if hasattr(select, "epoll") else 0
_HANGUP_EVENTS = _READ_EVENTS & ~select.EPOLLIN if hasattr(select, "epoll") else 0
_WRITE_EVENTS = select.EPOLLOUT | select.EPOLLHUP | select.EPOLLERR if hasattr(select, "epoll") else 0


class CpuAccount:
    """The account of the poller's time that one connection has used lately, by which connections take their turns. Time
    is shared, not bytes: a fetch of a thousand partitions costs a hundred times what a small one does, and bytes that
    are spliced cost next to nothing. So a turn ends by the clock, and a connection that used more than `FREE_SHARE` of
    a core lately goes on only after the connections that used less (Linux's interactive tasks, nginx's and HAProxy's
    budgets are the same thought). No connection is refused: those above their free share take the rest of the core in
    turns. A new connection counts as one that used much, until its use is known. Otherwise each of a hundred new
    connections a second, all with much to do, would be served before a follower in sync, which then waited for half a
    second. Used time is time on a core, not time on the clock: a connection whose turn other processes interrupted for
    20 ms did not use those 20 ms.

    Invariant: a connection that used less than `FREE_SHARE` lately never waits in line, except in its first moments.
    """

    __slots__ = ("_ended", "_used")

    def __init__(self, now: float) -> None:
        self._used = MAX_SECONDS
        """Seconds used above the free share when the last turn ended: a leaky bucket, full for a new connection."""
        self._ended = now

    def used(self, began: float, ended: float, seconds: float) -> None:
        """Count a turn from `began` to `ended`, in which the connection had a core for `seconds`."""
        left = self._used - (began - self._ended) * FREE_SHARE
        used = left + seconds if left > 0.0 else seconds
        self._used = used if used < MAX_SECONDS else MAX_SECONDS
        self._ended = ended

    @property
    def rank(self) -> float:
        """The connection with the lower rank used less lately. The order of two waiting connections never changes,
        since what both used wears off equally fast."""
        return self._used + self._ended * FREE_SHARE

    def debt(self, now: float) -> float:
        """Return seconds that the connection used lately above its free share; 0 or less: it is within its share."""
        return self._used - (now - self._ended) * FREE_SHARE


class Advances(Protocol):
    """A connection, as far as its poller knows it."""

    cpu: CpuAccount

    def advance(self, direction: Direction, turn_ends: float) -> None:
        """Advance one of its directions until then, by time.perf_counter; raises nothing."""

    def lost(self, error: Exception) -> None:
        """End the connection, which nothing wakes any more."""


class _End(NamedTuple):
    """A transport, and which directions wait for it."""

    transport: Transport
    reads: Direction
    writes: Direction
    connection: Advances


class Poller:
    """Wakes all directions of the process. `run` is a Trio task, without which no waiting direction goes on."""

    def __init__(self, failed: Callable[[BaseException], None] | None = None) -> None:
        self._epoll = select.epoll()
        self._ends: dict[int, _End] = {}
        self._waiting: list[tuple[float, int, Advances, Direction]] = []
        """A heap of the directions that wait for their turn, the one whose connection used least lately first."""
        self._entered = count()
        self._serving = False
        self._time_on_core = 0.0, 0.0
        """The time (perf_counter) of the last question how long this thread had a core, and the answer; seconds."""
        self._failed = failed
        """The callback for errors of the poller's own."""
        self.owes_trio = False
        """True if a Trio task was made runnable: the poller lets Trio run before it waits for events again."""

    def attach(self, connection: Advances, transport: Transport, *, reads: Direction, writes: Direction) -> None:
        """Wake these directions when the transport is ready, until `detach`."""
        number = transport.fileno()
        self._ends[number] = _End(transport, reads, writes, connection)
        self._register(number)

    def _register(self, number: int) -> None:
        self._epoll.register(number, _ALL_EVENTS)

    def detach(self, transport: Transport) -> None:
        """Remove a transport. Raises nothing: who detaches has more to close."""
        number = transport.fileno()
        if self._ends.pop(number, None) is not None:
            # The kernel may have refused to watch it, at first or when the epoll was replaced.
            with suppress(OSError, ValueError):
                self._epoll.unregister(number)

    def later(self, connection: Advances, direction: Direction) -> None:
        """Advance the direction after the others' turns."""
        if not self._waiting and not self._serving:
            trio.lowlevel.current_trio_token().run_sync_soon(self._serve_line_soon, idempotent=True)
        self._line_up(connection, direction)

    def _line_up(self, connection: Advances, direction: Direction) -> None:
        heappush(self._waiting, (connection.cpu.rank, next(self._entered), connection, direction))

    def close(self) -> None:
        self._waiting.clear()  # nothing is asked of a run of Trio's that is over
        self._epoll.close()

    async def run(self) -> None:
        """Serve until cancelled. After an error of its own the poller opens a new epoll, which reports again whatever
        is ready: so no direction misses its wake-up."""
        pause_seconds = 0.0
        while True:
            began = trio.current_time()
            try:
                await trio.sleep(pause_seconds)
                await self._serve()
            except Exception as error:  # noqa: BLE001 - reported, and all that was waited for is looked at again
                self._survive(error)
                pause_seconds = RETRY_SECONDS if trio.current_time() - began < RETRY_SECONDS else 0.0

    async def _serve(self) -> None:
        while True:
            await trio.lowlevel.wait_readable(self._epoll.fileno())
            round_ends = self._round_begins()
            self._serving = True
            try:
                while self._poll():
                    if self.owes_trio or perf_counter() > round_ends:
                        self.owes_trio = False
                        await trio.lowlevel.checkpoint()
                        round_ends = self._round_begins()
            finally:
                self._serving = False

    def _round_begins(self) -> float:
        """Return when it is to end."""
        began = perf_counter()
        self._time_on_core = began, thread_time()
        return began + ROUND_SECONDS

    def _poll(self) -> bool:
        """Advance every direction whose socket is ready, and some of those in line; False if there were none."""
        ends, waiting = self._ends, self._waiting
        events = self._epoll.poll(0 if waiting else LINGER_SECONDS)
        now = perf_counter()
        allowed, round_ends = TURN_SECONDS, now + TURN_SECONDS
        # If no direction waits in line and one socket alone is ready, its direction would be first in line at once,
        # whatever its connection used. To put it in line would cost a small fetch 1.5 µs, so it has its turn directly.
        wake = self._wake if waiting or len(events) != 1 else self._turn
        for number, told in events:
            end = ends.get(number)
            if end is None:
                continue
            transport, reads, writes, connection = end
            mask = told | transport.crossed
            if mask & _HANGUP_EVENTS:
                transport.hung_up = True
            if now >= round_ends:
                allowed = LITTLE_SECONDS
            if mask & _READ_EVENTS:
                transport.readable = True
                if reads.wants is READ:
                    now = wake(connection, reads, now, allowed)
            if writes.wants is WRITE and mask & _WRITE_EVENTS:
                now = wake(connection, writes, now, allowed)
        if waiting:
            self._serve_line(now)
            return True
        return bool(events)

    def _wake(self, connection: Advances, direction: Direction, now: float, allowed: float) -> float:
        """Advance a direction at once, for at most `allowed` seconds, if its connection lately used no more than
        `allowed` seconds above its free share; else put the direction in line. Return the time afterwards."""
        if connection.cpu.debt(now) <= allowed:
            return self._turn(connection, direction, now, allowed)
        direction.wants = TURN
        self._line_up(connection, direction)
        return now

    def _serve_line(self, now: float) -> None:
        """Advance directions in line, first the one whose connection used least lately. Together they have the time
        of one turn; then it is looked again which sockets are ready."""
        ends, line = now + TURN_SECONDS, self._waiting
        for _ in range(len(line)):
            _, _, connection, direction = heappop(line)
            now = self._turn(connection, direction, now, TURN_SECONDS)
            if now >= ends:
                break

    def _turn(self, connection: Advances, direction: Direction, began: float, allowed: float) -> float:
        connection.advance(direction, began + allowed)
        ended = perf_counter()
        seconds = ended - began
        connection.cpu.used(began, ended, seconds if seconds < LONG_SECONDS else self._seconds_on_core(began, ended))
        return ended

    def _seconds_on_core(self, began: float, ended: float) -> float:
        """Return for how many seconds of a turn this thread had a core. Asking the kernel takes 2 µs, and an ordinary
        turn only some 20, so this is called for long turns alone."""
        asked, used = self._time_on_core
        self._time_on_core = ended, thread_time()
        return min(max(self._time_on_core[1] - used - (began - asked), 0.0), ended - began)

    def _serve_line_soon(self) -> None:
        """Serve the line although no socket has become ready. `later` has Trio call this soon if it put the first
        direction in line while no event was being served."""
        if self._waiting:
            self._serving = True
            try:
                self._round_begins()
                self._serve_line(perf_counter())
            except Exception as error:  # noqa: BLE001 - Trio would end the process for it
                self._look_again(error)
            finally:
                self._serving = False
        if self._waiting:
            trio.lowlevel.current_trio_token().run_sync_soon(self._serve_line_soon, idempotent=True)

    def _survive(self, error: Exception) -> None:
        if self._failed is not None:
            self._failed(error)
        self._renew(error)

    def _look_again(self, error: Exception) -> None:
        """Make the epoll that `run` waits for report once more whatever is ready."""
        if self._failed is not None:
            self._failed(error)
        for number, end in tuple(self._ends.items()):
            try:
                self._epoll.modify(number, _ALL_EVENTS)
            except (OSError, ValueError) as lost:
                end.connection.lost(lost)

    def _renew(self, error: Exception) -> None:
        """Replace the epoll, whose events may be lost, and have the new one report whatever is ready. Where the kernel
        gives no new one, every connection ends with the error, and the process goes on."""
        try:
            renewed = select.epoll()
        except OSError:
            renewed = None
        if renewed is not None:
            self._epoll.close()
            self._epoll = renewed
        for number, end in tuple(self._ends.items()):
            if renewed is None:
                end.connection.lost(error)
                continue
            try:
                self._register(number)  # reports what is ready already
            except (OSError, ValueError) as lost:
                end.connection.lost(lost)


@asynccontextmanager
async def open_poller(failed: Callable[[BaseException], None] | None = None) -> AsyncIterator[Poller | None]:
    """Yield a poller that runs for as long as the block; None where there is no epoll and Trio has to wait.

    `failed` is called with errors of the poller's own, which it survives.
    """
    if not hasattr(select, "epoll"):
        yield None
        return
    poller = Poller(failed)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(poller.run)
            yield poller
            nursery.cancel_scope.cancel()
    finally:
        poller.close()
