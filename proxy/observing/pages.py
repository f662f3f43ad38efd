"""The pages that the sidecar serves: /metrics, /healthz, /readyz, /config, /throttle and POST /-/reload.

Knows their paths and how their answers look, not what they say (`Endpoints`). Invariant: JSON but for /metrics and
/healthz; a reload that fails is the caller's 400, never our 500.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import trio

from ..http.routing import TEXT, Admit, Answer, Route, Routes, json_answer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..http.routing import Request
    from .throttle_page import Page

Json = Mapping[str, Any]
OPENMETRICS = "application/openmetrics-text"


class Endpoints(NamedTuple):
    """The functions behind the paths. `ready` returns at once, whatever else is under way."""

    metrics: Callable[[str], Awaitable[tuple[bytes, str]]]
    """Takes the Accept header, returns the exposition and its content type."""
    ready: Callable[[], tuple[bool, Json]]
    """Whether traffic may be sent here, and the reasons."""
    config: Callable[[], Awaitable[Json]]
    throttle: Callable[[], Awaitable[Page]]
    reload: Callable[[], Awaitable[tuple[bool, Json]]]
    """Whether the file was good, and what changed or what is wrong."""


def pages(
    endpoints: Endpoints, others: Iterable[Route] = (), *, admit: Admit | None = None, reload: bool = True
) -> Routes:
    """Return the table of all pages, with `others` after them.

    `admit` is asked before every page but the probes'; without `reload` nobody may have quotas.toml read again.
    """

    async def metrics(request: Request) -> Answer:
        return Answer(200, *await endpoints.metrics(request.header("accept")))

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


def lists_openmetrics(accept: str) -> bool:
    """Return True if a scrape accepts OpenMetrics, whatever the order and the weights, as prometheus_client chooses.
    Versions and escapings in the header are not passed on: prometheus_client repeats them, and raises at some of
    them."""
    return any(kind.partition(";")[0].strip() == OPENMETRICS for kind in accept.split(","))
