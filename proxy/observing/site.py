"""Builds the pages: authorizes requests, computes each page once for all who wait, and bounds its share of the loop.

Does little itself: `status_page` and `exposition` make what pages say, `http` serves them. Invariant: no page costs the
loop more than a slice at a time. All who ask for a page, or for a reload, while it is not begun yet share it, and a
page is never older than the request.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import trio

from ..http.authorization import Writers
from ..http.loop_share import LoopShare
from ..http.shared_work import Shared
from ..http.trust import Trust, names_of_this_machine
from ..process.supervision import Task
from ..threads import in_thread
from .pages import Endpoints, Json, lists_openmetrics, pages
from .process_figures import ProcessFigures

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable

    from ..config.settings import HttpSettings
    from ..http.authorization import BearerToken
    from ..http.routing import Admit, Route
    from ..http.server import HttpServer
    from ..quota_files.reload import QuotaWatch
    from ..tls.leg import Leg
    from .exposition import Exposition
    from .replica_stats_task import ReplicaStatsTask
    from .status_page import StatusPage
    from .throttle_page import Page

LEAST_PAUSE_SECONDS = 0.2
"""The pause between two reloads that HTTP asks for; requests that come meanwhile share the next reload."""


_LOADING = trio.CapacityLimiter(1)


class Site:
    """One per process."""

    def __init__(
        self,
        settings: HttpSettings,
        watch: QuotaWatch,
        page: StatusPage,
        exposition: Callable[[], Exposition],
        *,
        replica_stats_task: ReplicaStatsTask,
        turn: LoopShare,
        is_draining: Callable[[], bool],
        overriding: Callable[[Admit | None], list[Route]] = lambda _: [],
        token: BearerToken | None = None,
        tls: Leg | None = None,
    ) -> None:
        """`overriding` makes the routes of overrides, for those whom its argument admits. `tls`: the leg whose keys
        encrypt the pages; None: they are in plaintext."""
        self._tls = tls
        self._settings = settings
        self._watch = watch
        self._page = page
        self._make_exposition = exposition
        self._exposition: Exposition | None = None
        self._is_draining = is_draining
        self._overriding = overriding
        self._token = token
        self._trust = Trust({*names_of_this_machine(), settings.listen.host, *settings.allowed_hosts})
        self._turn = turn
        self._replica_stats_task = replica_stats_task
        self._process = ProcessFigures()
        self._reloads = Shared(self._reload, lambda _: LEAST_PAUSE_SECONDS)
        self._metrics = {
            openmetrics: Shared(partial(self._work_out_metrics, openmetrics=openmetrics), _at_once)
            for openmetrics in (False, True)
        }
        self._config = Shared(self._work_out_config, _at_once)
        self._throttle = Shared(self._work_out_throttle, _at_once)

    def tasks(self, http: HttpServer, control: HttpServer | None = None) -> dict[Task, Callable[[], Awaitable[None]]]:
        """Return the background tasks; each runs under the supervisor. `control`: the server of control.sock."""
        token = self._token
        more: dict[Task, Callable[[], Awaitable[None]]] = {} if token is None else {Task.HTTP_TOKEN: token.run}
        named = frozenset(self._settings.writers)
        others = []
        if token is not None or named:
            others = self._overriding(Writers(token, named).required)
        table = pages(
            self.endpoints(),
            others,
            admit=token.required if token is not None and self._settings.require_token else None,
            reload=self._settings.reload,
        )
        if control is not None:
            # It has turns of its own: its answers are not to wait for those that the network asks for.
            private = pages(self.endpoints(), self._overriding(None))
            more[Task.CONTROL] = partial(control.run, private, trust=self._trust, turn=LoopShare())
        return {
            **more,
            Task.HTTP: partial(http.run, table, trust=self._trust, turn=self._turn, tls=self._context()),
            Task.HTTP_RELOAD: self._reloads.run,
            Task.HTTP_PAGES: self._work_out_pages,
            Task.REPLICA_STATS: self._replica_stats_task.run,
        }

    def _context(self) -> Callable[[], ssl.SSLContext] | None:
        leg = self._tls
        return None if leg is None else lambda: leg.loaded.contexts[0]

    def endpoints(self) -> Endpoints:
        return Endpoints(
            metrics=lambda accept: self._metrics[lists_openmetrics(accept)].fresh(),
            ready=lambda: self._page.readiness(draining=self._is_draining()),
            config=self._config.fresh,
            throttle=self._throttle.fresh,
            reload=self._reloads.fresh,
        )

    async def _work_out_pages(self) -> None:
        """Work out each page when it is asked for; until cancelled."""
        async with trio.open_nursery() as nursery:
            for run in (*(page.run for page in self._metrics.values()), self._config.run, self._throttle.run):
                nursery.start_soon(run)

    async def _work_out_metrics(self, *, openmetrics: bool) -> tuple[bytes, str]:
        await self._replica_stats_task.refresh()
        process = await self._process.read()
        if self._exposition is None:
            # In a thread, at the first scrape: to load what knows the format takes 0.1 s of CPU.
            self._exposition = await in_thread(self._make_exposition, limiter=_LOADING)
        return await self._turn.work_out(self._exposition.encode(process, openmetrics=openmetrics))

    async def _work_out_config(self) -> Json:
        return await self._turn.work_out(self._page.config())

    async def _work_out_throttle(self) -> Page:
        await self._replica_stats_task.refresh()
        return await self._turn.work_out(self._page.throttle(trio.current_time()))

    async def _reload(self) -> tuple[bool, Json]:
        outcome = await self._watch.reload("http")
        facts = {"outcome": outcome.result.value, "error": outcome.error, "changes": dict(outcome.changes)}
        return outcome.error is None, facts


def _at_once(_: float) -> float:
    """Return no pause: each page is computed at once after it was asked for."""
    return 0.0
