"""OpenSSL's queue of errors, one of each thread, which all connections of the thread share.

OpenSSL judges a call by the errors in the queue after it, so nothing may be left there by another connection's.
Python's ssl module leaves something when a peer has gone while OpenSSL wrote to it (Python 3.13 with OpenSSL 3.5, on
Debian 13): the next read of any connection, healthy as it was, raised BrokenPipeError (python/cpython#148594).
"""

from __future__ import annotations

import contextlib
import functools
import ssl


@functools.cache
def _context() -> ssl.SSLContext:
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def forget_errors() -> None:
    """Empty this thread's queue, in some microseconds; to be called after each call of OpenSSL's that failed."""
    # The ssl module has no function for that. Where it refuses a certificate, it empties the queue.
    with contextlib.suppress(ssl.SSLError):
        _context().load_verify_locations(cadata=b"none")
