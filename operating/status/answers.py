"""Asks sidecars for /throttle, all of them at once (`proxy.observing.throttle_page` says what is in it).

Blocking. Invariant: a sidecar that cannot be reached is an answer with its error.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from proxy.errors import UnreachableError
from proxy.observing.throttle_page import Page

from ..asking import ask

if TYPE_CHECKING:
    from collections.abc import Sequence

_PAGE = msgspec.json.Decoder(Page)
_MOST_AT_ONCE = 64


class Sidecar(NamedTuple):
    """The answer of one sidecar, or the `error` in place of it."""

    url: str
    content: bytes = b""
    page: Page | None = None
    error: str | None = None
    broker: int | None = None
    """As fleet.toml has it; None if it is not known before the answer."""


def ask_all(sidecars: Sequence[Sidecar]) -> list[Sidecar]:
    """Return the sidecars with their answers. One that does not answer costs its time-out, not the others'."""
    with ThreadPoolExecutor(min(len(sidecars), _MOST_AT_ONCE)) as threads:
        return list(threads.map(_ask_one, sidecars))


def _ask_one(asked: Sidecar) -> Sidecar:
    try:
        content = ask(asked.url, "/throttle")
        page = decode(asked.url, content)
    except UnreachableError as error:
        return asked._replace(error=str(error))
    if asked.broker is not None and page.broker != asked.broker:
        return asked._replace(error=f"{asked.url}: is the sidecar of broker {page.broker}, not of {asked.broker}")
    return asked._replace(content=content, page=page)


def decode(url: str, content: bytes) -> Page:
    """Return the page. Raises UnreachableError for an answer that is not a sidecar's."""
    try:
        return _PAGE.decode(content)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise UnreachableError(f"{url}: the answer is not a sidecar's: {error}") from error


def read(url: str) -> Page:
    """Ask one sidecar. Raises UnreachableError."""
    return decode(url, ask(url, "/throttle"))
