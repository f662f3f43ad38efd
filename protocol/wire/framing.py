"""The length prefix of every Kafka message, an int32, checked before anything is allocated for the message.

Must not know what is inside a frame. Invariant: a size that leaves here is between 0 and the given maximum.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from ..errors import ProtocolError

if TYPE_CHECKING:
    from .buffers import Bytes

LENGTH_PREFIX = struct.Struct(">i")
LENGTH_PREFIX_BYTES = LENGTH_PREFIX.size


def frame_size(buffer: Bytes, at: int, *, maximum: int) -> int:
    """Return bytes of the frame whose length prefix is ``buffer[at:at + 4]``, the prefix itself not counted.

    Raises ProtocolError if the size is negative or above ``maximum``, or if the four bytes are not there.
    """
    try:
        (size,) = LENGTH_PREFIX.unpack_from(buffer, at)
    except struct.error as error:
        raise ProtocolError("a length prefix has four bytes") from error
    if not 0 <= size <= maximum:
        raise ProtocolError(f"frame size {size} is not between 0 and {maximum}")
    return int(size)


def with_length(frame: bytes) -> bytes:
    """Return the frame as it goes over the wire: its length prefix, then the frame."""
    return LENGTH_PREFIX.pack(len(frame)) + frame
