"""Encodes records for the filler: old message sets (format v1) and record batches (format v2). Pure.

Content differs from record to record (v1) or batch to batch (v2), and is incompressible, so that a checksum
over a replica's files means something. Knows nothing of connections.
Invariant: what is made here the broker stores as it is, but for the offsets (KIP-32: format v1, relative
offsets in wrappers; KIP-98: format v2).
"""

from __future__ import annotations

import random
import struct
import time
import zlib
from dataclasses import dataclass, replace
from typing import Literal

MessageFormat = Literal["v1", "v2"]

_MESSAGE = struct.Struct(">qiIBBqii")  # offset, size, crc, magic, attributes, timestamp, key, value length
_MESSAGE_AFTER_CRC = struct.Struct(">BBqii")
_BATCH_HEAD = struct.Struct(">qiiBI")  # base offset, length, leader epoch, magic, crc
_BATCH_BODY = struct.Struct(">hiqqqhii")
_COUNTER = struct.Struct(">q")
_GZIP = 1
_GZIP_WINDOW_BITS = 31
_POOL_BYTES = 1 << 20
_STRIDE = 4093  # a prime, so that neighbouring records do not share their content
_CRC32C_POLYNOMIAL = 0x82F63B78


@dataclass(frozen=True, slots=True)
class Shape:
    """The shape of one batch.

    Args:
        record_bytes: size of each value, at least 8.
        batch_records: records in one batch (v2), wrapper (v1, compressed) or message set (v1).
        message_format: v1 for `log.message.format.version` 0.10.x, v2 from 0.11 on.
        compressed: v1 only: one gzip wrapper holds all records, so that the log has really big batches.
    """

    record_bytes: int = 1000
    batch_records: int = 16
    message_format: MessageFormat = "v1"
    compressed: bool = False

    def __post_init__(self) -> None:
        if self.record_bytes < _COUNTER.size or self.batch_records < 1:
            raise ValueError(f"expected records of 8 bytes or more and at least one per batch, found {self}")
        if self.compressed and self.message_format != "v1":
            raise ValueError("only format v1 needs a compressed wrapper to have batches at all")

    def stored_as(self, message_format: MessageFormat) -> Shape:
        """Return the same records in another format; batches of v2 need no wrapper."""
        if message_format == self.message_format:
            return self
        return replace(self, message_format=message_format, compressed=False)


SMALL = Shape()
"""A batch of 16 records of 1000 B: what a producer with batch.size 16 KiB writes."""
BIG = Shape(record_bytes=100_000, batch_records=9)
"""A batch of 0.9 MB, just below the default message.max.bytes."""


class RecordMaker:
    """Makes batch after batch of one shape. Args: seed: the same seed makes the same bytes."""

    def __init__(self, shape: Shape, *, seed: int = 0, timestamp_ms: int | None = None) -> None:
        self.shape = shape
        self._timestamp_ms = int(time.time() * 1000) if timestamp_ms is None else timestamp_ms
        pool = random.Random(seed).randbytes(_POOL_BYTES)
        self._pool = pool * (1 + shape.record_bytes // _POOL_BYTES) + pool[: shape.record_bytes]
        self._made = 0
        if shape.message_format == "v2":
            self._image, self._crc_state = self._batch_image()
        head = _MESSAGE_AFTER_CRC.pack(1, 0, self._timestamp_ms, -1, shape.record_bytes)
        self._message_crc = zlib.crc32(head)

    def batch(self) -> bytes:
        """Return the next `batch_records` records, encoded."""
        if self.shape.message_format == "v2":
            return self._record_batch()
        messages = self._messages()
        return self._wrapped(messages) if self.shape.compressed else messages

    def _messages(self) -> bytes:
        size, pool, crc = self.shape.record_bytes, self._pool, self._message_crc
        rest = size - _COUNTER.size
        parts = []
        for offset in range(self.shape.batch_records):
            at = (self._made * _STRIDE) % _POOL_BYTES
            value = _COUNTER.pack(self._made) + pool[at : at + rest]
            self._made += 1
            parts.append(_MESSAGE.pack(offset, size + 22, zlib.crc32(value, crc), 1, 0, self._timestamp_ms, -1, size))
            parts.append(value)
        return b"".join(parts)

    def _wrapped(self, messages: bytes) -> bytes:
        # Stored, not deflated: the content cannot be compressed anyway.
        packer = zlib.compressobj(0, zlib.DEFLATED, _GZIP_WINDOW_BITS)
        value = packer.compress(messages) + packer.flush()
        after_crc = _MESSAGE_AFTER_CRC.pack(1, _GZIP, self._timestamp_ms, -1, len(value))
        crc = zlib.crc32(value, zlib.crc32(after_crc))
        # KIP-31: a wrapper carries the offset of its last record.
        head = struct.pack(">qiI", self.shape.batch_records - 1, 4 + len(after_crc) + len(value), crc)
        return head + after_crc + value

    def _record_batch(self) -> bytes:
        """Return the image with its number in the last record's last 8 bytes, and the checksum that goes with it."""
        image = self._image
        tail = _COUNTER.pack(self._made) + b"\0"
        self._made += 1
        crc = ~crc32c_state(tail, self._crc_state) & 0xFFFFFFFF
        _BATCH_HEAD.pack_into(image, 0, 0, len(image) - 12, -1, 2, crc)
        image[-len(tail) :] = tail
        return bytes(image)

    def _batch_image(self) -> tuple[bytearray, int]:
        records = b"".join(self._record(offset) for offset in range(self.shape.batch_records))
        count = self.shape.batch_records
        body = _BATCH_BODY.pack(0, count - 1, self._timestamp_ms, self._timestamp_ms, -1, -1, -1, count)
        # The checksum starts after itself; all but the counter at the very end is the same in every batch.
        state = crc32c_state((body + records)[: -_COUNTER.size - 1], 0xFFFFFFFF)
        return bytearray(_BATCH_HEAD.size) + body + records, state

    def _record(self, offset: int) -> bytes:
        at = (offset * _STRIDE) % _POOL_BYTES
        value = self._pool[at : at + self.shape.record_bytes]
        content = b"\0" + varint(0) + varint(offset) + varint(-1) + varint(len(value)) + value + varint(0)
        return varint(len(content)) + content


def varint(value: int) -> bytes:
    """Encode a zigzag varint, as record batches use it (KIP-98)."""
    rest = (value << 1) ^ (value >> 63)
    found = bytearray()
    while rest >= 0x80:
        found.append(rest & 0x7F | 0x80)
        rest >>= 7
    found.append(rest)
    return bytes(found)


def crc32c_state(data: bytes, state: int) -> int:
    """Return Castagnoli's register after these bytes; it begins as 0xFFFFFFFF and is inverted at the end."""
    table = _CRC32C_TABLE
    for byte in data:
        state = table[(state ^ byte) & 0xFF] ^ (state >> 8)
    return state


def _crc32c_entry(index: int) -> int:
    for _ in range(8):
        index = (index >> 1) ^ (_CRC32C_POLYNOMIAL if index & 1 else 0)
    return index


_CRC32C_TABLE = tuple(_crc32c_entry(index) for index in range(256))
