"""One listener with a rate: producers, consumers and a move at once, on real brokers.

What leaves is what the sidecar's relay counts, ten times a second; what a consumer is told, it keeps to.
"""

from __future__ import annotations

import socket
import statistics
import struct
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
import trio

from lab.host.addresses import KAFKA_PORT
from lab.load.live_producer import LiveProducer
from lab.moves.move import MIB, Move
from lab.moves.open_move import open_move
from lab.moves.scenes import fill_topic, topic
from lab.wire.records import Shape

from .expectations import assert_intact, mean

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from lab.cluster.cluster import Cluster
    from lab.moves.open_move import OpenMove
    from lab.sidecars.sidecars import Sidecar

LEADER, FOLLOWER = 101, 102
RATE = 8 * MIB
WORST = 1.25
FETCH_BYTES = 256 * 1024
PHASE_SECONDS = 6.0
NOISE_SECONDS = 0.015
"""What a p99 of acks=all differs by on this machine, where consumers, brokers and sidecars share two cores."""
EVERYTHING = "\n".join(
    (
        "[brokers.101]",
        'leader.replication.throttled.rate = "200MiB/s"',
        'leader.replication.throttled.replicas = "*"',
        "",
    )
)
LISTENER = f"[listener]\nrate = {RATE}\n"


@dataclass
class Consumer:
    """Fetches (v3) the same bytes again and again, and waits for as long as it is told."""

    address: str
    topic: str
    bytes_per_second: float | None = None
    """Of a consumer that has a pace of its own; None: as fast as it may."""
    brought: list[tuple[float, int]] = field(default_factory=list)
    told_seconds: float = 0.0

    def run(self, until: float) -> None:
        name = self.topic.encode()
        body = struct.pack(">iiiii", -1, 100, 1, FETCH_BYTES, 1) + struct.pack(f">h{len(name)}s", len(name), name)
        body += struct.pack(">iiqi", 1, 0, 0, FETCH_BYTES)
        frame = struct.pack(">hhih8s", 1, 3, 7, 8, b"consumer") + body
        with socket.create_connection((self.address, KAFKA_PORT), timeout=30) as connection:
            stream, began = connection.makefile("rb"), time.monotonic()
            while time.monotonic() < until:
                connection.sendall(struct.pack(">i", len(frame)) + frame)
                (size,) = struct.unpack(">i", stream.read(4))
                (throttle_ms,) = struct.unpack_from(">i", stream.read(size), 4)
                self.brought.append((time.monotonic(), size))
                self.told_seconds += throttle_ms / 1000
                due = time.monotonic() + throttle_ms / 1000
                if self.bytes_per_second is not None:
                    due = max(due, began + sum(each for _, each in self.brought) / self.bytes_per_second)
                time.sleep(max(due - time.monotonic(), 0.0))

    def rate(self, begin: float, end: float) -> float:
        """The part of the listener's rate that it had."""
        return sum(size for at, size in self.brought if begin <= at < end) / (end - begin) / RATE


class Meter:
    """What has left through the ingress of one sidecar."""

    def __init__(self, sidecar: Sidecar) -> None:
        self._sidecar = sidecar
        self.samples: list[tuple[float, float, float]] = []
        """When each was asked for and when it had come, and the bytes."""

    async def run(self) -> None:
        while True:
            asked_at = time.monotonic()
            relayed = (await trio.to_thread.run_sync(self._sidecar.metrics))["replication_throttle_relayed_bytes_total"]
            (size,) = (size for labels, size in relayed.items() if "leader" in labels and "response" in labels)
            self.samples.append((asked_at, time.monotonic(), size))
            await trio.sleep(0.1)

    def worst_second(self, begin: float, end: float) -> float:
        """The most that surely left in any span of a second, as a part of the rate: where the machine is busy an answer
        takes a tenth of a second, and nobody knows at which moment of it the bytes were counted."""
        found = [sample for sample in self.samples if begin <= sample[0] < end]
        worst, last = 0.0, 0
        for asked_at, came_at, size in found:
            while last < len(found) and found[last][0] < came_at + 1:
                last += 1
            if last < len(found):
                worst = max(worst, (found[last][2] - size) / (found[last][1] - asked_at))
        return worst / RATE


