"""Recognises a handshake that comes in crumbs, before OpenSSL reads it: each record, however small, costs 1 or 2 µs.

OpenSSL reads on for as long as a message is not complete. Anybody may send a hello of 60 KB in records of one byte
each; it took 95 ms of a core in one step of the loop (measured). An honest peer sends a dozen records.

Looks at what has come without taking it, and does not know where in it a record begins. The head of a small record is
recognised by its first four bytes; in random bytes, such four occur once in four million. Invariant: what is looked at
stays in the socket.
"""

from __future__ import annotations

import re
import socket
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl

MOST_SMALL_RECORDS = 128
"""The most small records that may be in the socket at the same time. So many cost OpenSSL 0.2 ms."""
LOOKED_AT_BYTES = 256 * 1024
"""How much of the socket is looked at: more than OpenSSL takes of a handshake, since a hello has 128 KiB at most and
certificates 100 KB. To look at so much takes 2 ms at worst, and usually 5 µs."""
_SMALL_RECORD = re.compile(rb"[\x14-\x17]\x03.\x00", re.DOTALL)
"""Its kind, the version, and a length of less than 256 bytes (RFC 8446, 5.1)."""
_CAME = memoryview(bytearray(LOOKED_AT_BYTES))
"""One buffer for all handshakes: the loop looks at one of them at a time. Pages of it that stay unused cost no
memory."""


def comes_in_crumbs(sock: ssl.SSLSocket) -> bool:
    """Return True if more small records have come than any peer needs; False if nothing can be seen."""
    try:
        # SSLSocket's own refuses to look at what is encrypted.
        came = socket.socket.recv_into(sock, _CAME, 0, socket.MSG_PEEK)
    except OSError:  # nothing has come, or OpenSSL will say what is wrong
        return False
    found = _SMALL_RECORD.finditer(_CAME[:came])
    return next(islice(found, MOST_SMALL_RECORDS, None), None) is not None
