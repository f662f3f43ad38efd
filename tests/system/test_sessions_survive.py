"""Fetch sessions in the middle of a throttled move: sidecars die, quotas come and go, caches are full, brokers upgrade.

Whatever happens to a session, it costs a follower's back-off at most, and nobody is left behind: every test ends with
the quota lifted, every replica in sync and equal, and nothing bad in a broker's log.
"""

from __future__ import annotations

import random
from itertools import cycle, groupby
from typing import TYPE_CHECKING, Literal

import pytest
import trio

from benchmarks.cases import VERSION_BOUNDS
from lab.brokers.log_lines import RELEVANT, complaints
from lab.brokers.releases import release
from lab.cluster.cluster import cluster, start_cluster
from lab.cluster.plan import ClusterPlan
from lab.measuring.figures import Asked
from lab.moves.move import MIB, Move
from lab.moves.mover import Mover
from lab.moves.open_move import OpenMove, open_move
from lab.moves.scenes import until, until_equal
from lab.sidecars.sidecars import SidecarPlan

from .busy import assert_undisturbed, busy_partitions
from .expectations import FIRST_CONTACT_BYTES, assert_all_kept, assert_intact

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lab.cluster.cluster import Cluster

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]

QUOTA = 4 * MIB
LEADER, FOLLOWER = 101, 102
EARLY = 6 * MIB
BACK_OFF_SECONDS = 2.0
"""A fetcher whose connection broke waits 1 s and tries again; once more if it was refused just before the sidecar was
back."""
MARGIN_SECONDS = 0.5
FLIPS = 100
LONGEST_FLIP_SECONDS = 0.3
"""Longer than a change of the file takes to be on the wire: some flips are seen, some are overtaken."""
GARBLED = 0.15
"""So many of the flips are a request that nobody understands."""
FOREVER = float("inf")

Quota = float | Literal["unlimited"] | None
STATES: tuple[Quota, ...] = (0, QUOTA, "unlimited", None)


