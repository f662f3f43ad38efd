"""What dies, restarts, drains or moves in the middle of a throttled move costs seconds and no data, and nobody's hand.

Each test ends with equal replicas, brokers' logs free of complaints, and the quota kept before and after.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Literal

import pytest
import trio

from lab.measuring.figures import fetches_per_second
from lab.moves.move import MIB, Move, Side
from lab.moves.open_move import OpenMove, open_move

from .busy import assert_undisturbed, busy_partitions
from .expectations import FIRST_CONTACT_BYTES, assert_all_kept, assert_intact, assert_kept, mean, ratios

if TYPE_CHECKING:
    from lab.cluster.cluster import Cluster

QUOTA = 4 * MIB
EARLY = 8 * MIB
"""So much has moved when something happens: two seconds' worth."""
RECONNECTS_SECONDS = 4.0
"""A fetcher's back-off of 1 s, and the connection attempt after the first that is refused."""
ELECTED_SECONDS = 5.0
FOREVER = float("inf")

Way = Literal["kill", "stop"]
RecordProperty = Callable[[str, object], None]


def at_quota(side: Side = "leader", *, mebibytes: int = 40, **more: object) -> Move:
    return Move("sidecar strict", side, QUOTA, bytes_per_partition=mebibytes * MIB // 8, **more)


async def restart_sidecar(cluster: Cluster, move: OpenMove, broker: int, way: Way) -> float:
    """End a sidecar in mid-move and start it again; return when it was ready."""
    sidecar = cluster.sidecars[broker]
    await move.wait_moved_bytes(EARLY)
    await (sidecar.kill() if way == "kill" else sidecar.stop())
    if way == "stop":
        assert sidecar.process.exit_status == 0
    await sidecar.start()
    return time.monotonic()


def assert_goes_on(move: OpenMove, back: float, record_property: RecordProperty) -> None:
    """Bytes flow again within a fetcher's back-off, and the quota holds across the gap."""
    after = move.moved(back)
    assert after
    record_property("gap", round(after[0].t - back, 3))
    record_property("kept", ratios(move.moved(), QUOTA))
    assert after[0].t - back <= RECONNECTS_SECONDS
    assert_all_kept(move, move.started, FOREVER, QUOTA, extra_bytes=FIRST_CONTACT_BYTES)
    done = after[-1].t
    assert mean(after, after[0].t, done) >= 0.9 * QUOTA


@pytest.mark.brokers
async def test_the_leaders_sidecar_is_killed_and_restarted(
    sidecar_cluster: Cluster, record_property: RecordProperty
) -> None:
    async with open_move(sidecar_cluster, at_quota(mebibytes=32)) as move:
        back = await restart_sidecar(sidecar_cluster, move, 101, "kill")
        assert_intact(await move.finish(timeout_seconds=30))
        assert_goes_on(move, back, record_property)


@pytest.mark.system
@pytest.mark.timeout(600)
@pytest.mark.parametrize("side", ["leader", "follower", "both"])
@pytest.mark.parametrize("broker", [101, 102], ids=["of the leader", "of the follower"])
@pytest.mark.parametrize("way", ["kill", "stop"])
async def test_a_sidecar_is_ended_and_restarted(
    sidecar_cluster: Cluster, side: Side, broker: int, way: Way, record_property: RecordProperty
) -> None:
    async with open_move(sidecar_cluster, at_quota(side)) as move:
        back = await restart_sidecar(sidecar_cluster, move, broker, way)
        assert_intact(await move.finish(timeout_seconds=60))
        assert_goes_on(move, back, record_property)


@pytest.mark.system
@pytest.mark.timeout(600)
async def test_a_sidecar_that_crashes_again_and_again(
    sidecar_cluster: Cluster, record_property: RecordProperty
) -> None:
    """In-sync replicas wait for their sidecar too, no longer than a fetcher takes to come back; no record is lost."""
    sidecar = sidecar_cluster.sidecars[101]
    async with (
        open_move(sidecar_cluster, at_quota(mebibytes=48)) as move,
        busy_partitions(sidecar_cluster, {0: [101, 102], 1: [102, 101]}) as producers,
    ):
        for _ in range(4):
            await move.wait_moved_bytes(sum(event.size_bytes for event in move.moved()) + 2 * MIB)
            await sidecar.kill()
            await sidecar.start()
        back = time.monotonic()
        assert_intact(await move.finish(timeout_seconds=60))
    assert_goes_on(move, back, record_property)
    record_property("worst latency", [round(producer.percentile(1.0), 3) for producer in producers])
    assert_undisturbed(producers, worst_seconds=2 * RECONNECTS_SECONDS)


@pytest.mark.system
@pytest.mark.timeout(600)
async def test_a_drain_finishes_what_is_in_flight_and_what_is_held(
    sidecar_cluster: Cluster, record_property: RecordProperty
) -> None:
    """SIGTERM at quota 0, when every fetch is held: each is answered, no connection is cut."""
    sidecar = sidecar_cluster.sidecars[101]
    async with open_move(sidecar_cluster, at_quota()) as move:
        await move.wait_moved_bytes(EARLY)
        await move.set_quota(0)
        await trio.sleep(0.7)
        lines = len(sidecar.log_lines("connection_closed"))
        started = time.monotonic()
        await sidecar.stop()
        assert time.monotonic() - started <= 2.0
        assert sidecar.process.exit_status == 0
        closed = [line for line in sidecar.log_lines("connection_closed")[lines:] if '"role":"leader"' in line]
        assert closed
        assert all('"cause":"drained"' in line for line in closed), closed
        sidecar.write_quotas(move.quotas(QUOTA))
        await sidecar.start()
        back = time.monotonic()
        assert_intact(await move.finish(timeout_seconds=60))
        assert_goes_on(move, back, record_property)


@pytest.mark.system
@pytest.mark.timeout(600)
@pytest.mark.parametrize("side", ["leader", "follower"])
@pytest.mark.parametrize("broker", [101, 102], ids=["the leader", "the follower"])
@pytest.mark.parametrize("way", ["kill", "stop"])
async def test_a_broker_is_restarted(sidecar_cluster: Cluster, side: Side, broker: int, way: Way) -> None:
    async with open_move(sidecar_cluster, at_quota(side, mebibytes=48)) as move:
        await move.wait_moved_bytes(EARLY)
        restarted = sidecar_cluster.brokers[broker]
        await (restarted.kill() if way == "kill" else restarted.stop())
        await restarted.start()
        assert_intact(await move.finish(timeout_seconds=90))
        assert_all_kept(move, move.started, FOREVER, QUOTA, extra_bytes=FIRST_CONTACT_BYTES)


async def lead(cluster: Cluster, move: OpenMove, replicas: list[int]) -> None:
    """Make the first of `replicas` the leader while the move to all of them goes on."""
    admin, partitions = cluster.admin, range(move.move.partitions)

    def work() -> None:
        admin.reassign(move.topic, dict.fromkeys(partitions, replicas))
        leaders = dict.fromkeys(partitions, replicas[0])
        admin.elect_preferred_leaders(move.topic, leaders, timeout_seconds=ELECTED_SECONDS)

    await trio.to_thread.run_sync(work)


@pytest.mark.system
@pytest.mark.timeout(600)
@pytest.mark.parametrize("side", ["leader", "follower"])
async def test_the_leader_moves_back_and_forth_beside_busy_partitions(
    sidecar_cluster: Cluster, side: Side, record_property: RecordProperty
) -> None:
    """101 and 102 are in sync, 103 catches up; both leaders have other, busy partitions on their way to 103."""
    # Only what 103 is sent counts: 101 and 102 hold everything before the throttled move begins.
    async with (
        open_move(sidecar_cluster, at_quota(side, mebibytes=64), begin=False) as move,
        busy_partitions(sidecar_cluster, {0: [101, 103], 1: [102, 103]}) as producers,
    ):
        await move.set_quota(None)
        await move.begin()
        await move.finish(timeout_seconds=30)
        throttling = (101, 102) if side == "leader" else (103,)
        (broker,) = move.throttling
        for other in throttling:
            text = move.quotas(QUOTA).replace(f":{broker}", f":{other}")
            await sidecar_cluster.sidecars[other].set_quotas(text)
        started = time.monotonic()
        await lead(sidecar_cluster, move, [101, 102, 103])
        for replicas in ([102, 101, 103], [101, 102, 103], [102, 101, 103], [101, 102, 103]):
            await trio.sleep(2.5)
            await lead(sidecar_cluster, move, replicas)
        assert_intact(await move.finish(timeout_seconds=60))
    found = {leader: move.moved(started, leader=leader, follower=103) for leader in (101, 102)}
    assert all(found.values())
    for kept in found.values() if side == "leader" else [move.moved(started, follower=103)]:
        record_property("kept", ratios(kept, QUOTA))
        assert_kept(kept, QUOTA, extra_bytes=FIRST_CONTACT_BYTES)
    record_property("worst latency", [round(producer.percentile(1.0), 3) for producer in producers])
    assert_undisturbed(producers, worst_seconds=2.0)


@pytest.mark.system
@pytest.mark.timeout(600)
@pytest.mark.parametrize("side", ["leader", "follower"])
async def test_records_are_deleted_under_a_follower(sidecar_cluster: Cluster, side: Side) -> None:
    """DeleteRecords past where the follower is: it starts anew at the log's new start, at the quota."""
    admin = sidecar_cluster.admin
    async with open_move(sidecar_cluster, at_quota(side, mebibytes=64)) as move:
        await move.wait_moved_bytes(EARLY)
        ends = await trio.to_thread.run_sync(admin.end_offsets, move.topic, range(8))
        before = {partition: ends[partition] * 3 // 4 for partition in range(4)}
        await trio.to_thread.run_sync(partial(admin.delete_records, move.topic, before))
        assert_intact(await move.finish(timeout_seconds=60))
        starts = await trio.to_thread.run_sync(admin.start_offsets, move.topic, range(8))
        assert starts == {partition: before.get(partition, 0) for partition in range(8)}
        assert_all_kept(move, move.started, FOREVER, QUOTA, extra_bytes=FIRST_CONTACT_BYTES)
        # Half of the partitions lost three quarters: nobody sends what nobody has.
        assert sum(event.size_bytes for event in move.moved()) < 64 * MIB * 0.8


@pytest.mark.system
@pytest.mark.timeout(600)
@pytest.mark.parametrize("side", ["leader", "follower"])
async def test_segments_roll_under_a_follower(sidecar_cluster: Cluster, side: Side) -> None:
    """A replica behind on an older segment is answered at once by any leader: that must not become a loop."""
    leaders = dict.fromkeys(range(8), sidecar_cluster.addresses.direct(101))
    move = at_quota(side, mebibytes=24, topic_configs={"segment.bytes": str(MIB)})
    async with open_move(sidecar_cluster, move) as opened:
        for _ in range(8):
            await trio.sleep(0.7)
            await opened.fill(MIB, leaders)
        outcome = await opened.finish(timeout_seconds=120)
        assert_intact(outcome)
        found = opened.moved()
        assert sum(event.size_bytes for event in found) >= (24 + 8 * 8) * MIB
        assert_all_kept(opened, opened.started, FOREVER, QUOTA, extra_bytes=FIRST_CONTACT_BYTES)
        end = found[-1].t
        asked = fetches_per_second(opened.samples(), start=opened.started, end=end, follower=102)
        assert asked <= 25
