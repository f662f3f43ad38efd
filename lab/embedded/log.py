"""A partition's log in memory: uncompressed messages of format v1, all of one size, one message per offset.

Invariant: the bytes at an offset never change, so leader and follower are equal exactly if their digests are.
"""

from __future__ import annotations

import hashlib
import struct
import zlib

_AFTER_CRC = struct.Struct(">bbqii")


def message(offset: int, value_bytes: int) -> bytes:
    """Return one message of format v1 whose value is `value_bytes` distinct bytes."""
    seed = hashlib.sha256(offset.to_bytes(8)).digest()
    value = (seed * (value_bytes // len(seed) + 1))[:value_bytes]
    body = _AFTER_CRC.pack(1, 0, offset, -1, len(value)) + value
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


class PartitionLog:
    """Append-only; offsets count from 0."""

    def __init__(self, *, value_bytes: int) -> None:
        self.message_bytes = len(message(0, value_bytes))
        self._value_bytes = value_bytes
        self._data = bytearray()

    @property
    def log_end_offset(self) -> int:
        return len(self._data) // self.message_bytes

    def produce(self, count: int) -> None:
        """Append `count` messages of our own."""
        first = self.log_end_offset
        self._data += b"".join(message(first + i, self._value_bytes) for i in range(count))

    def append(self, records: bytes) -> None:
        """Append fetched records. Raises ValueError if they are not the next ones, or not whole messages."""
        if len(records) % self.message_bytes:
            raise ValueError(f"{len(records)} bytes are not whole messages of {self.message_bytes}")
        (offset,) = struct.unpack_from(">q", records)
        if offset != self.log_end_offset:
            raise ValueError(f"records begin at offset {offset}, expected {self.log_end_offset}")
        self._data += records

    def read(self, offset: int, max_bytes: int, *, at_least_one: bool) -> bytes:
        """Return whole messages from `offset` on, at most `max_bytes`, but one if `at_least_one` (KIP-74)."""
        whole = max_bytes // self.message_bytes
        count = max(whole, 1) if at_least_one else whole
        start = offset * self.message_bytes
        return bytes(self._data[start : start + count * self.message_bytes])

    def digest(self) -> str:
        return hashlib.sha256(self._data).hexdigest()
