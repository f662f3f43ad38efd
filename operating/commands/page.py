"""A sidecar's /throttle, as commands ask for it (`proxy.observing.throttle_page` says what is in it)."""

from __future__ import annotations

import msgspec

from proxy.errors import UnreachableError
from proxy.observing.throttle_page import Page

from ..asking import ask

_PAGE = msgspec.json.Decoder(Page)


def fetch(url: str) -> bytes:
    """The JSON of /throttle as it came, on one line. Raises UnreachableError."""
    return ask(url, "/throttle")


def decode(url: str, content: bytes) -> Page:
    """Raises UnreachableError for an answer that is not a sidecar's."""
    try:
        return _PAGE.decode(content)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise UnreachableError(f"{url}: the answer is not a sidecar's: {error}") from error


def read(url: str) -> Page:
    """Raises UnreachableError."""
    return decode(url, fetch(url))
