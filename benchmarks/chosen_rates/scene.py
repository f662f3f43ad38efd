"""The link, the producers whose load doubles and halves, and the move beside them. Knows no quota.

Two brokers, each in a network namespace with a network card of `LINK`. The leader sends the follower what producers
write to partitions that are in sync, and the partitions that move, over one connection, as with num.replica.fetchers=1.
"""

from __future__ import annotations

import math
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

import trio

from lab.cluster import cluster
from lab.cluster_plan import ClusterPlan
from lab.live import LiveProducer
from lab.records import Shape
from lab.releases import release
from lab.rooms import open_rooms
from lab.scenes import topic

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from lab.cluster import Cluster
    from lab.rooms import Rooms
    from lab.sidecars import SidecarPlan

LEADER, FOLLOWER = 101, 102
BROKERS = (LEADER, FOLLOWER)
MB = 1e6
LINK = 20 * MB
MOVED = range(8)
PRODUCERS = range(16)
BATCH = Shape(record_bytes=1000, batch_records=40)
PRODUCED = 4 * MB
"""A second, by all of them, at a load of 1."""
PHASE_SECONDS = 10.0
LOADS = (1.0, 2.0, 1.0, 0.5)
PERIOD_SECONDS = PHASE_SECONDS * len(LOADS)
_WARM_UP_SECONDS = 5.0


class Loads:
    """How much producers write, of `PRODUCED`."""

    def __init__(self) -> None:
        self._began = math.inf

    def begin(self) -> None:
        """The first phase begins now. Before it the load is 1."""
        self._began = trio.current_time()

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return max(trio.current_time() - self._began, 0.0)

    def now(self, _: float = 0.0) -> float:
        return LOADS[int(self.seconds / PHASE_SECONDS) % len(LOADS)]


class Stage(NamedTuple):
    kafka: Cluster
    rooms: Rooms
    tell: Callable[[str], None]


@asynccontextmanager
async def open_stage(sidecars: SidecarPlan | None, tell: Callable[[str], None]) -> AsyncGenerator[Stage]:
    """Raises LabError."""
    with open_rooms(BROKERS, link_bytes_per_second=int(LINK)) as rooms:
        plan = ClusterPlan(brokers=BROKERS, release=release(protocol="3.9"), rooms=rooms, taps=False, sidecars=sidecars)
        async with cluster(plan) as made:
            yield Stage(made, rooms, tell)


@asynccontextmanager
async def producing(kafka: Cluster, loads: Loads) -> AsyncGenerator[list[LiveProducer]]:
    """Producers for the length of a block. They write in turns, not all at the same moment."""
    interval = len(PRODUCERS) * BATCH.record_bytes * BATCH.batch_records / PRODUCED
    leader, shape = kafka.addresses.direct(LEADER), kafka.shape(BATCH)
    async with (
        topic(kafka, {p: [LEADER, FOLLOWER] for p in PRODUCERS}, prefix="live") as name,
        trio.open_nursery() as nursery,
    ):
        producers = [LiveProducer(leader, name, p, interval, shape, loads.now) for p in PRODUCERS]
        for producer in producers:
            await nursery.start(producer.run)
            await trio.sleep(interval / len(PRODUCERS))
        await trio.sleep(_WARM_UP_SECONDS)
        yield producers
        nursery.cancel_scope.cancel()
