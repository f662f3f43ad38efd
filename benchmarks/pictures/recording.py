"""Two equal moves on the same brokers, by the broker's own quota and by the sidecar's, and `status` during a third.

The brokers' quota windows are warm, as in any cluster that replicates. Invariant: what differs between the moves is
only who throttles.
"""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, Any

import trio

from lab.brokers.releases import release
from lab.cluster.cluster import Cluster, cluster
from lab.cluster.plan import ClusterPlan
from lab.errors import LabError
from lab.measuring.figures import events
from lab.moves.move import MIB, Move
from lab.moves.mover import Mover
from lab.moves.open_move import open_move
from lab.sidecars.sidecars import SidecarPlan, throttle_sidecar_script

if TYPE_CHECKING:
    from lab.moves.move import How

BROKERS = (101, 102)
QUOTA = 4.0 * MIB
PARTITIONS, BYTES_PER_PARTITION = 8, 12 * MIB
BIN_SECONDS = 1.0
STATUS_AFTER_BYTES = 56 * MIB
COLUMNS = 145
HOWS: dict[How, str] = {"native warm": "the broker's own quota", "sidecar strict": "the sidecar's quota"}


def move(how: How) -> Move:
    return Move(how, "leader", QUOTA, PARTITIONS, BYTES_PER_PARTITION)


async def record() -> dict[str, Any]:
    """Run the moves. Raises LabError."""
    kafka = release(protocol="3.9")
    async with cluster(ClusterPlan(BROKERS, release=kafka, sidecars=SidecarPlan())) as running:
        await Mover(running).run(Move("unthrottled", bytes_per_partition=MIB))  # the first takes half a second longer
        series = {how: await _series(running, move(how)) for how in HOWS}
        return {
            "kafka": kafka.kafka, "quota_bytes_per_second": QUOTA, "bin_seconds": BIN_SECONDS,
            "bytes": series, "status": await _status(running),
        }  # fmt: skip


async def _series(running: Cluster, asked: Move) -> list[int]:
    """Return the record bytes that crossed the wire in each bin since the reassignment was asked for."""
    assert running.taps is not None
    mark = running.taps.position()
    done = await Mover(running).run(asked)
    if not done.equal:
        raise LabError(f"{asked.how}: the replicas differ")
    found = events(running.taps.samples(since=mark), topic=done.topic)
    # Of a move its duration is told, from the request to the last byte.
    began = found[-1].t - done.duration_seconds
    bins = [0] * (int(done.duration_seconds / BIN_SECONDS) + 1)
    for event in found:
        bins[int((event.t - began) / BIN_SECONDS)] += event.size_bytes
    return bins


async def _status(running: Cluster) -> str:
    """Return what `status` prints in the middle of a move, as a terminal gets it."""
    sidecar = running.sidecars[BROKERS[0]]
    command = [throttle_sidecar_script(), "status", "--once", "--url", sidecar.control_url]
    environment = {**os.environ, "FORCE_COLOR": "1", "TERM": "xterm-256color", "COLUMNS": str(COLUMNS)}
    async with open_move(running, move("sidecar strict")) as moving:
        await moving.wait_moved_bytes(STATUS_AFTER_BYTES, timeout_seconds=60)
        done = await trio.run_process(command, capture_stdout=True, stderr=subprocess.STDOUT, env=environment)
        await moving.set_quota(None)
        await moving.finish(timeout_seconds=60)
    return done.stdout.decode().replace(moving.topic, "orders".ljust(len(moving.topic)))
