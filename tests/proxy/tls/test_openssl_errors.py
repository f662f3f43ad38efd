"""What one connection leaves in OpenSSL's queue is none of another's."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

from proxy.tls.openssl_errors import forget_errors

LIB_SYS, BROKEN_PIPE = 2, 32


def test_the_queue_of_this_thread_is_empty_afterwards() -> None:
    """Where a read meets one, it raises BrokenPipeError, or an end that nobody sent: with Python 3.13 and OpenSSL 3.5 a
    peer that vanished while it was written to ended the next connection that was read from."""
    loaded = re.search(r"/\S*libcrypto\.so\S*", Path("/proc/self/maps").read_text())
    assert loaded is not None, "this Python's OpenSSL is in a library of its own"
    openssl = ctypes.CDLL(loaded[0])
    openssl.ERR_peek_error.restype = ctypes.c_ulong
    openssl.ERR_new()
    openssl.ERR_set_error(LIB_SYS, BROKEN_PIPE, None)
    assert openssl.ERR_peek_error() != 0
    forget_errors()
    assert openssl.ERR_peek_error() == 0
