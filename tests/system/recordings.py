"""Moves on real brokers whose sidecars keep a journal, and what the taps counted of them meanwhile."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import trio

from lab.cluster.plan import ClusterPlan
from lab.measuring.figures import Answer
from lab.moves.open_move import open_move
from lab.sidecars.sidecars import SidecarPlan

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lab.brokers.releases import Release
    from lab.cluster.cluster import Cluster
    from lab.measuring.figures import Sample
    from lab.moves.move import Move

JOURNAL = "journal"
_FINISH_SECONDS = 150.0
_APART_SECONDS = 1.5


class Delivery(NamedTuple):
    """An answer's records of one partition, when its last byte had passed the tap; seconds since 1970."""

    time: float
    leader: int
    follower: int
    partition: int
    record_bytes: int


class Recorded(NamedTuple):
    """A move as the taps saw it."""

    topic: str
    move: Move
    began: float
    """When it was asked for, seconds since 1970."""
    deliveries: tuple[Delivery, ...]
    equal: bool

    def bytes_by_partition(self) -> dict[int, int]:
        found: Counter[int] = Counter()
        for delivery in self.deliveries:
            found[delivery.partition] += delivery.record_bytes
        return dict(found)

    def bytes_by_second(self) -> Counter[int]:
        found: Counter[int] = Counter()
        for delivery in self.deliveries:
            found[int(delivery.time)] += delivery.record_bytes
        return found


def plan(brokers: Sequence[int], release: Release) -> ClusterPlan:
    """A cluster whose sidecars all keep a journal."""
    settings = {JOURNAL: f'directory = "{JOURNAL}"'}
    return ClusterPlan(brokers=tuple(brokers), release=release, sidecars=SidecarPlan(settings=settings))


async def record(cluster: Cluster, move: Move) -> Recorded:
    """Carry out the move, to the end. Raises LabError."""
    wall_clock = time.time() - time.monotonic()
    async with open_move(cluster, move, begin=False) as opened:
        # In the second of a change the larger quota counts, here none at all: let that not be one of the move's.
        await trio.sleep(_APART_SECONDS)
        await opened.begin()
        began = opened.started + wall_clock
        outcome = await opened.finish(timeout_seconds=_FINISH_SECONDS)
        await trio.sleep(_APART_SECONDS)
        samples, topic = opened.samples(), opened.topic
    return Recorded(topic, move, began, tuple(_deliveries(samples, topic, wall_clock)), outcome.equal)


def _deliveries(samples: Sequence[Sample], topic: str, wall_clock: float) -> list[Delivery]:
    return [
        Delivery(answer.t + wall_clock, answer.leader, answer.follower, partition, size)
        for answer in samples
        if isinstance(answer, Answer)
        for name, partition, size in answer.partitions
        if name == topic
    ]


async def collect_journals(cluster: Cluster, folder: Path) -> None:
    """Stop the sidecars in order, so that their journals are whole, and copy these."""
    for broker, sidecar in cluster.sidecars.items():
        await sidecar.stop()
        source = sidecar.quotas_file.parent / JOURNAL
        await trio.to_thread.run_sync(shutil.copytree, source, folder / str(broker))
