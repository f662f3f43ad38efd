"""Finds where the batches end in the records of one entry, from their headers alone, in whatever pieces they come.

Each batch (message formats v0 to v2) begins with its base offset and the number of bytes that follow: 12 bytes from
which the place of the next batch is known. A leader cuts records at partition_max_bytes, in the middle of a batch as a
rule; a follower discards that part of a batch and fetches the batch again. Where at least its header has come, the size
of the next batch is known before it is fetched.

Must not know what the sizes are used for. Invariant: a size is what a batch's own header says, or 0 for unknown;
nonsense ends the walk.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..wire.framing import Bytes

_BATCH_LENGTH = struct.Struct(">8xi")  # after the base offset; the same place in message formats v0 to v2
BATCH_HEADER_BYTES = _BATCH_LENGTH.size
"""The bytes of a batch that tell its size."""
_SMALLEST_MESSAGE_BYTES = 14  # format v0: crc, magic, attributes, null key, null value


def batch_size(buffer: Bytes, at: int, end: int) -> int:
    """Return the bytes of the batch (or message) at ``at``, as it says itself, which may be more than there are.

    0 if fewer than 12 bytes stand before ``end``, or the length is nonsense.
    """
    if end - at < BATCH_HEADER_BYTES:
        return 0
    (length,) = _BATCH_LENGTH.unpack_from(buffer, at)
    return BATCH_HEADER_BYTES + int(length) if length >= _SMALLEST_MESSAGE_BYTES else 0


class BatchWalk:
    """Walks the headers in `size` bytes of records."""

    __slots__ = ("at", "is_over", "largest_bytes", "next_bytes", "size", "whole")

    def __init__(self, size: int) -> None:
        self.size = size
        self.at = 0
        """The position of the next header, counted from the first of the records: every batch before it is whole."""
        self.whole = 0
        """The number of whole batches, as far as was seen."""
        self.largest_bytes = 0
        """The size of the largest batch of which the header was seen."""
        self.next_bytes = 0
        """The size of the batch that is cut off at the end of the records; 0: unknown, or there is none."""
        self.is_over = size < BATCH_HEADER_BYTES
        """True if nothing more is to be learnt from the rest of the records."""

    @property
    def alike_bytes(self) -> int:
        """The size of the largest batch, if those that were seen are half as large on average at least; 0 otherwise."""
        seen, count = self.at + self.next_bytes, self.whole + (self.next_bytes > 0)
        return self.largest_bytes if 2 * seen >= count * self.largest_bytes else 0

    def look(self, buffer: Bytes, records_at: int, end: int) -> None:
        """Read the headers that `buffer` holds. The records begin at `records_at` in it, which is negative if their
        beginning has gone; it holds nothing from `end` on."""
        at, size, largest = self.at, self.size, self.largest_bytes
        most = min(end - records_at, size)
        while at + BATCH_HEADER_BYTES <= most and not self.is_over:
            found = batch_size(buffer, records_at + at, end)
            if found > largest:
                largest = found
            if not found:
                self.is_over = True
            elif at + found > size:
                self.next_bytes, self.is_over = found, True
            else:
                at += found
                self.whole += 1
        self.at, self.largest_bytes = at, largest
        if at + BATCH_HEADER_BYTES > size:
            self.is_over = True
