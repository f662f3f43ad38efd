"""A sidecar is replaced under full traffic: no fetch fails, no follower comes back, no producer waits for it.

What came of each run goes to build/handover.jsonl; docs/reliability.md has the figures.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import trio

from lab.cluster import Cluster, cluster
from lab.cluster_plan import ClusterPlan
from lab.moves import MIB, Move
from lab.open_move import open_move
from lab.releases import release
from lab.sidecars import SidecarPlan

from .busy import assert_undisturbed, busy_partitions
from .expectations import assert_intact

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.live import LiveProducer
    from lab.sidecars import Sidecar

LEADER, FOLLOWER = 101, 102
QUOTA = 4 * MIB
EARLY = 4 * MIB
BETWEEN_SECONDS = 1.0
QUIET_RECORDS = 25
"""Half a second of a producer beside the move, before anything is handed over."""


def closed(sidecar: Sidecar) -> list[dict[str, Any]]:
    """The ends of connections with replicas' fetches on them."""
    lines = [json.loads(line) for line in sidecar.log_lines('"connection_closed"')]
    return [line for line in lines if line["replica_fetches"]]


async def worst_of_next(producers: Sequence[LiveProducer], records: int) -> list[float]:
    """The longest that each producer waits for one of its next records, in seconds."""
    starts = [len(producer.acknowledged) for producer in producers]
    for producer, start in zip(producers, starts, strict=True):
        while len(producer.acknowledged) < start + records:  # noqa: ASYNC110  # the producer has no use for an event
            await trio.sleep(0.05)
    return [
        max(record.latency_seconds for record in producer.acknowledged[start:])
        for producer, start in zip(producers, starts, strict=True)
    ]


async def handed_over(running: Cluster, *, times: int, request: pytest.FixtureRequest) -> dict[str, Any]:
    """Replace both sidecars so many times in the middle of a move that both throttle, beside acks=all producers."""
    complaints = len(running.bad_log_lines())
    sidecars = [running.sidecars[LEADER], running.sidecars[FOLLOWER]]
    before = {sidecar.broker: len(closed(sidecar)) for sidecar in sidecars}
    mebibytes = 64 + times * 8  # what a busy machine may take to start two processes as well
    move = Move("sidecar strict", "both", QUOTA, bytes_per_partition=mebibytes * MIB // 8)
    async with (
        busy_partitions(running, {0: [LEADER, FOLLOWER], 1: [FOLLOWER, LEADER]}) as producers,
        open_move(running, move) as moving,
    ):
        await moving.wait_moved_bytes(EARLY)
        quiet = await worst_of_next(producers, QUIET_RECORDS)
        for _ in range(times):
            for sidecar in sidecars:
                await sidecar.hand_over()
            await trio.sleep(BETWEEN_SECONDS)
        assert sum(event.size_bytes for event in moving.moved()) < mebibytes * MIB, "it was over before the last one"
        moving.write_quota(None)
        assert_intact(await moving.finish(timeout_seconds=90))
    assert_undisturbed(producers, worst_seconds=5.0)
    ends = [line["cause"] for each in sidecars for line in closed(each)[before[each.broker] :]]
    result = {
        "case": request.node.name,
        "handovers": 2 * times,
        "connections": ends.count("handed_over"),
        "others": sorted(cause for cause in ends if cause != "handed_over"),
        "worst_produce_ms_before": [round(1000 * each) for each in quiet],
        "worst_produce_ms": [round(1000 * producer.percentile(1.0)) for producer in producers],
        "complaints": running.bad_log_lines()[complaints:],
    }
    path = request.config.rootpath / "build" / "handover.jsonl"
    path.parent.mkdir(exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(result) + "\n")
    return result


def assert_unnoticed(result: dict[str, Any]) -> None:
    assert result["connections"] >= result["handovers"]
    # When its last partition has moved, or the busy topic is deleted, a fetcher may close its connection itself.
    assert set(result["others"]) <= {"follower_closed"}
    assert result["complaints"] == []


@pytest.mark.brokers
async def test_a_sidecar_is_replaced_in_the_middle_of_a_move(
    sidecar_cluster: Cluster, request: pytest.FixtureRequest
) -> None:
    assert_unnoticed(await handed_over(sidecar_cluster, times=1, request=request))


@pytest.mark.system
@pytest.mark.timeout(900)
@pytest.mark.parametrize("protocol", ["0.10.1", "2.4", "2.8", "3.9", "4.1"])
async def test_both_sidecars_are_replaced_ten_times(protocol: str, request: pytest.FixtureRequest) -> None:
    async with cluster(
        ClusterPlan(brokers=(LEADER, FOLLOWER), release=release(protocol=protocol), sidecars=SidecarPlan())
    ) as running:
        assert_unnoticed(await handed_over(running, times=10, request=request))
