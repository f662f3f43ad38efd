"""Pipes made in memory: what the relay calls a transport, with a delay, a rate and a window, cuts, stalls and resets.

A pair of ends is a TCP connection. Bytes in flight and bytes that nobody has read share the window, so a peer that
never reads stops its sender as a kernel does.
"""

from __future__ import annotations

import copy
import math
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from proxy.relay.transport import READ, WOULD_WAIT, WRITE

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from proxy.relay.connection import Connection
    from proxy.relay.direction import Direction

    from .clock import Network

LOCAL_WINDOW_BYTES = 2**20
WINDOW_BYTES = 4 * 2**20


@dataclass
class Line:
    """What bytes of one direction meet; all connections between two hosts share it."""

    delay: float = 0.0
    jitter: float = 0.0
    bytes_per_second: float = math.inf
    window: int = LOCAL_WINDOW_BYTES
    cuts: float = 0.0
    """The chance that what is sent at once comes in two pieces."""
    draw: random.Random | None = None
    stalled_until: float = 0.0
    free_at: float = 0.0

    def seconds(self) -> float:
        return self.delay + (self.draw.uniform(0, self.jitter) if self.draw is not None and self.jitter else 0.0)


class End:
    """One end of a connection, as the relay's `Transport`; peers that are no sidecar use `take` and `send`."""

    splices = False
    crossed = 0
    packet_bytes = 0

    def __init__(self, network: Network, line: Line, name: str) -> None:
        self.network, self.line, self.name = network, line, name
        self.other: End
        self.readable = False
        self.hung_up = False
        self.is_closed = False
        self.wake: Callable[[End, bool, bool], None] = _nobody
        """Called with whether there is something to read, and whether there is room."""
        self.sent_bytes = 0
        self.watch: Callable[[bytes], None] | None = None
        """Sees what is sent."""
        self._arrived: deque[bytes] = deque()
        self._outstanding = 0
        """Bytes sent that the other end has not read."""
        self._wants_room = False
        self._last_arrival = 0.0
        self._broken = False
        self._successor: End | None = None
        """The end that another process has now."""

    def fileno(self) -> int:
        return -1

    def receive_into(self, view: memoryview) -> int:
        self._raise_if_broken()
        done, most = 0, len(view)
        while self._arrived and done < most:
            first = self._arrived[0]
            size = min(len(first), most - done)
            view[done : done + size] = first[:size]
            done += size
            if size == len(first):
                self._arrived.popleft()
            else:
                self._arrived[0] = first[size:]
        if not done:
            if self.hung_up:
                return 0
            self.readable = False
            return WOULD_WAIT
        if done < most:
            self.readable = self.hung_up
        self._has_read(done)
        return done

    def peek_into(self, view: memoryview) -> int:
        raise NotImplementedError

    def take(self) -> bytes:
        """Read all there is."""
        found = b"".join(self._arrived)
        self._arrived.clear()
        self._has_read(len(found))
        return found

    @property
    def room(self) -> int:
        return self.line.window - self._outstanding

    def send(self, data: bytes | bytearray | memoryview) -> int:
        self._raise_if_broken()
        size = min(len(data), self.room)
        if size < len(data):
            self._wants_room = True
        if size <= 0:
            return 0
        chunk = bytes(data[:size])
        self.sent_bytes += size
        if self.watch is not None:
            self.watch(chunk)
        self._outstanding += size
        line = self.line
        if line.cuts and size > 1 and line.draw is not None and line.draw.random() < line.cuts:
            at = line.draw.randrange(1, size)
            self._carry(chunk[:at])
            chunk = chunk[at:]
        self._carry(chunk)
        return size

    def hand_on(self) -> End:
        """Return the end as another process has it; what is on its way arrives there."""
        fresh = copy.copy(self)
        fresh.wake = _nobody
        fresh.readable = True
        self._arrived = deque()
        self.other.other = self._successor = fresh
        return fresh

    def finish_sending(self) -> None:
        if self._successor is None and not self.is_closed and not self._broken:
            self.network.at(self._arrival(0), self.other._hang_up)

    def close(self) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        self.wake = _nobody
        if self._successor is not None:
            return
        # As a kernel does, which resets where bytes came that nobody has read.
        self.network.at(self._arrival(0), self.reset if self._arrived else self.other._hang_up)
        self._arrived.clear()

    def reset(self) -> None:
        """Break the connection, for both ends at once."""
        for end in (self, self.other):
            if not end._broken:
                end._broken = True
                end.readable = True
                end.network.soon(end._tell, True, True)

    def _arrival(self, size: int) -> float:
        line = self.line
        starts = max(self.network.now, line.free_at, line.stalled_until)
        line.free_at = sent = starts + size / line.bytes_per_second
        self._last_arrival = max(self._last_arrival, sent + line.seconds())
        return self._last_arrival

    def _carry(self, chunk: bytes) -> None:
        self.network.at(self._arrival(len(chunk)), self.other._arrive, chunk)

    def _arrive(self, chunk: bytes) -> None:
        if self._successor is not None:
            self._successor._arrive(chunk)
            return
        if self.is_closed:
            self.reset()  # as a kernel answers what comes to a closed socket
            return
        if self._broken:
            return
        self._arrived.append(chunk)
        self.readable = True
        self.wake(self, True, False)

    def _hang_up(self) -> None:
        if self._successor is not None:
            self._successor._hang_up()
        elif not self.hung_up:
            self.hung_up = self.readable = True
            self.wake(self, True, True)

    def _has_read(self, size: int) -> None:
        sender = self.other
        sender._outstanding -= size
        if sender._wants_room and (sender.room * 2 >= sender.line.window or self.is_closed):
            sender._wants_room = False
            self.network.at(self.network.now + self.line.seconds(), sender._tell, False, True)

    def _tell(self, readable: bool, writable: bool) -> None:
        if self._successor is not None:
            self._successor._tell(readable, writable)
        else:
            self.wake(self, readable, writable)

    @property
    def is_broken(self) -> bool:
        return self._broken

    def _raise_if_broken(self) -> None:
        if self._broken:
            raise ConnectionResetError("reset by the world")


