"""A sidecar is replaced under full traffic: no fetch fails, no follower comes back, no producer waits for it. With TLS,
followers come back, and producers wait for them once.

What came of each run goes to build/handover.jsonl; docs/reliability.md has the figures.
"""

from __future__ import annotations

import json
import statistics
import time
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
import trio

from lab.brokers.releases import release
from lab.brokers.security import Security
from lab.cluster.cluster import Cluster, cluster
from lab.cluster.plan import ClusterPlan
from lab.moves.move import MIB, Move
from lab.moves.open_move import open_move
from lab.sidecars.sidecars import SidecarPlan

from .busy import assert_undisturbed, busy_partitions
from .expectations import WORST_SECOND, WORST_WINDOW, assert_intact, mean, ratios

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.load.live_producer import LiveProducer
    from lab.sidecars.sidecars import Sidecar

LEADER, FOLLOWER = 101, 102
QUOTA = 4 * MIB
EARLY = 4 * MIB
FIRST_REST_SECONDS = 1.0
AFTERWARDS_SECONDS = 1.0
"""Of a hand-over's time, after the new process has taken over."""
MORE_MILLISECONDS = 50.0
"""What an upgrade may add to the worst that producers wait, and to what one record in a hundred waits."""
MORE_WITH_TLS_MILLISECONDS = 1500.0
"""The same with TLS: a follower whose connection ended waits for `replica.fetch.backoff.ms` (1 s), and shakes hands."""
BUSY_MACHINE_SECONDS, LIFTED_SECONDS = 5.0, 30.0
"""What a record may take at worst, and once the quota is lifted: the rest of the move then takes what brokers have."""
ABREAST_SECONDS, ABREAST_WITHIN_SECONDS = 0.2, 60.0
"""Brokers that have just started compile what they run, above all what encrypts, on both cores: for the first half
minute of a move at 4 MiB/s a record took longer than 20 ms, when the next one is due, whoever relayed it."""


def closed(sidecar: Sidecar) -> list[dict[str, Any]]:
    """The ends of connections with replicas' fetches on them."""
    lines = [json.loads(line) for line in sidecar.log_lines('"connection_closed"')]
    return [line for line in lines if line["replica_fetches"]]


class Windows:
    """When hand-overs were under way, and when none was, on Trio's clock."""

    def __init__(self) -> None:
        self.handing: list[tuple[float, float]] = []
        self.quiet: list[tuple[float, float]] = []

    async def rest(self, seconds: float) -> None:
        began = trio.current_time()
        await trio.sleep(seconds)
        self.quiet.append((began, trio.current_time()))

    async def hand_over(self, sidecar: Sidecar, *, rests: bool) -> None:
        """From the start of the new process until a little after it has taken over; then rest for as long, where both
        are compared.

        Brokers answer faster from minute to minute, as they compile what they run: a rest that came later than its
        hand-over would be faster without any."""
        began = trio.current_time()
        await sidecar.hand_over()
        await trio.sleep(AFTERWARDS_SECONDS)
        ended = trio.current_time()
        self.handing.append((began, ended))
        if rests:
            await self.rest(ended - began)


def waits_for_earlier(producer: LiveProducer) -> bool:
    return not producer.acknowledged or trio.current_time() - producer.acknowledged[-1].due_at > ABREAST_SECONDS


async def abreast(producers: Sequence[LiveProducer]) -> None:
    """Return once no producer waits for records of earlier: a broker takes a producer's records one by one."""
    with trio.fail_after(ABREAST_WITHIN_SECONDS):
        for producer in producers:
            while waits_for_earlier(producer):  # noqa: ASYNC110 - the producer has no use for an event
                await trio.sleep(0.05)
    for producer in producers:
        producer.acknowledged.clear()


