"""Builds the pages: authorizes requests, computes each page once for all who wait, and bounds its share of the loop.

Does little itself: `status_page` and `exposition` make the content, `http` serves it. Invariant: no page costs the
loop more than a slice at a time. All who ask for a page, or for a reload, while it is not begun yet share it, and a
page is never older than the request. The kernel's figures of the process are read at most once a second, in a thread.

prometheus_client, and what looks up our own version, take 0.2 s of CPU to load. They are loaded once traffic is served,
by one thread: if two threads import a module at the same time, each may see half of it.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import trio

from ..files.watching import load_notifier
from ..http.authorization import Trust, Writers, names_of_this_machine
from ..http.loop_share import LoopShare, Shared
from ..http.routing import TEXT, Admit, Answer, Route, Routes, json_answer
from ..package import own_version
from ..process.supervision import Task
from ..threads import NoThreadError, in_thread

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterable, Sequence

    from prometheus_client import Metric as Family

    from ..config.settings import HttpSettings
    from ..http.authorization import BearerToken
    from ..http.routing import Request
    from ..http.server import HttpServer
    from ..quota_files.reload import QuotaWatch
    from ..tls.leg import Leg
    from .exposition import Exposition
    from .metric_row import Sources
    from .quota_checks import ReplicaStatsTask
    from .status_page import StatusPage
    from .throttle_page import Page


MIN_PAUSE_SECONDS = 0.2
"""The pause between two reloads that HTTP asks for; requests that come meanwhile share the next reload."""


_LOADING = trio.CapacityLimiter(1)
Json = Mapping[str, Any]
PROMETHEUS_TEXT = "text/plain; version=0.0.4; charset=utf-8"
PROCESS_FRESH_SECONDS = 1.0
_IMPORTING = threading.Lock()


class Site:
    """Builds the routes of all pages, and the tasks that work them out."""

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
        """Create the site. `overriding` makes the routes of overrides, for those whom its argument admits. `tls`: the
        leg whose keys encrypt the pages; None: they are in plaintext."""
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
        self._reloads = Shared(self._reload, lambda _: MIN_PAUSE_SECONDS)
        self._metrics = Shared(self._work_out_metrics, _at_once)
        self._config = Shared(self._work_out_config, _at_once)
        self._throttle = Shared(self._work_out_throttle, _at_once)

    def tasks(self, http: HttpServer, control: HttpServer | None = None) -> dict[Task, Callable[[], Awaitable[None]]]:
        """Return the background tasks; each runs under the supervisor. `control`: the server of control.sock."""
        token = self._token
        more: dict[Task, Callable[[], Awaitable[None]]] = {} if token is None else {Task.HTTP_TOKEN: token.run}
        named = frozenset(self._settings.writers)
        others = self._overriding(_nobody if token is None and not named else Writers(token, named).required)
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
            metrics=self._metrics.fresh,
            ready=lambda: self._page.readiness(draining=self._is_draining()),
            config=self._config.fresh,
            throttle=self._throttle.fresh,
            reload=self._reloads.fresh,
        )

    async def _work_out_pages(self) -> None:
        """Render each page on request, until cancelled."""
        async with trio.open_nursery() as nursery:
            for run in (self._metrics.run, self._config.run, self._throttle.run):
                nursery.start_soon(run)

    async def _work_out_metrics(self) -> bytes:
        await self._replica_stats_task.refresh()
        process = await self._process.read()
        if self._exposition is None:
            # In a thread, at the first scrape: loading the format's library takes 0.1 s of CPU.
            self._exposition = await in_thread(self._make_exposition, limiter=_LOADING)
        return await self._turn.work_out(self._exposition.encode(process))

    async def _work_out_config(self) -> Json:
        return await self._turn.work_out(self._page.config())

    async def _work_out_throttle(self) -> Page:
        await self._replica_stats_task.refresh()
        return await self._turn.work_out(self._page.throttle(trio.current_time()))

    async def _reload(self) -> tuple[bool, Json]:
        outcome = await self._watch.reload("http")
        facts = {"outcome": outcome.result.value, "error": outcome.error, "changes": dict(outcome.changes)}
        return outcome.error is None, facts


def _nobody(_: Request) -> Answer:
    """Refuse to change anything where no writer is configured."""
    needed = "expected `[http] token_file` or `writers` in proxy.toml: without them overrides are at control.sock alone"
    return json_answer(403, {"error": f"nobody may read or change overrides here: {needed}"})


def _at_once(_: float) -> float:
    """Return no pause: each page is computed at once after it was asked for."""
    return 0.0


class Endpoints(NamedTuple):
    """The functions behind the paths. `ready` returns at once, whatever else is under way."""

    metrics: Callable[[], Awaitable[bytes]]
    ready: Callable[[], tuple[bool, Json]]
    """The function that returns whether traffic may be sent here, and the reasons."""
    config: Callable[[], Awaitable[Json]]
    throttle: Callable[[], Awaitable[Page]]
    reload: Callable[[], Awaitable[tuple[bool, Json]]]
    """The function that reads quotas.toml anew; it returns whether the file is good, and what changed or what is
    wrong."""


def pages(
    endpoints: Endpoints, others: Iterable[Route] = (), *, admit: Admit | None = None, reload: bool = True
) -> Routes:
    """Return the table of all pages, with `others` after them.

    `admit` is asked before every page but the probes'; without `reload` there is no route that reads quotas.toml again.
    """

    async def metrics(_: Request) -> Answer:
        return Answer(200, await endpoints.metrics(), PROMETHEUS_TEXT)

    async def healthz(_: Request) -> Answer:
        await trio.lowlevel.checkpoint()
        return Answer(200, b"ok\n", TEXT)  # the loop that relays says it, which shows that it turns

    async def readyz(request: Request) -> Answer:
        await trio.lowlevel.checkpoint()
        ready, reasons = endpoints.ready()
        # A probe may use any name. Our files are named only to a peer that knows our name, not to a page that was
        # rebound.
        return json_answer(200 if ready else 503, {"ready": ready, **(reasons if request.by_our_name else {})})

    async def config(_: Request) -> Answer:
        return json_answer(200, await endpoints.config())

    async def throttle(_: Request) -> Answer:
        return json_answer(200, await endpoints.throttle())

    async def read_again(_: Request) -> Answer:
        good, facts = await endpoints.reload()
        return json_answer(200 if good else 400, facts)

    let_in: Admit = admit or (lambda _: None)
    return Routes(
        [
            Route("GET", "/metrics", metrics, admit=let_in),
            Route("GET", "/healthz", healthz, any_host=True),
            Route("GET", "/readyz", readyz, any_host=True),
            Route("GET", "/config", config, admit=let_in),
            Route("GET", "/throttle", throttle, admit=let_in),
            *([Route("POST", "/-/reload", read_again, admit=let_in)] if reload else []),
            *others,
        ]
    )


class ProcessFigures:
    """The kernel's figures of this process (CPU, memory, descriptors) as prometheus_client has them: ``process_…``.

    Read in a thread, because descriptors are counted in turn, and 10 000 connections have 20 000. A scrape waits no
    longer than `PROCESS_FRESH_SECONDS`; if the figures are not there in time, it shows the last ones.
    """

    def __init__(self, collect: Callable[[], Sequence[Family]] | None = None) -> None:
        self._collect = collect or _collected
        self._last: Sequence[Family] = ()
        self._read_at = -PROCESS_FRESH_SECONDS
        self._reading = trio.Lock()
        self._threads = trio.CapacityLimiter(1)
        """A limiter of this site's own threads: Trio's shared threads may all be waiting for a name server that does
        not answer."""

    async def read(self) -> Sequence[Family]:
        with trio.move_on_after(PROCESS_FRESH_SECONDS):
            async with self._reading:
                if trio.current_time() - self._read_at >= PROCESS_FRESH_SECONDS:
                    with suppress(NoThreadError):  # without a descriptor nothing is found either
                        self._last = await in_thread(self._collect, limiter=self._threads) or self._last
                    self._read_at = trio.current_time()
        return self._last


def _collected() -> Sequence[Family]:
    # Loaded when it is first scraped, in the thread that collects: a start does not wait for it.
    load_prometheus()
    from prometheus_client import ProcessCollector

    return tuple(ProcessCollector(registry=None).collect())


def load_prometheus() -> None:
    """Import prometheus_client completely, before others import it. Blocking."""
    with _IMPORTING:
        from ..observing import exposition  # noqa: F401


def load_late() -> None:
    """Import everything that can wait. Blocking.

    A module that cannot be loaded for want of a descriptor is loaded at its first use.
    """
    for load in (own_version, load_prometheus, load_notifier):
        with suppress(ImportError, OSError):
            load()


async def load_lazily() -> None:
    """Load it in a thread; otherwise the first scrape would hold up the loop. If there is no thread for it, each part
    is loaded when it is needed first."""
    with suppress(NoThreadError):
        await in_thread(load_late, limiter=trio.CapacityLimiter(1))


def exposition_of(sources: Sources) -> Exposition:
    """Make the exposition. Blocking."""
    load_prometheus()
    from .exposition import Exposition

    return Exposition(sources)
