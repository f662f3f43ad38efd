"""Waits until sidecars have taken a quotas file, by its hash, and says who has and who has not.

Knows /throttle. Invariant: a sidecar that cannot be asked is said to be so, and is no failure: the file is right all
the same; one that answers and has not taken the file in time is a failure.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ..errors import UnreachableError
from .page import read

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .page import Page

WAIT_SECONDS = 5.0
"""A change takes effect within 250 ms; a busy machine gets twenty times as long."""
_STEP_SECONDS = 0.1


def confirm(urls: Sequence[str], hash: str) -> Iterator[tuple[bool, str]]:  # noqa: A002 - what it is called everywhere
    """Yield for each of `urls` whether all is well, and a line about it."""
    deadline = time.monotonic() + WAIT_SECONDS
    for url in urls:
        try:
            page = _wait_taken(url, hash, deadline)
        except UnreachableError as error:
            yield True, f"could not ask: {error}; a sidecar that runs takes the file within 250 ms"
            continue
        if page.quotas.hash == hash:
            yield True, f"broker {page.broker} ({url}): in force, hash {hash}"
        else:
            yield False, f"broker {page.broker} ({url}): not in force after {WAIT_SECONDS:g} s: {_reason(page)}"


def _wait_taken(url: str, hash: str, deadline: float) -> Page:  # noqa: A002
    while True:
        page = read(url)
        if page.quotas.hash == hash or time.monotonic() >= deadline:
            return page
        time.sleep(_STEP_SECONDS)


def _reason(page: Page) -> str:
    if page.quotas.last_error is not None:
        return f"it refuses its file: {page.quotas.last_error}"
    return f"it has hash {page.quotas.hash}; does it read this file?"