def pipes(network: Network, there: Line, back: Line, names: tuple[str, str]) -> tuple[End, End]:
    """Connect two ends: what the first sends goes by `there`."""
    one, two = End(network, there, names[0]), End(network, back, names[1])
    one.other, two.other = two, one
    return one, two


class WorldPoller:
    """Stands for the relay's poller: wakes directions when pipes have bytes or room."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._lined_up: set[Direction] = set()

    @property
    def owes_trio(self) -> bool:
        return self._network.owes_trio

    @owes_trio.setter
    def owes_trio(self, owes: bool) -> None:
        self._network.owes_trio = owes

    def attach(self, connection: Connection, transport: End, *, reads: Direction, writes: Direction) -> None:
        now = self._network.clock

        def wake(end: End, readable: bool, writable: bool) -> None:
            if readable:
                end.readable = True
                if reads.wants is READ:
                    connection.advance(reads, now.now)
            if writable and writes.wants is WRITE:
                connection.advance(writes, now.now)

        transport.wake = wake
        self._network.soon(transport._tell, True, True)  # what came before

    def detach(self, transport: End) -> None:
        transport.wake = _nobody

    def later(self, connection: Connection, direction: Direction) -> None:
        if direction not in self._lined_up:
            self._lined_up.add(direction)
            self._network.soon(self._advance, connection, direction)

    def _advance(self, connection: Connection, direction: Direction) -> None:
        self._lined_up.discard(direction)
        connection.advance(direction, self._network.now)


def _nobody(end: End, readable: bool, writable: bool) -> None:
    """Wake nobody."""
    del end, readable, writable
