"""Errors that Python cannot raise, because the code that failed was called from C: they go to the log, like all others.

Without this, Python writes them to standard error, with a traceback, on the loop. A peer causes one when it dials a leg
with keys by a name that is not ASCII (OpenSSL calls Python for the certificate of that name). 123 of them filled a pipe
that nobody read; then the process hung, and its own watchdog ended it (measured). Knows no cause.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..logs.log import Log


@contextmanager
def log_unraisable(log: Log) -> Iterator[None]:
    """Log them while the block lasts. Of the object that an error is about nothing is logged: a peer may have made
    it."""

    def tell(found: sys.UnraisableHookArgs) -> None:
        log.warning("error_not_raised", error=f"{found.exc_type.__name__}: {found.exc_value}")

    before, sys.unraisablehook = sys.unraisablehook, tell
    try:
        yield
    finally:
        sys.unraisablehook = before
