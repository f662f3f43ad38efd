"""Accepts HTTP connections, as many as there may be, and serves each in a task of its own.

Where there are too many, a new connection is let in, and the one that has waited longest for its peer is ended.
Otherwise a peer that holds sockets open without a word would keep the liveness probe out. If every connection is being
worked for, which no peer can draw out, the new one waits in the kernel's queue until that is over for one of them.

Bound before traffic starts, so that a port in use is an error at start. Invariant: the socket stays open until the
server is closed, so that `run` may be called again after it has failed; no connection ends `run`.
"""

from __future__ import annotations

import errno
import os
import socket
from typing import TYPE_CHECKING

import trio

from ..changes import Changes
from ..config.settings_values import Address
from ..errors import ConfigurationError
from .connection import HttpConnection, Service
from .request_checks import Bounds, HttpRefusal, HttpStatistics

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from ..logs.log import Log
    from .authorization import Trust
    from .loop_share import LoopShare
    from .routing import Routes

_BACKLOG = 1024
"""The most connections that wait in the kernel to be accepted. The kernel does not answer a further; its peer,
perhaps a probe, tries again only after a second."""
_MAX_ACCEPTED = 8
"""The most connections that are accepted in one turn of the loop; each takes some 60 µs. If it were one, a probe would
have to wait behind all connections that came before it, even those that are gone already."""
_GRACE_SECONDS = 0.05
"""A connection that has waited for its peer for less than this is not ended to make room: the peer's bytes may have
come, and the loop has not looked yet."""
_RETRY_SECONDS = 0.1
"""The pause after the kernel had no descriptor or memory for a connection."""
_QUIET_SECONDS = 60.0
"""The time between two lines about refusals, or defects, of one kind; all are counted."""
_NO_LISTENER = frozenset({errno.EBADF, errno.EINVAL, errno.ENOTSOCK, errno.EOPNOTSUPP})
"""The errors of accept at a socket that will never give a connection."""


class HttpServer:
    """A bound socket that is served while `run` runs."""

    def __init__(
        self,
        listener: socket.socket,
        *,
        log: Log,
        bounds: Bounds,
        statistics: HttpStatistics,
        name_peer: Callable[[socket.socket], str | None] = lambda accepted: str(accepted.getpeername()[0]),
    ) -> None:
        """Serve on `listener`. `name_peer` names the peer of an accepted connection for the log; None refuses the
        peer."""
        self._listener = listener
        self._name_peer = name_peer
        self._log = log
        self._bounds = bounds
        self._statistics = statistics
        self._open: dict[HttpConnection, None] = {}
        self._changed = Changes()
        """An event: some connection has ended, or waits for its peer."""
        self._said: dict[object, float] = {}
        name = listener.getsockname()
        self.address = Address(*name[:2]) if isinstance(name, tuple) else Address(name, 0)
        """The address with the port that was given, if any free one was asked for; of a unix socket its path."""

    @classmethod
    def bind(
        cls,
        listen: Address,
        *,
        log: Log,
        bounds: Bounds | None = None,
        statistics: HttpStatistics | None = None,
        listener: socket.socket | None = None,
    ) -> HttpServer:
        """Bind the address. Raises ConfigurationError if the address is in use or not ours.

        `listener`: a socket that listens there already.
        """
        try:
            if listener is None:
                family, _, _, _, address = socket.getaddrinfo(*listen, type=socket.SOCK_STREAM)[0]
                listener = socket.create_server(address, family=family, backlog=_BACKLOG)
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
            raise ConfigurationError(f"http.listen: cannot listen on {listen}: {reason}") from error
        listener.settimeout(0)
        return cls(listener, log=log, bounds=bounds or Bounds(), statistics=statistics or HttpStatistics())

    @property
    def listener(self) -> socket.socket:
        """The listening socket, for another process to serve."""
        return self._listener

    @property
    def connections(self) -> int:
        """The number of connections open now."""
        return len(self._open)

    def close(self) -> None:
        """Accept no more requests; `run` cannot be called again."""
        self._listener.close()

    async def run(
        self,
        routes: Routes,
        *,
        trust: Trust,
        turn: LoopShare,
        tls: Callable[[], ssl.SSLContext] | None = None,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve until cancelled: then every connection ends at once, since no answer is worth a delay of the end.

        `tls`: called at each connection for its encryption; None: connections are plain.

        Raises a group of ValueError or OSError if the socket is none any more.
        """
        service = Service(
            routes, trust, self._bounds, turn, self._statistics, self._changed.notify, self._refused, self._failed, tls
        )
        async with trio.open_nursery() as connections:
            task_status.started()
            while True:
                await trio.lowlevel.wait_readable(self._listener)
                for _ in range(_MAX_ACCEPTED):
                    try:
                        accepted, _ = self._listener.accept()
                    except BlockingIOError:
                        break
                    except OSError as error:
                        await self._cannot_accept(error)
                        break
                    peer = self._admitted(accepted)
                    if peer is not None:
                        await self._wait_for_room(accepted)
                        connections.start_soon(self._serve, self._connection(accepted, peer, service))

    def _admitted(self, accepted: socket.socket) -> str | None:
        """Return the peer's name; None, with the connection closed, if the peer is refused or gone."""
        try:
            peer = self._name_peer(accepted)
        except OSError:
            peer = None
        if peer is None:
            accepted.close()
        return peer

    async def _serve(self, connection: HttpConnection) -> None:
        try:
            await connection.serve()
        finally:
            self._open.pop(connection, None)
            self._changed.notify()

    async def _wait_for_room(self, accepted: socket.socket) -> None:
        try:
            while not self._has_room(trio.current_time()):
                with trio.move_on_after(_GRACE_SECONDS):
                    await self._changed.wait()
        except BaseException:
            accepted.close()
            raise

    def _has_room(self, now: float) -> bool:
        """Return True if one more connection may be accepted, ending another for it if need be."""
        if len(self._open) < self._bounds.connections:
            return True
        longest = min(self._open, key=lambda each: now if each.waits_since is None else each.waits_since)
        if longest.waits_since is None or now - longest.waits_since < _GRACE_SECONDS:
            return False
        del self._open[longest]
        longest.make_room()
        return True

    def _connection(self, accepted: socket.socket, peer: str, service: Service) -> HttpConnection:
        stream = trio.SocketStream(trio.socket.from_stdlib_socket(accepted))
        connection = HttpConnection(stream, peer, service)
        self._open[connection] = None
        return connection

    async def _cannot_accept(self, error: OSError) -> None:
        """Wait for a moment. Raises `error` if waiting does not help."""
        if error.errno in _NO_LISTENER:
            raise error
        self._refused(HttpRefusal.NOT_ACCEPTED, "", os.strerror(error.errno or 0))
        await trio.sleep(_RETRY_SECONDS)

    def _refused(self, reason: HttpRefusal, peer: str, found: str) -> None:
        self._statistics.refused[reason] += 1
        if reason is not HttpRefusal.FAILED and self._may_say(reason):
            self._log.warning("http_refused", reason=reason.value, peer=peer, found=found)

    def _failed(self, error: Exception, where: str) -> None:
        if self._may_say((type(error), where)):
            self._log.error("http_failed", error=f"{where}: {type(error).__name__}: {error}", exc_info=error)

    def _may_say(self, cause: object) -> bool:
        """Return True if a log line about this cause is due: at most one a minute."""
        now = trio.current_time()
        self._said = {each: since for each, since in self._said.items() if now - since < _QUIET_SECONDS}
        if cause in self._said:
            return False
        self._said[cause] = now
        return True
