"""High watermarks of a broker's replicas, as its file `replication-offset-checkpoint` has them.

A broker writes that file every five seconds (`replica.high.watermark.checkpoint.interval.ms`), for replicas that it
leads and for those that it follows. No request tells a follower's high watermark: ListOffsets is answered by the leader
only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import LabError

if TYPE_CHECKING:
    from pathlib import Path

NAME = "replication-offset-checkpoint"
_VERSION = "0"


def high_watermarks(log_dir: Path) -> dict[tuple[str, int], int]:
    """Return high watermarks by topic and partition; empty before the broker has written its first checkpoint.

    A broker creates the file empty (Kafka's CheckpointFile). Then it is `0`, the number of entries, and a line
    `topic partition offset` each (OffsetCheckpointFile).

    Raises:
        LabError: the file is something else.
    """
    file = log_dir / NAME
    if not file.exists() or not (lines := file.read_text(encoding="utf-8").splitlines()):
        return {}
    version, *entries = lines
    if version != _VERSION:
        raise LabError(f"{file}: version {version!r}, not {_VERSION!r}")
    found = {}
    for entry in entries[1:]:
        topic, partition, offset = entry.split(" ")
        found[topic, int(partition)] = int(offset)
    return found