def both_sides(mebibytes: int) -> Move:
    return Move("sidecar strict", "both", QUOTA, bytes_per_partition=mebibytes * MIB // 8)


@pytest.fixture(scope="module", params=["3.9", "4.1"])
def in_sessions(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Two brokers with sidecars that speak to each other in fetch sessions and by topic ids."""
    plan = ClusterPlan(
        brokers=(LEADER, FOLLOWER),
        release=release(protocol=request.param),
        sidecars=SidecarPlan(),
        taps_at_brokers=True,
    )
    made = trio.run(start_cluster, plan)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.parametrize("broker", [LEADER, FOLLOWER], ids=["of the leader", "of the follower"])
async def test_a_sidecar_killed_in_mid_session_costs_no_more_than_the_back_off(
    in_sessions: Cluster, broker: int, record_property: Callable[[str, object], None]
) -> None:
    sidecar = in_sessions.sidecars[broker]
    async with (
        open_move(in_sessions, both_sides(32)) as move,
        busy_partitions(in_sessions, {0: [LEADER, FOLLOWER]}) as producers,
    ):
        await move.wait_moved_bytes(EARLY)
        killed = trio.current_time()
        await sidecar.kill()
        await sidecar.start()
        down = trio.current_time() - killed
        assert_intact(await move.finish(timeout_seconds=40))
    out = producers[0].percentile(1.0)
    record_property("down, out", [round(down, 3), round(out, 3)])
    # Its death was felt: the restarted sidecar met connections in the middle of their sessions.
    assert out > down / 2
    assert_undisturbed(producers, worst_seconds=down + BACK_OFF_SECONDS + MARGIN_SECONDS)
    assert_all_kept(move, move.started, FOREVER, QUOTA, extra_bytes=FIRST_CONTACT_BYTES)


def quotas(move: OpenMove, state: Quota) -> str:
    if state == "unlimited":
        return move.quotas(QUOTA).replace(f"rate = {QUOTA}", 'rate = "unlimited"')
    return move.quotas(state)


async def garble(cluster: Cluster) -> None:
    """The follower's next request cannot be understood; back when its fetcher is."""
    wish = cluster.home / "garble-follower"
    wish.touch()
    await until(lambda: not wish.exists(), what="a request is garbled", timeout_seconds=10)
    await trio.sleep(BACK_OFF_SECONDS)


async def flip(cluster: Cluster, move: OpenMove, chance: random.Random, most: int) -> int:
    """Flip quota files of either or both sidecars, or have a request garbled, until everything has moved; return how
    often."""
    total = move.move.partitions * move.move.bytes_per_partition
    for flips in range(most):
        if sum(event.size_bytes for event in move.moved()) >= total:
            return flips
        if chance.random() < GARBLED:
            await garble(cluster)
            continue
        text = quotas(move, chance.choice(STATES))
        for broker in chance.choice(((LEADER,), (FOLLOWER,), (LEADER, FOLLOWER))):
            cluster.sidecars[broker].write_quotas(text)
        await trio.sleep(chance.uniform(0, LONGEST_FLIP_SECONDS))
    return most


def garbled(cluster: Cluster) -> int:
    lines = cluster.broker_taps["follower"].samples_file.read_text("utf-8").splitlines()
    return sum('"garbled"' in line for line in lines)


async def test_nobody_is_left_behind_by_a_hundred_flips_and_garbled_requests(
    in_sessions: Cluster, record_property: Callable[[str, object], None]
) -> None:
    """Move after move until there were enough; each is lifted at last, with and without lists, and has to end."""
    chance = random.Random(in_sessions.plan.release.fetch_version)
    garbled_before = garbled(in_sessions)
    flips: list[int] = []
    async with busy_partitions(in_sessions, {0: [LEADER, FOLLOWER]}) as producers:
        for lifted in cycle(("unlimited", None)):
            async with open_move(in_sessions, both_sides(48)) as move:
                flips.append(await flip(in_sessions, move, chance, FLIPS - sum(flips)))
                for sidecar in in_sessions.sidecars.values():
                    await sidecar.set_quotas(quotas(move, lifted))
                assert_intact(await move.finish(timeout_seconds=15))
                await move.fill(MIB // 8, dict.fromkeys(range(8), in_sessions.addresses.direct(LEADER)))
                await until_equal(in_sessions, move.topic, timeout_seconds=5)
            if sum(flips) == FLIPS:
                break
    record_property("flips of each move", flips)
    worst = producers[0].percentile(1.0)
    record_property("garbled, worst latency", [garbled(in_sessions) - garbled_before, round(worst, 3)])
    assert garbled(in_sessions) - garbled_before >= FLIPS * GARBLED / 2
    assert_undisturbed(producers, worst_seconds=BACK_OFF_SECONDS + MARGIN_SECONDS)


@pytest.mark.parametrize("slots", ["1", "8"])
@pytest.mark.parametrize("protocol", ["2.4", "3.9", "4.1"])
async def test_sessions_that_find_no_place_in_the_leaders_cache(protocol: str, slots: str) -> None:
    """Since 3.8 the cache is in eight shards: with one slot none has any, with eight each has one. Two followers share
    the leader's: what one of them opens may have no place for the other."""
    plan = ClusterPlan(
        release=release(protocol=protocol),
        broker_overrides={"max.incremental.fetch.session.cache.slots": slots},
        sidecars=SidecarPlan(),
    )
    wanted = Move("sidecar strict", "both", QUOTA, bytes_per_partition=3 * MIB, leaders=(101,), followers=(102, 103))
    async with cluster(plan) as running:
        result = await Mover(running).run(wanted)
    assert result.equal, result.comparisons
    assert (result.bad_log_lines, result.shrinks) == ([], [])
    assert VERSION_BOUNDS.problems(result) == []


async def test_brokers_upgrade_one_by_one_in_mid_move() -> None:
    """0.10.1, which knows no sessions, to 1.1, which has them, to 2.8, which is flexible; the sidecars stay."""
    steps = [release(protocol=protocol) for protocol in ("0.10.1", "1.1", "2.8")]
    plan = ClusterPlan(
        brokers=(LEADER, FOLLOWER),
        release=steps[0],
        # A leader whose partitions have no other replica yet tries to hand them over three times.
        broker_overrides={"controlled.shutdown.retry.backoff.ms": "200"},
        sidecars=SidecarPlan(),
    )
    async with cluster(plan) as running, open_move(running, both_sides(96)) as move:
        await move.wait_moved_bytes(EARLY)
        for step in steps[1:]:
            for broker in (FOLLOWER, LEADER):
                await running.restart_as(broker, step)
                seen = sum(event.size_bytes for event in move.moved())
                await move.wait_moved_bytes(seen + 2 * MIB)
        outcome = await move.finish(timeout_seconds=60)
        assert outcome.equal, outcome.comparisons
        # What 2.8 logs by itself, it may log from when the first broker speaks it.
        logs = [broker.log_lines(RELEVANT) for broker in running.brokers.values()]
        assert [line for lines in logs for line in complaints(lines, steps[-1].noise)] == []
        assert running.shrinks() == []
        assert_all_kept(move, move.started, FOREVER, QUOTA, extra_bytes=FIRST_CONTACT_BYTES)
        asked = [s.version for s in move.samples() if isinstance(s, Asked) and s.follower == FOLLOWER]
        assert [version for version, _ in groupby(asked)] == [step.fetch_version for step in steps]
