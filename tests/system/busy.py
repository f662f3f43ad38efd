"""Other partitions that are in sync and produced to with acks=all meanwhile: what a throttle must not disturb."""

from __future__ import annotations

import uuid
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio

from lab.load.live_producer import LIVE, LiveProducer

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    from lab.cluster.cluster import Cluster

_WARM_UP_SECONDS = 2.5
"""A follower's fetcher takes a moment to find a new topic, and its leader, which refuses records meanwhile, to hear of
it; that is nobody's doing here."""


@asynccontextmanager
async def busy_partitions(
    cluster: Cluster, assignment: Mapping[int, Sequence[int]], *, interval_seconds: float = 0.02
) -> AsyncGenerator[list[LiveProducer]]:
    """A topic of its own for the length of a block, one producer for each partition."""
    topic = f"busy-{uuid.uuid4().hex[:8]}"
    await trio.to_thread.run_sync(cluster.admin.create_topic, topic, assignment)
    try:
        async with trio.open_nursery() as nursery:
            producers = [
                LiveProducer(
                    cluster.addresses.direct(replicas[0]), topic, partition, interval_seconds, cluster.shape(LIVE)
                )
                for partition, replicas in assignment.items()
            ]
            for producer in producers:
                await nursery.start(producer.run)
            await trio.sleep(_WARM_UP_SECONDS)
            for producer in producers:
                producer.acknowledged.clear()
                producer.errors.clear()
            yield producers
            nursery.cancel_scope.cancel()
    finally:
        with trio.move_on_after(30, shield=True):
            await trio.to_thread.run_sync(cluster.admin.delete_topic, topic)


def assert_undisturbed(producers: Sequence[LiveProducer], *, worst_seconds: float) -> None:
    """Every record was acknowledged, once and in order, and none took longer; nor has one that is not acknowledged yet
    waited longer."""
    for producer in producers:
        assert producer.acknowledged
        offsets = [record.offset for record in producer.acknowledged]
        assert producer.errors == []
        assert offsets == list(range(offsets[0], offsets[0] + len(offsets)))
        assert producer.percentile(1.0) <= worst_seconds
