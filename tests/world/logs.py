"""Logs whose every byte can be made again: a batch is a header and a piece of noise, so nothing is kept of them.

Batches have message format v2's header; their sizes go round a short cycle. One batch has `records` offsets. A leader
cuts what it reads at the limit, in the middle of a batch as a rule; a follower appends whole batches and discards the
rest.
"""

from __future__ import annotations

import itertools
import random
import struct
import zlib
from bisect import bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from protocol.session.requests import PartitionKey

_HEADER = struct.Struct(">qiibIhiqqqhii")  # KIP-98
HEADER_BYTES = _HEADER.size
NOISE = random.Random(1).randbytes(2**21)
FOREVER = 10**7
"""Batches that nobody catches up on."""


class Log:
    """A leader's partition. `sizes`: of its batches, in turn, a megabyte at most; `end`: batches that there are."""

    def __init__(self, key: PartitionKey, sizes: Sequence[int], *, records: int = 4, end: int = 0) -> None:
        self.key = key
        self.sizes = tuple(max(each, HEADER_BYTES + 1) for each in sizes)
        self.records = records
        self.end = end
        self._borders = [0, *itertools.accumulate(self.sizes)]
        self._last = -1, b""
        self._salt = zlib.crc32(repr(key).encode())

    @property
    def end_offset(self) -> int:
        return self.end * self.records

    def border(self, batch: int) -> int:
        """Return the bytes of the log before a batch."""
        rounds, place = divmod(batch, len(self.sizes))
        return rounds * self._borders[-1] + self._borders[place]

    def batch_at(self, position: int) -> int:
        """Return the batch that holds this byte."""
        rounds, rest = divmod(position, self._borders[-1])
        return rounds * len(self.sizes) + bisect_right(self._borders, rest) - 1

    def readable(self, offset: int, limit: int, *, at_least_one: bool) -> int:
        """Return how many bytes a Fetch from `offset` brings (KIP-74)."""
        first = offset // self.records
        if first >= self.end:
            return 0
        batch = self.sizes[first % len(self.sizes)]
        if limit < batch:
            return batch if at_least_one else 0
        return min(limit, self.border(self.end) - self.border(first))

    def read(self, offset: int, size: int) -> bytes:
        """Return `size` bytes from `offset` on. What was read last is kept: its follower compares what came with it."""
        at, kept = self._last
        if at != offset or len(kept) < size:
            parts, batch, left = [], offset // self.records, size
            while left > 0:
                parts.append(self._batch(batch, left))
                left -= len(parts[-1])
                batch += 1
            kept = b"".join(parts)
            self._last = offset, kept
        return kept if len(kept) == size else kept[:size]

    def appended(self, offset: int, size: int) -> int:
        """Return the offset after the whole batches in `size` bytes from `offset` on."""
        return self.batch_at(self.border(offset // self.records) + size) * self.records

    def _batch(self, batch: int, most: int) -> bytes:
        size = self.sizes[batch % len(self.sizes)]
        offset, records = batch * self.records, self.records
        head = _HEADER.pack(offset, size - 12, 0, 2, batch, 0, records - 1, offset, offset, -1, -1, -1, records)
        at = (self._salt + batch * 7919) % (len(NOISE) // 2)
        whole = head + NOISE[at : at + size - HEADER_BYTES]
        return whole if size <= most else whole[:most]
