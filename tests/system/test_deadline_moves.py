"""Moves whose rate is a deadline, on real brokers: done between 0.9 and 1.0 of their time, with producers beside them.


Times are from just before the file's rename until the controller says that the move is done.
"""

from __future__ import annotations

import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import trio

from lab.moves.move import MIB, Move, Side
from lab.moves.open_move import OpenMove, open_move

from .expectations import assert_intact

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from lab.cluster.cluster import Cluster

EARLY, IN_TIME = 0.9, 1.0
A_SECOND = 1 / 14
"""Of the short form, on a machine that has other work."""
STEP_SECONDS = 0.5


def write_deadline(cluster: Cluster, move: OpenMove, within_seconds: float, *, most: str = "200MiB/s") -> float:
    """The quotas of the move with a deadline in place of its rate; returns when."""
    text, wanted = move.quotas(12345), f'{{ within = "{within_seconds:.0f}s", max = "{most}" }}'
    assert "= 12345\n" in text, text
    began = time.monotonic()
    for broker in move.throttling:
        cluster.sidecars[broker].write_quotas(text.replace("= 12345\n", f"= {wanted}\n"))
    return began


@asynccontextmanager
async def producers(cluster: Cluster, move: OpenMove, bytes_per_second: float) -> AsyncGenerator[None]:
    """Write to the partitions that move, at their leaders, until the block ends."""

    async def produce() -> None:
        leaders = {p: cluster.addresses.direct(r[0]) for p, r in move.move.assignment().items()}
        size = int(bytes_per_second * STEP_SECONDS / move.move.partitions)
        due = trio.current_time()
        while True:
            await move.fill(size, leaders)
            due += STEP_SECONDS
            await trio.sleep_until(due)

    async with trio.open_nursery() as nursery:
        if bytes_per_second:
            nursery.start_soon(produce)
        try:
            yield
        finally:
            nursery.cancel_scope.cancel()


async def share_of_its_time(
    cluster: Cluster, side: Side, *, mebibytes: int, within_seconds: float, produced: float = 0.0
) -> float:
    """Move so much, wait until it is in sync, and return when it was, as a share of the time it had."""
    held = Move("sidecar strict", side, 0, bytes_per_partition=mebibytes * MIB // 8)
    async with open_move(cluster, held) as move:
        late_before = sum(len(cluster.sidecars[broker].log_lines("deadline_late")) for broker in move.throttling)
        async with producers(cluster, move, produced):
            began = write_deadline(cluster, move, within_seconds)
            await move.wait_moved(timeout_seconds=within_seconds + 30)
            ended = time.monotonic()
        assert_intact(await move.finish(timeout_seconds=30))
        said = [line for broker in move.throttling for line in cluster.sidecars[broker].log_lines("deadline_late")]
        assert len(said) == late_before
        return (ended - began) / within_seconds


@pytest.mark.brokers
async def test_a_move_ends_shortly_before_its_deadline(sidecar_cluster: Cluster) -> None:
    share = await share_of_its_time(sidecar_cluster, "leader", mebibytes=32, within_seconds=14)
    assert EARLY - A_SECOND <= share <= IN_TIME + A_SECOND


TEN = [
    ("leader", 64, 20, 0.0),
    ("leader", 64, 20, 1.0),
    ("leader", 240, 30, 2.0),
    ("leader", 24, 40, 1.0),
    ("leader", 400, 40, 4.0),
    ("follower", 64, 20, 0.0),
    ("follower", 64, 20, 1.0),
    ("follower", 240, 30, 2.0),
    ("both", 120, 30, 1.0),
    ("both", 240, 60, 2.0),
]


@pytest.mark.system
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("side", "mebibytes", "seconds", "produced"), TEN)
async def test_ten_moves_with_producers_beside_them_end_in_the_last_tenth_of_their_time(
    sidecar_cluster: Cluster,
    side: Side,
    mebibytes: int,
    seconds: float,
    produced: float,
    record_property: Callable[[str, object], None],
) -> None:
    share = await share_of_its_time(
        sidecar_cluster, side, mebibytes=mebibytes, within_seconds=seconds, produced=produced * MIB
    )
    record_property("share", round(share, 3))
    assert EARLY <= share <= IN_TIME


@pytest.mark.system
@pytest.mark.timeout(600)
async def test_what_cannot_be_done_is_said_within_ten_seconds_and_goes_on_at_the_most(
    sidecar_cluster: Cluster,
) -> None:
    """80 MiB in 10 s at 4 MiB/s at most: certain at once, and done after 20 s."""
    async with open_move(sidecar_cluster, Move("sidecar strict", "leader", 0, bytes_per_partition=10 * MIB)) as move:
        sidecar = sidecar_cluster.sidecars[101]
        said_before = len(sidecar.log_lines("deadline_late"))
        began = write_deadline(sidecar_cluster, move, 10, most="4MiB/s")
        while True:
            rate = (await trio.to_thread.run_sync(sidecar.throttle))["roles"]["leader"]["rate"]
            if rate is not None and rate["late"]:
                break
            assert time.monotonic() - began <= 10
            await trio.sleep(0.2)
        assert len(sidecar.log_lines("deadline_late")) == said_before + 1
        metrics = await trio.to_thread.run_sync(sidecar.metrics)
        assert metrics["replication_throttle_deadline_late"]['role="leader"'] == 1
        await move.wait_moved(timeout_seconds=60)
        assert 18 <= time.monotonic() - began <= 24
        assert_intact(await move.finish(timeout_seconds=30))
