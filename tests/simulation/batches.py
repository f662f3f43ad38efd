"""Logs made of batches, as a leader sends them: cut at partition_max_bytes, in the middle of a batch as a rule.

A follower appends whole batches. The part of a batch at the end of an answer is discarded and fetched again.
One offset is one batch.
"""

from __future__ import annotations

import bisect
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lab.embedded.session_values import Read, SessionResponse

from ..proxy.conversation import MIB
from ..proxy.session_conversation import SessionLeader, as_session_request

if TYPE_CHECKING:
    from collections.abc import Callable

    from protocol.session.requests import PartitionKey

_BATCH_HEAD = struct.Struct(">qi")  # base offset, bytes that follow


@dataclass
class BatchLeader(SessionLeader):
    """`next_size`: the bytes of a partition's next batch, each time it is called."""

    next_size: Callable[[PartitionKey], int] = lambda _: 16_000
    _borders: dict[PartitionKey, list[int]] = field(default_factory=dict)

    def border(self, key: PartitionKey, offset: int) -> int:
        """Return the bytes of the log before `offset`."""
        borders = self._borders.setdefault(key, [0])
        while len(borders) <= offset:
            borders.append(borders[-1] + self.next_size(key))
        return borders[offset]

    def messages(self, key: PartitionKey, offset: int, size: int) -> int:
        return bisect.bisect_right(self._borders[key], self.border(key, offset) + size) - 1 - offset

    def answer(self, frame: bytes, now: float) -> SessionResponse:
        request = as_session_request(frame)
        self.asked.append(request)
        context = self.cache.context(request, now)
        reads: dict[PartitionKey, Read] = {}
        left, at_least_one = 10 * MIB, True
        for key, ask in context.partitions.items():
            end = self.ends[key]
            records = self._read(key, ask.fetch_offset, end, min(ask.partition_max_bytes, left), at_least_one)
            at_least_one = at_least_one and not records
            left = max(left - len(records), 0)
            reads[key] = Read(end, records_size=len(records), payload=records)
        return context.respond(reads)

    def _read(self, key: PartitionKey, offset: int, end: int, limit: int, at_least_one: bool) -> bytearray:
        if offset >= end:
            return bytearray()
        start, first = self.border(key, offset), self.border(key, offset + 1) - self.border(key, offset)
        if limit < first:
            if not at_least_one:
                return bytearray()
            limit = first
        records, at = bytearray(limit), 0
        while at < limit and offset < end:
            size = self.border(key, offset + 1) - start - at
            if at + _BATCH_HEAD.size <= limit:
                _BATCH_HEAD.pack_into(records, at, offset, size - _BATCH_HEAD.size)
            at, offset = at + size, offset + 1
        del records[at:]
        return records
