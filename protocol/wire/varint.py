"""Unsigned varints of flexible versions (KIP-482), read from a buffer.

Must not know what the numbers mean. Invariant: at most five bytes are looked at and the value fits an
unsigned 32-bit integer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import ProtocolError

if TYPE_CHECKING:
    from .buffers import Bytes

MAX_UVARINT = 2**32 - 1
MAX_UVARINT_BYTES = 5


def read_uvarint(buffer: Bytes, at: int, end: int) -> tuple[int, int] | None:
    """Return (value, position after it) of the varint at ``at``, or None if it does not end before ``end``.

    Raises ProtocolError if it is longer than five bytes or above 2**32 - 1.
    """
    value = 0
    for index in range(min(end - at, MAX_UVARINT_BYTES)):
        byte = buffer[at + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            if value > MAX_UVARINT:
                raise ProtocolError("an unsigned varint does not fit 32 bits")
            return value, at + index + 1
    if end - at >= MAX_UVARINT_BYTES:
        raise ProtocolError("an unsigned varint has more than five bytes")
    return None


def write_uvarint(value: int) -> bytes:
    """Return ``value`` (0 to 2**32 - 1) in as few bytes as it takes."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
