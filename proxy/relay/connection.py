"""One relayed connection from its accept to its one log line.

Its two directions advance whenever their sockets allow it; what needs a clock or an event is waited for by its Trio
tasks: a hold (`hold_waits`), the drain, and where there is no epoll the sockets. The first direction that ends in error
ends both. A half-close is passed on: a peer that has finished sending still gets what it is owed.

Invariant: whatever ends a connection, both sockets are closed, every grant is given back, and exactly one line says
why.
"""

from __future__ import annotations

import contextlib
import enum
import traceback
from time import perf_counter
from typing import TYPE_CHECKING, Protocol

import trio

from protocol.errors import ProtocolError

from ..throttle.link import Link
from .direction import Cause, Direction
from .hold_waits import HoldWaits
from .in_flight import DRAINING, HANDING, OPEN, InFlightRequests
from .poller import TURN_SECONDS, CpuAccount
from .requests import REQUEST_WINDOW_BYTES, RequestReader
from .responses import RESPONSE_WINDOW_BYTES, ResponseReader
from .transfer import Transfer, Window
from .transport import END, HELD, READ, TURN, WRITE, ConnectionEndedError, connect

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ..changes import Changes
    from ..config.settings import Address, LimitSettings
    from ..logs.log import Log
    from ..throttle.role_throttle import RoleThrottle
    from .poller import Poller
    from .reaper import Reaper
    from .transport import Transport, Wait


CROSSED_SECONDS = 0.005
"""The seconds between two tries of a TLS socket that may wait for either event, where there is no epoll to wait for
both."""


UNREAD_SECONDS = 2.0
"""How long a connection that is to end is served on while a request is unanswered, half read or unread. A busy producer
may always have one: then no new request is read, and those that were read are answered."""
LOOK_SECONDS = 0.02
"""The pause between two looks at whether that is so. No event announces it."""


class Dial(Protocol):
    """Opens the connection to a leader. Raises OSError."""

    async def __call__(self, address: Address, *, timeout_seconds: float) -> Transport: ...


class Given(enum.Enum):
    """The outcome of handing a connection over to another process."""

    TAKEN = "the other process goes on with it"
    ENDS = "it has to end here"
    STAYS = "the other process failed: this one serves on"


class Draining:
    """The signal that the connections of this process are to end here: it stops, or another one takes over."""

    def __init__(self) -> None:
        self.begun = trio.Event()
        self.give: Callable[[Connection], Awaitable[Given]] | None = None
        """The callback that hands the connection over to another process when its turn has come and nothing of it is in
        flight. None: no process takes over, so all connections end here."""

    def is_begun(self) -> bool:
        return self.begun.is_set()

    def call_off(self) -> None:
        """Serve on: the process that was to take over failed."""
        self.give = None
        self.begun = trio.Event()


async def relay(
    follower: Transport,
    upstream: Address,
    *,
    peer: str,
    throttle: RoleThrottle,
    limits: LimitSettings,
    changes: Changes,
    draining: Draining,
    poller: Poller | None,
    log: Log,
    ended: Callable[[InFlightRequests, float], None] | None = None,
    dial: Dial = connect,
    reaper: Reaper | None = None,
    restore: Callable[[Connection], object] | None = None,
    clients: Callable[[InFlightRequests, float], Callable[[float], None]] | None = None,
    turn_clock: Callable[[], float] = perf_counter,
) -> None:
    """Connect `follower` with `upstream` until either ends or a drain closes it. Never raises but Cancelled.

    `poller` wakes the two directions; None: Trio does, wherever there is no epoll. `ended` is called when the
    connection has ended, with the seconds that it lasted. `reaper` ends the connection if it stalls or is idle for
    too long. `restore` is called before the connection runs, to give it the state that it had in another process.
    `clients` lets client quotas take part in the connection, and returns the way to end that. `turn_clock` is the clock
    by which `poller` ends turns.
    """
    in_flight = InFlightRequests(Link(throttle, peer, leader=upstream), changes, log)
    if reaper is not None:
        in_flight.buffers = reaper.buffers
    throttle.statistics.connections += 1
    began = trio.current_time()
    detach = None if clients is None else clients(in_flight, began)
    ends = [follower]
    try:
        try:
            leader = await dial(upstream, timeout_seconds=limits.connect_timeout_seconds)
        except OSError as error:
            in_flight.end(Cause.CONNECT_FAILED, f"{upstream}: {error}")
        else:
            ends.append(leader)
            connection = Connection(in_flight, follower, leader, limits=limits, poller=poller, turn_clock=turn_clock)
            if restore is not None:
                restore(connection)
            await connection.run(draining, reaper)
    except* Exception as errors:  # noqa: BLE001
        in_flight.end(Cause.INTERNAL, "".join(traceback.format_exception(errors)))
    finally:
        for end in ends:
            end.close()
        if detach is not None:
            detach(trio.current_time())
        in_flight.close(trio.current_time())
        throttle.statistics.connections -= 1
        throttle.statistics.ended[(in_flight.cause or Cause.DRAINED).value] += 1
        seconds = trio.current_time() - began
        _log_end(in_flight, log, seconds=seconds)
        if ended is not None:
            ended(in_flight, seconds)


