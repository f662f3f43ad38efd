"""A comparison of two replicas of a partition on disk, batch by batch, byte by byte.

Works on log directories of this machine. Leader and follower may have rolled their segments at different places, and
one of them may have deleted old records. So only the offsets that both have are compared.
Invariant: `equal` is only ever true after the same, non-empty range of offsets was hashed on both sides.
"""

from __future__ import annotations

import hashlib
import mmap
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import LabError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_HEAD = struct.Struct(">qiiB")  # offset, size, (crc or leader epoch), magic
_LAST_OFFSET_DELTA = struct.Struct(">i")
_LAST_OFFSET_DELTA_AT = 23
_OVERHEAD = 12
_SMALLEST_BATCH = 14


@dataclass(frozen=True, slots=True)
class ReplicaLog:
    """The first and last offset of a replica on disk; `end_offset` is one past the last record."""

    start_offset: int
    end_offset: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """The replicas that were compared, and whether they are the same.

    sha256: over the batches of both from the larger start to the smaller end offset.
    """

    partition: int
    leader: ReplicaLog
    follower: ReplicaLog
    leader_sha256: str
    follower_sha256: str

    @property
    def same_end(self) -> bool:
        return self.leader.end_offset == self.follower.end_offset

    @property
    def equal(self) -> bool:
        compared = min(self.leader.end_offset, self.follower.end_offset)
        return (
            self.same_end and compared > self.follower.start_offset
            and self.leader_sha256 == self.follower_sha256
        )  # fmt: skip


def compare(topic: str, partition: int, *, leader: Path, follower: Path) -> Comparison:
    """Compare one partition in two brokers' log directories.

    Raises:
        LabError: a directory does not hold the partition, or a file is not a log.
    """
    name = f"{topic}-{partition}"
    leader_log, follower_log = replica_log(leader / name), replica_log(follower / name)
    start = max(leader_log.start_offset, follower_log.start_offset)
    end = min(leader_log.end_offset, follower_log.end_offset)
    return Comparison(
        partition,
        leader_log,
        follower_log,
        _sha256(leader / name, start, end),
        _sha256(follower / name, start, end),
    )


def replica_log(directory: Path) -> ReplicaLog:
    """Return offsets and size of a partition's directory. Raises LabError."""
    start = end = size = 0
    for index, (first, last, content) in enumerate(batches_of_partition(directory)):
        start = first if index == 0 else start
        end = last + 1
        size += len(content)
    return ReplicaLog(start, end, size)


def _sha256(directory: Path, start: int, end: int) -> str:
    digest = hashlib.sha256()
    for _, last, content in batches_of_partition(directory):
        if start <= last < end:
            digest.update(content)
    return digest.hexdigest()


def batches_of_partition(directory: Path) -> Iterator[tuple[int, int, memoryview]]:
    """Yield (first offset, last offset, bytes) of every batch or old message, in order. An incomplete one at the end is
    left out."""
    segments = sorted(directory.glob("*.log"))
    if not segments:
        raise LabError(f"{directory} holds no log segments")
    for segment in segments:
        if segment.stat().st_size == 0:
            continue
        with (
            segment.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
            memoryview(content) as view,
        ):
            yield from _batches_of(view, segment)


def _batches_of(view: memoryview, segment: Path) -> Iterator[tuple[int, int, memoryview]]:
    at = 0
    while len(view) - at >= _HEAD.size:
        offset, size, _, magic = _HEAD.unpack_from(view, at)
        if size < _SMALLEST_BATCH or magic > 2:
            raise LabError(f"{segment} at {at}: not a batch (size {size}, magic {magic})")
        if at + _OVERHEAD + size > len(view):
            return
        last = offset
        if magic == 2:
            # Format v2 begins with its first offset, a v0/v1 wrapper with its last (KIP-98, KIP-31).
            last += _LAST_OFFSET_DELTA.unpack_from(view, at + _LAST_OFFSET_DELTA_AT)[0]
        with view[at : at + _OVERHEAD + size] as batch:
            yield offset, last, batch
        at += _OVERHEAD + size