def milliseconds(producers: Sequence[LiveProducer], windows: Sequence[tuple[float, float]]) -> dict[str, float]:
    """How long producers waited for records that were due in one of the windows."""
    found = sorted(
        record.latency_seconds
        for producer in producers
        for record in producer.acknowledged
        if any(start <= record.due_at < end for start, end in windows)
    )
    ranks = {"p50": len(found) // 2, "p99": int(0.99 * len(found)), "worst": -1}
    return {name: round(1000 * found[rank], 1) for name, rank in ranks.items()}


async def handed_over(running: Cluster, *, times: int, request: pytest.FixtureRequest) -> dict[str, Any]:
    """Replace both sidecars so many times in the middle of a move that both throttle, beside acks=all producers."""
    said = running.log_mark()
    sidecars = [running.sidecars[LEADER], running.sidecars[FOLLOWER]]
    before = {sidecar.broker: len(closed(sidecar)) for sidecar in sidecars}
    mebibytes = 40 + times * 80  # two hand-overs of eight seconds, on a busy machine
    mebibytes += 80 if times == 1 else 0  # and of twenty beside other work; what is left moves without a quota
    if is_judged := times > 1:
        mebibytes += times * 80 + int(ABREAST_WITHIN_SECONDS * QUOTA / MIB)  # and a rest after each
    move = Move("sidecar strict", "both", QUOTA, bytes_per_partition=mebibytes * MIB // 8)
    windows = Windows()
    async with (
        open_move(running, move) as moving,  # and fills its topic first, as fast as brokers can write
        busy_partitions(running, {0: [LEADER, FOLLOWER], 1: [FOLLOWER, LEADER]}) as producers,
    ):
        await moving.wait_moved_bytes(EARLY)
        if is_judged:
            await abreast(producers)
        began = time.monotonic()
        await windows.rest(FIRST_REST_SECONDS)
        for _ in range(times):
            for sidecar in sidecars:
                await windows.hand_over(sidecar, rests=is_judged)
        ended = time.monotonic()
        moved = moving.moved()
        assert sum(event.size_bytes for event in moved) < mebibytes * MIB, "it was over before the last one"
        assert_undisturbed(producers, worst_seconds=BUSY_MACHINE_SECONDS)
        moving.write_quota(None)
        assert_intact(await moving.finish(timeout_seconds=90))
    assert_undisturbed(producers, worst_seconds=LIFTED_SECONDS)
    ends = [line["cause"] for each in sidecars for line in closed(each)[before[each.broker] :]]
    result = {
        "case": request.node.name,
        "handovers": 2 * times,
        "connections": ends.count("handed_over"),
        "others": sorted(cause for cause in ends if cause != "handed_over"),
        "seconds": round(statistics.median(end - start for start, end in windows.handing) - AFTERWARDS_SECONDS, 2),
        "quiet_ms": milliseconds(producers, windows.quiet),
        "handing_ms": milliseconds(producers, windows.handing),
        "of_quota": {"mean": round(mean(moved, began, ended) / QUOTA, 3), **ratios(moved, QUOTA)},
        "complaints": running.bad_log_lines(since=said),
    }
    path = request.config.rootpath / "build" / "handover.jsonl"
    path.parent.mkdir(exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(result) + "\n")
    return result


def assert_unnoticed(result: dict[str, Any], *, tls: bool = False) -> None:
    if tls:
        assert result["others"].count("drained") >= result["handovers"]
        assert set(result["others"]) <= {"drained", "follower_closed", "leader_closed"}
    else:
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
@pytest.mark.parametrize(
    ("protocol", "security"),
    [
        *((protocol, Security.PLAINTEXT) for protocol in ("0.10.1", "2.4", "2.8", "3.9", "4.1")),
        *product(("2.8", "4.1"), (Security.MTLS, Security.SASL_SSL)),
        ("3.9", Security.TLS_BETWEEN),
    ],
)
async def test_both_sidecars_are_replaced_five_times(
    protocol: str, security: Security, request: pytest.FixtureRequest
) -> None:
    chosen = ClusterPlan(
        brokers=(LEADER, FOLLOWER), release=release(protocol=protocol), security=security, sidecars=SidecarPlan()
    )
    async with cluster(chosen) as running:
        result = await handed_over(running, times=5, request=request)
    tls = security is not Security.PLAINTEXT
    assert_unnoticed(result, tls=tls)
    more = MORE_WITH_TLS_MILLISECONDS if tls else MORE_MILLISECONDS
    for figure in ("p99", "worst"):
        assert result["handing_ms"][figure] <= result["quiet_ms"][figure] + more, figure
    assert result["of_quota"]["worst second"] <= WORST_SECOND
    assert result["of_quota"]["worst 11 seconds"] <= WORST_WINDOW
