"""The TLS sockets of connections that were handed over: the keys that OpenSSL has agreed on cannot leave this process.

In place of each TLS socket, the other process gets one end of a pair of sockets. There it decides, throttles and counts
as on any other socket. This process encrypts and decrypts in between, reads nothing of what passes, and ends with the
last such connection:

    follower ══TLS══ this process ──pair──▶ the process that took over ──pair──▶ this process ══TLS══ leader

Invariant: a connection that the other process has closed is closed here as well.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio

from ..process.signals import follow_signals
from ..relay.poller import open_poller
from ..relay.transport import PlainSocket
from .blind_pipe import BlindPipe

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

    from ..logs.log import Log
    from ..process.signals import SignalReceiver
    from ..relay.poller import Poller
    from ..relay.transport import Transport


REST_SECONDS = 10.0
"""How long an end may be silent before its buffers, a quarter of a megabyte each way, give their pages back."""


class KeptTlsSockets:
    """The TLS sockets that one process keeps.

    Args:
        poller, nursery: both outlive everything else in the process.
        grace_seconds: how long the ends stay open after this process was told to end.
    """

    def __init__(self, poller: Poller, nursery: trio.Nursery, log: Log, *, grace_seconds: float) -> None:
        self._poller = poller
        self._nursery = nursery
        self._log = log
        self._grace_seconds = grace_seconds
        self._kept: set[BlindPipe] = set()
        self._ended = trio.Event()
        self._end_at: float | None = None

    @property
    def count(self) -> int:
        return len(self._kept)

    def keep(self, end: Transport, pair: socket.socket) -> None:
        """Take both sockets over, and pass everything between them from now on."""
        pipe = BlindPipe(end, PlainSocket(pair), self._poller, self._failed)
        self._kept.add(pipe)
        if self._end_at is not None:
            pipe.end_at(self._end_at)
        self._nursery.start_soon(self._run, pipe)

    async def _run(self, pipe: BlindPipe) -> None:
        try:
            await pipe.run()
        finally:
            self._kept.discard(pipe)
            self._ended.set()

    async def rest(self) -> None:
        """Give back the pages of ends through which nothing comes; until cancelled."""
        while True:
            await trio.sleep(REST_SECONDS)
            for pipe in tuple(self._kept):
                pipe.rest_if_still()

    def _failed(self, error: Exception) -> None:
        self._log.error("connection_failed", peer="", exc_info=error)

    def end_soon(self) -> None:
        """End the process soon: close what is still kept when the grace is over."""
        if self._end_at is None:
            self._end_at = trio.current_time() + self._grace_seconds
            for pipe in self._kept:
                pipe.end_at(self._end_at)

    async def outlast(
        self, received: SignalReceiver | None, beside: Iterable[Callable[[], Awaitable[None]]] = ()
    ) -> None:
        """Return when the last end has closed, which may be long after all else in this process is gone: its listeners,
        its pages, its journal. SIGTERM, SIGINT and SIGQUIT close the ends after the grace; a second one ends the
        process at once.

        Args:
            received: the signals to follow; None: another task follows them.
            beside: what runs meanwhile, and is cancelled at the end.
        """
        if not self._kept:
            return
        self._log.info("tls_sockets_kept", ends=self.count)
        async with trio.open_nursery() as nursery:
            for run in (self.rest, *beside):
                nursery.start_soon(run)
            if received is not None:
                nursery.start_soon(follow_signals, received, _ignored, self._told, self._log)
            while self._kept:
                await self._ended.wait()
                self._ended = trio.Event()
            nursery.cancel_scope.cancel()

    def _told(self, signal: str) -> None:
        self._log.info("drain_started", reason=signal, deadline_seconds=self._grace_seconds)
        self.end_soon()


async def _ignored(_: str) -> None:
    """Do nothing on SIGHUP: the process that took over reads the quotas."""


@asynccontextmanager
async def open_kept_tls_sockets(
    log: Log, *, grace_seconds: float, poller_failed: Callable[[BaseException], None]
) -> AsyncIterator[KeptTlsSockets | None]:
    """Keep sockets while the block lasts, and until the last one that is kept is closed.

    None: there is no epoll to wait by.
    """
    async with open_poller(poller_failed) as poller, trio.open_nursery() as nursery:
        yield None if poller is None else KeptTlsSockets(poller, nursery, log, grace_seconds=grace_seconds)
