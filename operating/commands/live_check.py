"""What the running sidecar adds to ``check``: has it these quotas, and do they do what was meant?

Asks over HTTP, and only where that was asked for. Invariant: a sidecar that does not answer is said to be so, never
taken for one without doubts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from proxy.errors import UnreachableError

from .page import read

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from proxy.observing.throttle_page import Page


@dataclass(frozen=True, slots=True)
class Live:
    """What the sidecar at `url` said; `error` if it did not."""

    url: str
    error: str | None = None
    hash: str | None = None
    has_these: bool = False
    warnings: tuple[str, ...] = ()
    finish_by: dict[str, datetime] = field(default_factory=dict)
    """By role, of rates that set themselves, if it is this broker's and has these quotas: when catch-up is to end."""


def ask_live(url: str, broker_id: int, hash: str) -> Live:  # noqa: A002 - what it is called everywhere
    """Blocking."""
    try:
        page = read(url)
    except UnreachableError as error:
        return Live(url, error=str(error))
    has_these = page.quotas.hash == hash
    ends = _ends(page) if has_these and page.broker == broker_id else {}
    return Live(url, None, page.quotas.hash, has_these, tuple(_warnings(page, broker_id)), ends)


def _ends(page: Page) -> dict[str, datetime]:
    rates = {name: role.rate for name, role in page.roles.items()}
    return {name: rate.finish_by for name, rate in rates.items() if rate is not None and rate.finish_by is not None}


def _warnings(page: Page, broker_id: int) -> Iterator[str]:
    if page.broker != broker_id:
        yield f"it is the sidecar of broker {page.broker}, not of {broker_id}"
    if page.quotas.last_error is not None:
        yield f"it refuses its file, and {page.quotas.what_holds}: {page.quotas.last_error}"
    for name, role in page.roles.items():
        yield from (f"{name}: {doubt.text}" for doubt in role.doubts)
        yield from (f"{name}: {n} passed undecoded ({why}), not throttled" for why, n in role.undecoded.items())


def live_lines(live: Live) -> list[str]:
    """For people."""
    if live.error is not None:
        return ["", f"running sidecar: {live.error}"]
    has = "has this quotas file" if live.has_these else f"has another quotas file, hash {live.hash}"
    return ["", f"running sidecar {live.url}: {has}", *(f"warning: running: {each}" for each in live.warnings)]
