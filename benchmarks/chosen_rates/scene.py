"""The link, the producers whose load changes, and the move beside them. Knows no quota.

Two brokers, each in a network namespace with a network card of so many bytes a second. The leader sends the follower
what producers write to partitions that are in sync, and the partitions that move, over one connection, as with
num.replica.fetchers=1.
"""

from __future__ import annotations

import math
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import trio

from lab.brokers.releases import release
from lab.cluster.cluster import cluster
from lab.cluster.plan import ClusterPlan
from lab.host.namespaces import open_rooms
from lab.load.live_producer import LiveProducer
from lab.moves.scenes import topic
from lab.wire.records import Shape

from .shapes import FLAT

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from contextlib import AbstractAsyncContextManager

    from lab.cluster.cluster import Cluster
    from lab.host.namespaces import Rooms
    from lab.sidecars.sidecars import SidecarPlan

    from .shapes import Load, Part

LEADER, FOLLOWER = 101, 102
BROKERS = (LEADER, FOLLOWER)
MB = 1e6
MOVED = range(8)
PRODUCERS = range(16)
"""The number of producers of each topic."""
_RECORD_BYTES = 1000
_WARM_UP_SECONDS = 5.0


class Clock:
    """The clock of a load, which starts when the load begins to change."""

    def __init__(self) -> None:
        self._began = math.inf

    def begin(self) -> None:
        """Begin to change the load now. Before that it is that of the beginning."""
        self._began = trio.current_time()

    @property
    def seconds(self) -> float:
        """Seconds since the scene began."""
        return max(trio.current_time() - self._began, 0.0)


class Stage(NamedTuple):
    kafka: Cluster
    rooms: Rooms
    link: float
    """Bytes per second."""
    tell: Callable[[str], None]


@asynccontextmanager
async def open_stage(
    sidecars: SidecarPlan | None, tell: Callable[[str], None], link: float = 20 * MB
) -> AsyncGenerator[Stage]:
    """Open a stage. Raises LabError."""
    with open_rooms(BROKERS, link_bytes_per_second=int(link)) as rooms:
        plan = ClusterPlan(brokers=BROKERS, release=release(protocol="3.9"), rooms=rooms, taps=False, sidecars=sidecars)
        async with cluster(plan) as made:
            yield Stage(made, rooms, link, tell)


@asynccontextmanager
async def producing(stage: Stage, load: Load, clock: Clock) -> AsyncGenerator[list[LiveProducer]]:
    """Run producers for the length of a block. They write in turns, not all at the same moment."""
    async with AsyncExitStack() as stack:
        topics = {part: await stack.enter_async_context(_topic(stage.kafka)) for part in load.parts}
        nursery = await stack.enter_async_context(trio.open_nursery())
        producers = []
        for part, name in topics.items():
            batch = Shape(record_bytes=_RECORD_BYTES, batch_records=part.batch_bytes // _RECORD_BYTES)
            interval = len(PRODUCERS) * part.batch_bytes / (FLAT * stage.link)
            for partition in PRODUCERS:
                leader, shape = stage.kafka.addresses.direct(LEADER), stage.kafka.shape(batch)
                producer = LiveProducer(leader, name, partition, interval, shape, partial(_times, part, clock))
                await nursery.start(producer.run)
                await trio.sleep(interval / len(PRODUCERS))
                producers.append(producer)
        await trio.sleep(_WARM_UP_SECONDS)
        yield producers
        nursery.cancel_scope.cancel()


def _topic(kafka: Cluster) -> AbstractAsyncContextManager[str]:
    return topic(kafka, {p: [LEADER, FOLLOWER] for p in PRODUCERS}, prefix="live")


def _times(part: Part, clock: Clock, _: float) -> float:
    """Return how many times as much as `FLAT` it is."""
    return part.load(clock.seconds) / FLAT
