"""Tells of a handshake that comes in crumbs, before OpenSSL reads it: each record costs it a microsecond or two.

OpenSSL reads on for as long as a message is not complete. A hello of 60 KB in records of one byte each, which anybody
may send, took 95 ms of a core in one step of the loop (measured). Whoever means it sends a dozen records.

Looks at what has come without taking it, and knows not where in it a record begins: a record's head is told by its
first four bytes, which are three in a million among any others. Invariant: what is looked at stays in the socket.
"""

from __future__ import annotations

import re
import socket
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl

MOST_SMALL_RECORDS = 128
"""That are here at once: together they cost 0.2 ms."""
LOOKED_AT_BYTES = 256 * 1024
"""More than all that OpenSSL takes of a handshake: a hello has 128 KiB at most, certificates 100 KB. To look
at so much takes 2 ms at worst, and 5 µs as a rule."""
_SMALL_RECORD = re.compile(rb"[\x14-\x17]\x03.\x00", re.DOTALL)
"""Its kind, the version, and a length of less than 256 bytes (RFC 8446, 5.1)."""
_CAME = memoryview(bytearray(LOOKED_AT_BYTES))
"""Of the loop, where one handshake takes a step at a time. Pages that stay unused cost no memory."""


def comes_in_crumbs(sock: ssl.SSLSocket) -> bool:
    """Whether more small records have come than anybody needs; false where there is nothing to look at."""
    try:
        # SSLSocket's own refuses to look at what is encrypted.
        came = socket.socket.recv_into(sock, _CAME, 0, socket.MSG_PEEK)
    except OSError:  # nothing has come, or OpenSSL will say what is wrong
        return False
    found = _SMALL_RECORD.finditer(_CAME[:came])
    return next(islice(found, MOST_SMALL_RECORDS, None), None) is not None
