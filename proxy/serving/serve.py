"""Runs a sidecar from its start to the end of its drain.

Everything is bound before anything is served, so that a port in use is an error at start and not half a sidecar.

Invariant: after `serve` returns no socket is open and every connection has logged its end.
"""

from __future__ import annotations

import math
from contextlib import closing, contextmanager, nullcontext
from typing import TYPE_CHECKING

import trio

from ..errors import ConfigurationError
from ..handover.refusals import NONE_FOUND
from ..journal.recorder import prepare
from ..network.connection_setup import NameLookups
from ..observing.site import load_lazily
from ..process.resources import collected_by_hand
from ..process.signals import receive_signals
from ..process.supervision import log_unraisable
from ..process.systemd import ServiceManager
from .listeners import HTTP, PageServers, bound_to, listen, routes
from .sidecar import Sidecar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ..config.settings import Address, Settings
    from ..logs.log import Log
    from ..network.connection_setup import Route
    from ..process.signals import SignalReceiver
    from ..process.watchdog import Watchdog
    from ..quota_files.reload import QuotaWatch
    from ..statistics.counters import Statistics


async def serve(
    settings: Settings,
    quota_watch: QuotaWatch,
    *,
    statistics: Statistics,
    log: Log,
    signals: bool = True,
    watchdog: Watchdog | None = None,
    service_manager: ServiceManager | None = None,
    take_over: bool = False,
    task_status: trio.TaskStatus[dict[str, Address]] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run until SIGTERM or SIGINT, then drain. `task_status` gets the bound address of every listener by its key.

    `watchdog` (started by the caller) and `service_manager` receive the loop's beats; None: there is none. `take_over`:
    from the process that serves these settings now, if any, with all that it has open.

    Raises ConfigurationError if an address cannot be listened on, or the journal cannot be written where no process was
    taken over from.
    """
    trio.socket.set_custom_hostname_resolver(NameLookups())
    manager = service_manager or ServiceManager({})
    sidecar = Sidecar(settings, quota_watch, statistics, log, watchdog, manager)
    if take_over:
        # While the previous process serves: loaded after, it would take the interpreter from its connections.
        await load_lazily()
    found = routes(settings)
    serves = [(route.key, route.listen) for route in found]
    inherited = await sidecar.handover.ask(serves) if take_over else None
    if take_over and inherited is None and settings.journal is not None:
        prepare(settings.journal, broker=settings.broker.id)  # no process writes there: an open file is a crash's
    with _explained(found_none=take_over and inherited is None):
        pages = PageServers.bind(settings, statistics=sidecar.http, inherited=inherited, log=log)
    receiving = receive_signals() if signals else nullcontext()
    with closing(pages), collected_by_hand(), log_unraisable(log), receiving as received:
        with _explained(found_none=take_over and inherited is None):
            listeners = list(zip(found, await listen(found, settings, inherited), strict=True))

        def started() -> None:
            configured = {route.key: (route.listen, listener.socket) for route, listener in listeners}
            sidecar.handover.listens({**pages.listening(settings), **configured}, close_pages=pages.close)
            bound = {route.key: bound_to(listener) for route, listener in listeners}
            listens = {key: str(address) for key, address in bound.items()}
            room = {"open_files": sidecar.accept_limiter.open_files, "max_connections": sidecar.accept_limiter.most}
            most = {key: None if math.isinf(value) else int(value) for key, value in room.items()}
            log.info("started", broker=settings.broker.id, http=str(pages.public.address), **listens, **most)
            manager.ready()
            task_status.started({HTTP: pages.public.address, **bound})

        await _until_drained(sidecar, pages, listeners, received, started, loads=not take_over)
    log.info("stopped", broker=settings.broker.id)


@contextmanager
def _explained(*, found_none: bool) -> Iterator[None]:
    """Add to an address in use that no process was there to take it from, if so."""
    try:
        yield
    except ConfigurationError as error:
        if found_none:
            raise ConfigurationError(f"{error}; {NONE_FOUND}") from error
        raise


async def _until_drained(
    sidecar: Sidecar,
    pages: PageServers,
    listeners: Sequence[tuple[Route, trio.SocketListener]],
    received: SignalReceiver | None,
    started: Callable[[], None],
    *,
    loads: bool,
) -> None:
    """Serve until the drain is over. `loads`: load the modules that could wait."""
    async with sidecar.recorded():
        async with trio.open_nursery() as background:
            for task, run in sidecar.tasks(pages, received).items():
                background.start_soon(sidecar.handover.keep, sidecar.supervisor, task, run)
            started()
            if loads:
                background.start_soon(load_lazily)
            await sidecar.connections.accept(listeners)
            background.cancel_scope.cancel()
        # No peer is to wait in the backlog of a socket at which only the other process accepts. And while the end of
        # the journal is written, a process that starts finds no process to take over from, and every address free.
        pages.close()
