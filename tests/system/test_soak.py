"""For a long time: partitions move at full rate while quotas flip; memory stays, and nobody miscounts.

SOAK_SECONDS says how long (120 by default, 1800 for half an hour); what came of it goes to build/soak.jsonl.
"""

from __future__ import annotations

import itertools
import json
import os
from collections import Counter
from typing import TYPE_CHECKING

import pytest
import trio

from lab.brokers.releases import release
from lab.cluster.cluster import cluster
from lab.moves.move import MIB, Move
from lab.moves.open_move import open_move
from pipeline.journals.decompress import lines

from .busy import assert_undisturbed, busy_partitions
from .expectations import assert_intact
from .recordings import collect_journals, plan

if TYPE_CHECKING:
    from pathlib import Path

    from lab.cluster.cluster import Cluster
    from lab.moves.open_move import OpenMove

SECONDS = float(os.environ.get("SOAK_SECONDS", "120"))
LEADER, FOLLOWER = 101, 102
RATES = (16 * MIB, 40 * MIB, 4 * MIB, 1000 * MIB, 24 * MIB)
"""None of them takes the lists away: what is not throttled is not in the metric of what is."""
FLIP_SECONDS = 0.2
MOVE = Move("sidecar strict", "both", RATES[0], bytes_per_partition=32 * MIB)
WARM_UP_MOVES = 3
"""Buffers are as large as they get by then, and what a second move needs has been loaded."""
MAX_GROWTH_BYTES = 5 * 2**20
pytestmark = [pytest.mark.system, pytest.mark.timeout(SECONDS + 600)]


async def flip(move: OpenMove) -> None:
    """Another quota five times a second."""
    for rate in itertools.cycle(RATES):
        move.write_quota(rate)
        await trio.sleep(FLIP_SECONDS)


async def moved(running: Cluster) -> int:
    """Carry out one move under quotas that flip; return the record bytes that were seen on the wire."""
    async with open_move(running, MOVE) as move, trio.open_nursery() as nursery:
        nursery.start_soon(flip, move)
        assert_intact(await move.finish(timeout_seconds=120))
        nursery.cancel_scope.cancel()
    return sum(event.size_bytes for event in move.moved())


def resident(running: Cluster) -> dict[int, int]:
    return {broker: sidecar.process.resident_bytes() for broker, sidecar in running.sidecars.items()}


def counted(running: Cluster, metric: str) -> int:
    """Record bytes by one of the follower's metrics, since its sidecar started."""
    found = running.sidecars[FOLLOWER].metrics()[f"replication_throttle_{metric}_bytes_total"]
    return int(sum(value for labels, value in found.items() if 'role="follower"' in labels))


def journaled(folder: Path) -> Counter[str]:
    """Record bytes of moved topics by role, in the journals of those who sent and who fetched them."""
    found: Counter[str] = Counter()
    for broker, role in ((LEADER, "leader"), (FOLLOWER, "follower")):
        for path in (folder / str(broker)).rglob("*.gz"):
            for line in map(json.loads, lines(path.read_bytes())):
                if line["kind"] == "traffic" and line["role"] == role:
                    sizes = zip(line["topics"], line["record_bytes"], strict=True)
                    found[role] += sum(size for topic, size in sizes if topic.startswith("open-"))
    return found


async def test_memory_stays_and_metric_journal_and_wire_agree(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    wire, memory = [], []
    async with cluster(plan((LEADER, FOLLOWER), release(protocol="2.8"))) as running:  # names, no ids
        async with busy_partitions(running, {0: [LEADER, FOLLOWER]}) as producers:
            ends = trio.current_time() + SECONDS
            while trio.current_time() < ends or len(wire) <= WARM_UP_MOVES:
                wire.append(await moved(running))
                memory.append(resident(running))
            assert_undisturbed(producers, worst_seconds=30.0)
        by_metric, withheld = counted(running, "throttled"), counted(running, "withheld")
        await collect_journals(running, tmp_path)
    by_journal = journaled(tmp_path)
    growth = {broker: memory[-1][broker] - memory[WARM_UP_MOVES - 1][broker] for broker in memory[0]}
    result = {
        "seconds": SECONDS,
        "moves": len(wire),
        "bytes": {"wire": sum(wire), "metric": by_metric, "withheld": withheld, "journal": dict(by_journal)},
        "resident_mib": {broker: [round(each[broker] / MIB, 1) for each in memory] for broker in memory[0]},
        "growth_mib": {broker: round(each / MIB, 2) for broker, each in growth.items()},
    }
    path = request.config.rootpath / "build" / "soak.jsonl"
    path.parent.mkdir(exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(result) + "\n")
    # The quota falls while an answer is on its way: the follower's side discards records, which are then sent again.
    assert by_journal == {"leader": sum(wire), "follower": sum(wire) - withheld}
    assert by_metric == sum(wire) - withheld
    assert max(growth.values()) <= MAX_GROWTH_BYTES