@asynccontextmanager
async def producer_in_sync(cluster: Cluster) -> AsyncIterator[LiveProducer]:
    """Writes 200 kB/s with acks=all to a partition that the follower of the move keeps in sync."""
    async with topic(cluster, {0: [LEADER, FOLLOWER]}, prefix="live") as name, trio.open_nursery() as nursery:
        shape = Shape(record_bytes=2000, batch_records=1)
        live = LiveProducer(cluster.addresses.direct(LEADER), name, 0, interval_seconds=0.01, shape=shape)
        await nursery.start(live.run)
        yield live
        nursery.cancel_scope.cancel()


async def p99(live: LiveProducer, seconds: float) -> float:
    live.acknowledged.clear()
    await trio.sleep(seconds)
    return live.percentile(0.99)


@dataclass
class Phases:
    """Phases of a move beside a producer in sync, each with consumers of its own."""

    live: LiveProducer
    made: OpenMove
    meter: Meter
    figures: dict[str, object]
    late: list[float] = field(default_factory=list)
    """The producer's p99 in each."""

    async def run(self, name: str, consumers: list[Consumer]) -> tuple[float, float]:
        """Return which part of the rate the move and the consumers had."""
        began = time.monotonic()
        async with trio.open_nursery() as running:
            for each in consumers:
                running.start_soon(trio.to_thread.run_sync, each.run, began + PHASE_SECONDS)
            self.late.append(await p99(self.live, PHASE_SECONDS))
        begin, end = began + 1.0, began + PHASE_SECONDS
        moved = mean(self.made.moved(leader=LEADER), begin, end) / RATE
        brought = sum(each.rate(begin, end) for each in consumers)
        self.figures[name] = {
            "move": round(moved, 3), "consumers": round(brought, 3), "p99_ms": round(1000 * self.late[-1]),
            "worst_second": round(self.meter.worst_second(began, end), 3),
            "told_seconds": [round(each.told_seconds, 2) for each in consumers],
        }  # fmt: skip
        return moved, brought


@pytest.mark.system
@pytest.mark.timeout(240)
async def test_followers_in_sync_and_consumers_and_a_move_share_one_uplink(
    sidecar_cluster: Cluster, record: Callable[..., None]
) -> None:
    sidecar, address = sidecar_cluster.sidecars[LEADER], sidecar_cluster.addresses.ingress(LEADER)
    move = Move("sidecar strict", "leader", 0, followers=(FOLLOWER,), bytes_per_partition=18 * MIB)
    async with (
        topic(sidecar_cluster, {0: [LEADER]}, prefix="read") as read,
        producer_in_sync(sidecar_cluster) as live,
        open_move(sidecar_cluster, move) as made,
        trio.open_nursery() as nursery,
    ):
        await fill_topic(sidecar_cluster, read, {0: LEADER}, bytes_per_partition=MIB)
        meter = Meter(sidecar)
        nursery.start_soon(meter.run)
        await p99(live, 3.0)  # the first records after a topic is made take longer
        alone = await p99(live, PHASE_SECONDS)
        await sidecar.set_quotas(EVERYTHING + LISTENER)
        phases = Phases(live, made, meter, {"alone_p99_ms": round(1000 * alone)})
        # Nobody else: the move has what replication in sync leaves.
        moved, _ = await phases.run("move alone", [])
        assert moved > 0.85
        # A consumer at half of the rate is never told anything.
        half = Consumer(address, read, 0.5 * RATE)
        moved, brought = await phases.run("beside half", [half])
        assert half.told_seconds == 0
        assert brought == pytest.approx(0.5, abs=0.06)
        assert moved == pytest.approx(0.47, abs=0.1)
        # Consumers that want more than there is are told, all of them alike, once the move has its tenth alone.
        greedy = [Consumer(address, read) for _ in range(3)]
        moved, brought = await phases.run("beside all", greedy)
        ended = time.monotonic()
        assert moved == pytest.approx(0.1, abs=0.04)
        assert brought == pytest.approx(0.88, abs=0.1)
        shares = [each.rate(ended - PHASE_SECONDS, ended) for each in greedy]
        assert max(shares) <= 1.5 * min(shares)
        # And the move has all again.
        moved, _ = await phases.run("alone again", [])
        record("listener_rate", **phases.figures)
        assert moved > 0.85
        assert meter.worst_second(meter.samples[0][0], time.monotonic()) <= WORST, phases.figures
        assert live.errors == []
        assert statistics.median(phases.late) <= alone + NOISE_SECONDS, phases.figures
        nursery.cancel_scope.cancel()
        await sidecar.set_quotas(EVERYTHING)
        assert_intact(await made.finish(timeout_seconds=60))
