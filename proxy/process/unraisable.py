"""Errors that Python can raise to nobody, because C called what failed: told in the log, as everything is.

By itself Python writes them to standard error, with a traceback, on the loop: whoever dials a leg with keys by a name
that is not ASCII makes one (OpenSSL asks for the certificate of that name), and 123 of those filled a pipe that nobody
read, and ended the process by its own watchdog (measured). Knows no cause.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..logs.log import Log


@contextmanager
def unraisable_told(log: Log) -> Iterator[None]:
    """While the block lasts. The error's text is told, never the object that it is about: a peer may have made it."""

    def tell(found: sys.UnraisableHookArgs) -> None:
        log.warning("error_not_raised", error=f"{found.exc_type.__name__}: {found.exc_value}")

    before, sys.unraisablehook = sys.unraisablehook, tell
    try:
        yield
    finally:
        sys.unraisablehook = before