class Connection:
    """Both directions, and what they wait for of each other."""

    def __init__(
        self,
        in_flight: InFlightRequests,
        follower: Transport,
        leader: Transport,
        *,
        limits: LimitSettings,
        poller: Poller | None,
        turn_clock: Callable[[], float] = perf_counter,
    ) -> None:
        self.cpu = CpuAccount(turn_clock())
        self._turn_clock = turn_clock
        self.in_flight = in_flight
        self.ends = follower, leader
        self._poller = poller
        self._scope = trio.CancelScope()
        # Each of the calls between trio.current_time and this one costs a twentieth of a microsecond for each fetch.
        clock = trio.lowlevel.current_clock().current_time
        self.request_reader = RequestReader(in_flight, limits, clock, turn_clock)
        self.response_reader = ResponseReader(in_flight, limits, clock)
        self.request_direction = Direction(
            self.request_reader,
            Transfer(follower, leader, Window(REQUEST_WINDOW_BYTES), count=in_flight.passed_request, splices=False),
            Cause.FOLLOWER_CLOSED,
            turn_clock,
        )
        self.response_direction = Direction(
            self.response_reader,
            Transfer(leader, follower, Window(RESPONSE_WINDOW_BYTES), count=in_flight.passed_response, splices=True),
            Cause.LEADER_CLOSED,
            turn_clock,
        )
        self._hold_waits = HoldWaits(
            in_flight,
            self.request_reader.decision,
            requests=self.request_direction,
            responses=self.response_direction,
            later=self._later,
        )
        self._waits: dict[Direction, trio.CancelScope] = {}
        """The scope in which each direction waits for its socket, to be woken from; only without epoll."""
        self._due: set[Direction] = set()
        """The directions that are to go on without waiting for a socket; only without epoll."""

    @property
    def is_held(self) -> bool:
        """True if a request of the follower waits in this process."""
        return self.request_reader.decision.held is not None

    async def run(self, draining: Draining, reaper: Reaper | None = None) -> None:
        """Run both directions until the connection ends; `in_flight.cause` says why it did."""
        asks, tells = self.request_direction, self.response_direction
        windows, end = (asks.transfer.window, tells.transfer.window), self._scope.cancel
        tended = (
            contextlib.nullcontext() if reaper is None else reaper.tends(self.in_flight, windows, self.ends[0], end)
        )
        try:
            with self._scope, tended:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._hold_waits.run)
                    self._start(nursery)
                    await self._drain(draining)
        finally:
            asks.wants = tells.wants = END
            if self._poller is not None:
                for transport in self.ends:
                    self._poller.detach(transport)
            self.request_reader.lost()
            self.response_reader.lost(trio.current_time())
            asks.transfer.close()
            tells.transfer.close()
            self._hold_waits.close()

    def _start(self, nursery: trio.Nursery) -> None:
        follower, leader = self.ends
        if self._poller is None:
            nursery.start_soon(self._wait_for, self.request_direction)
            nursery.start_soon(self._wait_for, self.response_direction)
        else:
            self._poller.attach(self, follower, reads=self.request_direction, writes=self.response_direction)
            self._poller.attach(self, leader, reads=self.response_direction, writes=self.request_direction)
            for transport, reads in ((follower, self.request_direction), (leader, self.response_direction)):
                if not transport.splices or reads.transfer.window.size:
                    # Bytes that a TLS handshake left decrypted, or that the process before this one read, are in no
                    # socket: epoll reports nothing for them.
                    self._poller.later(self, reads)

    def advance(self, direction: Direction, turn_ends: float) -> None:
        """Advance a direction; an error ends this connection, not all the others of the process."""
        if direction.wants is END:
            return
        try:
            wants = direction.wants = direction.advance(turn_ends)
            if wants is not READ or self._hold_waits.for_answers:
                self._react(direction, wants)
        except ConnectionEndedError as error:
            self._end(direction.ends, str(error))
        except OSError as error:
            self._end(Cause.BROKEN, str(error))
        except ProtocolError as error:
            self._end(Cause.MALFORMED, str(error))
        except Exception:  # noqa: BLE001
            self._end(Cause.INTERNAL, traceback.format_exc())

    def lost(self, error: Exception) -> None:
        """End the connection, which the poller cannot wake any more."""
        self._end(Cause.INTERNAL, str(error))

    def _react(self, direction: Direction, wants: Wait) -> None:
        if wants is TURN:
            self._later(direction)
        elif wants is HELD:
            if self._hold_waits.begin():
                self._wake_trio()
        elif wants is END:
            self.in_flight.end(direction.ends)
            if direction is self.response_direction:
                self._end(direction.ends)
        if self._hold_waits.for_answers and direction is self.response_direction:
            self._hold_waits.look()
        if self.in_flight.service is DRAINING:
            self._end_if_at_rest()

    def _end(self, cause: Cause, error: str | None = None) -> None:
        self.in_flight.end(cause, error)
        self.request_direction.wants = self.response_direction.wants = END
        self._wake_trio()
        self._scope.cancel()

    def _later(self, direction: Direction) -> None:
        """Advance it after the others' turns."""
        if self._poller is not None:
            self._poller.later(self, direction)
            return
        self._due.add(direction)
        if direction in self._waits:
            self._waits[direction].cancel()

    def _wake_trio(self) -> None:
        if self._poller is not None:
            self._poller.owes_trio = True

    async def _drain(self, draining: Draining) -> None:
        """Hand the connection over, or end it at rest, once a drain begins."""
        given = Given.STAYS
        while given is Given.STAYS:
            await draining.begun.wait()
            given = Given.ENDS if draining.give is None else await draining.give(self)
            if given is Given.STAYS:
                self._resume()
        if given is Given.TAKEN:
            self._end(Cause.HANDED_OVER)
            return
        await self._end_at_rest()

    async def _end_at_rest(self) -> None:
        """End as soon as no request is unanswered or half read.

        A follower sends its next fetch as soon as it has an answer. So the connection ends in the turn in which the
        answer goes (`_react`): a follower that has read the end before it asks again may reconnect at once. One that
        finds the end in answer to its request waits for `replica.fetch.backoff.ms` first, a second by default.
        """
        in_flight, (follower, _) = self.in_flight, self.ends
        in_flight.service = DRAINING
        self._hold_waits.for_answers = True
        in_flight.changes.notify()
        self._later(self.request_direction)  # whether something is unread, only reading tells
        with trio.move_on_after(UNREAD_SECONDS):
            await self._wait_until(lambda: self._is_at_rest)
            if in_flight.correlator.has_unanswerable:
                # No answer tells it of records that are lost. So it is told the end, and what it still sends goes on.
                in_flight.end(Cause.DRAINED)
                self.response_direction.wants = END
                follower.finish_sending()
                await self._wait_until(lambda: self.request_direction.wants is END)
            self._end(Cause.DRAINED)
        in_flight.service = HANDING
        await self._wait_until(lambda: in_flight.is_idle and not self.request_direction.transfer.owes)
        self._end(Cause.DRAINED)

    async def _wait_until(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            with trio.move_on_after(LOOK_SECONDS):
                await self.in_flight.settled.wait()

    @property
    def _is_at_rest(self) -> bool:
        """True if no request is unanswered, half read or unread."""
        asks, tells = self.request_direction.transfer, self.response_direction.transfer
        has_all = not asks.window.size and (not asks.source.readable or self.request_direction.wants is END)
        return has_all and self.in_flight.is_idle and not (asks.owes or tells.owes)

    def _end_if_at_rest(self) -> None:
        self._hold_waits.for_answers = True  # so that every step of a direction is looked at
        if self._is_at_rest and not self.in_flight.correlator.has_unanswerable:
            self.ends[0].finish_sending()
            self._end(Cause.DRAINED)

    def _resume(self) -> None:
        """Begin new requests again."""
        self.in_flight.service = OPEN
        for direction in (self.request_direction, self.response_direction):
            if direction.wants is END:  # its state was taken, and reached no other process
                direction.wants = READ
            self._later(direction)

    async def _wait_for(self, direction: Direction) -> None:
        """Wait for the direction's sockets by Trio, as a poller does by epoll."""
        source, sink = direction.transfer.source, direction.transfer.sink
        self.advance(direction, self._turn_clock() + TURN_SECONDS)
        while direction.wants is not END:
            if direction not in self._due:
                with trio.CancelScope() as self._waits[direction]:
                    if source.crossed or sink.crossed:
                        # Either end may be what is waited for, which is rare, and over soon.
                        await trio.sleep(CROSSED_SECONDS)
                        source.readable = True
                    elif direction.wants is READ:
                        await trio.lowlevel.wait_readable(source.fileno())
                        source.readable = True
                    elif direction.wants is WRITE:
                        await trio.lowlevel.wait_writable(sink.fileno())
                    else:
                        await trio.sleep_forever()
            self._due.discard(direction)
            await trio.lowlevel.checkpoint()
            self.advance(direction, self._turn_clock() + TURN_SECONDS)


def _log_end(in_flight: InFlightRequests, log: Log, *, seconds: float) -> None:
    """Write the connection's log line. The ends of replica fetchers' connections are of interest to operators; those of
    clients on a shared listener only at level debug, unless they failed."""
    cause = in_flight.cause or Cause.DRAINED
    failed = cause in (Cause.CONNECT_FAILED, Cause.MALFORMED, Cause.FRAME_TIMEOUT)
    write = log.warning if failed else log.info if in_flight.replica_fetches else log.debug
    if cause is Cause.INTERNAL:
        write = log.error
    write(
        "connection_closed",
        role=in_flight.link.throttle.role.value,
        peer=in_flight.link.peer,
        cause=cause.value,
        error=in_flight.error,
        seconds=round(seconds, 3),
        requests=in_flight.frames,
        replica_fetches=in_flight.replica_fetches,
        held_seconds=round(in_flight.held_seconds, 3),
    )
