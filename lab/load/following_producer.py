"""A live producer that follows its partition's leader from broker to broker; and which of its records a broker's disk
has.

Invariant: a record counts as acknowledged once, with the offset and number under which it is stored.
"""

from __future__ import annotations

import struct
from functools import partial
from typing import TYPE_CHECKING

import trio

from ..errors import LabError
from ..measuring.compare_replicas import batches_of_partition
from ..wire.records import Shape
from .live_producer import LiveProducer

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from ..cluster.cluster import Cluster
    from .live_producer import Acknowledged

_LOOK_SECONDS = 0.1
_RECORD = Shape(record_bytes=200, batch_records=1)
_MAGIC_AT = 16
_VALUE_AT = 34  # of a message of format v1 without key: offset 8, size 4, crc 4, magic 1, attributes 1, time 8, lengths
_NUMBER = struct.Struct(">q")
_NUMBER_AT_END = -9  # of a batch of format v2: the number, and the count of headers of its last record


class FollowingProducer:
    """acks=all records of 200 bytes to one partition until `run` is cancelled, wherever it is led."""

    def __init__(self, cluster: Cluster, topic: str, partition: int, *, interval_seconds: float = 0.005) -> None:
        self._cluster = cluster
        self._topic, self._partition, self._interval = topic, partition, interval_seconds
        self._producers: list[LiveProducer] = []

    @property
    def acknowledged(self) -> list[Acknowledged]:
        return [record for producer in self._producers for record in producer.acknowledged]

    @property
    def interruptions(self) -> int:
        """How often it had to look for a leader again."""
        return len(self._producers) - 1

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run until cancelled."""
        leader = await self._leader()
        while True:
            producer = LiveProducer(
                self._cluster.addresses.direct(leader),
                self._topic,
                self._partition,
                interval_seconds=self._interval,
                shape=self._cluster.shape(_RECORD),
            )
            self._producers.append(producer)
            try:
                async with trio.open_nursery() as nursery:
                    await nursery.start(producer.run)
                    task_status.started()
                    task_status = trio.TASK_STATUS_IGNORED
                    while not producer.errors:  # noqa: ASYNC110 - a refusal tells nobody else
                        await trio.sleep(_LOOK_SECONDS)
                    nursery.cancel_scope.cancel()
            except* LabError:
                pass
            await trio.sleep(_LOOK_SECONDS)
            leader = await self._leader()

    async def _leader(self) -> int:
        while True:
            try:
                states = await trio.to_thread.run_sync(partial(self._cluster.admin.describe, self._topic))
            except LabError:
                states = []
            for state in states:
                if state.partition == self._partition and state.leader >= 0:
                    return state.leader
            await trio.sleep(_LOOK_SECONDS)


def missing(directory: Path, acknowledged: Iterable[Acknowledged]) -> list[Acknowledged]:
    """Return the records that are not where their leader said, in the log of a partition's directory.

    Raises:
        LabError: the directory holds no log.
    """
    stored = {offset: _number(content) for offset, _, content in batches_of_partition(directory)}
    return [record for record in acknowledged if stored.get(record.offset) != _NUMBER.pack(record.number)]


def _number(content: memoryview) -> bytes:
    """Return the record's number in a batch of its own, as `lab.wire.records` encodes it."""
    at = _VALUE_AT if content[_MAGIC_AT] < 2 else len(content) + _NUMBER_AT_END
    return content[at : at + _NUMBER.size].tobytes()
