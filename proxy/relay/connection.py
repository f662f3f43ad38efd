"""One relayed connection from its accept to its one log line.

Two tasks, one per direction; the first that ends in error ends both. A half-close is passed on: a peer that has
finished sending still gets what it is owed. Invariant: whatever ends a connection, both sockets are closed, every
grant is given back, and exactly one line says why.
"""

from __future__ import annotations

import contextlib
import traceback
from typing import TYPE_CHECKING, Protocol

import trio

from protocol.errors import ProtocolError

from ..throttle.link import Link
from .copying import ConnectionEndedError
from .exchange import Cause, Exchange
from .leg import Leg, connect
from .requests import RequestRelay
from .responses import ResponseRelay

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..changes import Changes
    from ..logs import Log
    from ..settings import Address, LimitSettings
    from ..throttle.role_throttle import RoleThrottle
    from .caretaker import Caretaker
    from .poller import Poller


class Dial(Protocol):
    """Opens the connection to a leader. Raises OSError."""

    async def __call__(self, address: Address, *, timeout_seconds: float) -> Leg: ...


class Draining:
    """Set once, when the process is asked to stop."""

    def __init__(self) -> None:
        self.begun = trio.Event()


async def relay(
    follower: Leg,
    upstream: Address,
    *,
    peer: str,
    throttle: RoleThrottle,
    limits: LimitSettings,
    changes: Changes,
    draining: Draining,
    poller: Poller | None,
    log: Log,
    ended: Callable[[Exchange, float], None] | None = None,
    dial: Dial = connect,
    caretaker: Caretaker | None = None,
) -> None:
    """Relay `follower` to `upstream` until either ends or a drain closes it. Never raises but Cancelled.

    `poller` wakes the two directions; None: Trio does, wherever there is no epoll. The one boundary for errors of our
    own: they cost this connection, not all the others of the process. `ended` is told of the end, and after how many
    seconds. `caretaker` ends it where it stalls or is idle for too long.
    """
    exchange = Exchange(Link(throttle, peer, leader=upstream), changes, log)
    if caretaker is not None:
        exchange.buffers = caretaker.buffers
    throttle.statistics.connections += 1
    began = trio.current_time()
    leader = None
    try:
        leader = await dial(upstream, timeout_seconds=limits.connect_timeout_seconds)
        leader.share = follower.share
        with _polled(poller, follower, leader):
            await _both_ways(
                exchange, follower, leader, limits=limits, draining=draining, poller=poller, caretaker=caretaker
            )
    except* OSError as errors:
        exchange.end(Cause.CONNECT_FAILED, f"{upstream}: {errors.exceptions[0]}")
    except* Exception as errors:  # noqa: BLE001
        exchange.end(Cause.INTERNAL, "".join(traceback.format_exception(errors)))
    finally:
        follower.close()
        if leader is not None:
            leader.close()
        exchange.close(trio.current_time())
        throttle.statistics.connections -= 1
        throttle.statistics.ended[(exchange.cause or Cause.DRAINED).value] += 1
        seconds = trio.current_time() - began
        _log_end(exchange, log, seconds=seconds)
        if ended is not None:
            ended(exchange, seconds)


@contextlib.contextmanager
def _polled(poller: Poller | None, *legs: Leg) -> Iterator[None]:
    if poller is None:
        yield
        return
    for leg in legs:
        poller.attach(leg)
    try:
        yield
    finally:
        for leg in legs:
            poller.detach(leg)


async def _both_ways(
    exchange: Exchange,
    follower: Leg,
    leader: Leg,
    *,
    limits: LimitSettings,
    draining: Draining,
    poller: Poller | None,
    caretaker: Caretaker | None,
) -> None:
    requests = RequestRelay(exchange, follower=follower, leader=leader, limits=limits)
    responses = ResponseRelay(exchange, leader=leader, follower=follower, limits=limits)
    async with trio.open_nursery() as nursery:

        async def direction(run: RequestRelay | ResponseRelay, ended: Cause) -> None:
            try:
                await (run.run() if poller is None else poller.drive(run.run(), follower.share))
            except ConnectionEndedError as error:
                exchange.end(ended, str(error))
                nursery.cancel_scope.cancel()
            except OSError as error:
                exchange.end(Cause.BROKEN, str(error))
                nursery.cancel_scope.cancel()
            except ProtocolError as error:
                exchange.end(Cause.MALFORMED, str(error))
                nursery.cancel_scope.cancel()
            else:
                exchange.end(ended)
                if ended is Cause.LEADER_CLOSED:
                    nursery.cancel_scope.cancel()

        windows, end = (requests.window, responses.window), nursery.cancel_scope.cancel
        with contextlib.nullcontext() if caretaker is None else caretaker.tends(exchange, windows, end):
            nursery.start_soon(direction, requests, Cause.FOLLOWER_CLOSED)
            nursery.start_soon(_drain, exchange, draining, nursery.cancel_scope)
            await direction(responses, Cause.LEADER_CLOSED)
            nursery.cancel_scope.cancel()


async def _drain(exchange: Exchange, draining: Draining, scope: trio.CancelScope) -> None:
    """Once a drain begins, close as soon as nothing is owed in either direction."""
    await draining.begun.wait()
    exchange.draining = True
    exchange.changes.notify()
    while not exchange.is_idle:
        await exchange.settled.wait()
    exchange.end(Cause.DRAINED)
    scope.cancel()


def _log_end(exchange: Exchange, log: Log, *, seconds: float) -> None:
    """Replica fetchers' ends are for operators; those of clients on a shared listener for debugging."""
    cause = exchange.cause or Cause.DRAINED
    failed = cause in (Cause.CONNECT_FAILED, Cause.MALFORMED, Cause.FRAME_TIMEOUT)
    write = log.warning if failed else log.info if exchange.replica_fetches else log.debug
    if cause is Cause.INTERNAL:
        write = log.error
    write(
        "connection_closed",
        role=exchange.link.throttle.role.value,
        peer=exchange.link.peer,
        cause=cause.value,
        error=exchange.error,
        seconds=round(seconds, 3),
        requests=exchange.frames,
        replica_fetches=exchange.replica_fetches,
        held_seconds=round(exchange.held_seconds, 3),
    )
