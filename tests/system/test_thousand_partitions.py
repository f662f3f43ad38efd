"""A fetcher of a thousand partitions: within a fetch session only what changes is on the wire, before, between and
behind the two sidecars, and each fetch costs them what changed.

Every partition is listed on both sides, so each fetch is decided. A full request or response of a thousand is more than
25 kB. Ten partitions stand beside the thousand: what a fetch costs is to be the same.
"""

from __future__ import annotations

import statistics
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import psutil
import pytest
import trio

from lab.brokers.releases import release
from lab.cluster.cluster import start_cluster
from lab.cluster.plan import ClusterPlan
from lab.load.fill import fill
from lab.load.live_producer import LIVE, LiveProducer
from lab.measuring.figures import Answer, Asked
from lab.moves.move import MIB
from lab.moves.scenes import sidecar_quotas, topic, until_equal, until_in_sync, until_moved
from lab.sidecars.sidecars import SidecarPlan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from lab.cluster.cluster import Cluster
    from lab.measuring.taps import Taps

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]

LEADER, FOLLOWER = 101, 102
CATCHING_UP = 8
SECONDS = 5.0
QUOTA = 2 * MIB
PRODUCE_SECONDS = 0.04
"""From one record to the next. Each takes a fetch, and one of 1000 partitions takes its leader 23 ms of a core, with
sidecars and without (3.9, a JVM that compiles little): at 50 records a second the producer would fall behind."""
EVERYTHING = "".join(
    ["[brokers.default]\n"]
    + [
        f'{role}.replication.throttled.rate = {QUOTA}\n{role}.replication.throttled.replicas = "*"\n'
        for role in ("leader", "follower")
    ]
)
MAX_BYTES = 2500
"""Eight partitions that catch up, listed or forgotten, and those that records have just been written to."""


class Seen(NamedTuple):
    """Of the fetches in one place in a while: how many, and the bytes of each but for records."""

    fetches: int
    request_bytes: list[int]
    answer_bytes: list[int]

    def summary(self) -> dict[str, object]:
        return {
            "fetches": self.fetches,
            "request_bytes": [round(statistics.median(self.request_bytes)), max(self.request_bytes)],
            "answer_bytes": [round(statistics.median(self.answer_bytes)), max(self.answer_bytes)],
        }


def seen(taps: Taps, mark: int) -> Seen:
    mine = [sample for sample in taps.samples(since=mark) if (sample.leader, sample.follower) == (LEADER, FOLLOWER)]
    asked = [sample.size_bytes for sample in mine if isinstance(sample, Asked)]
    answers = [
        sample.size_bytes - sum(size for _, _, size in sample.partitions)
        for sample in mine
        if isinstance(sample, Answer)
    ]
    assert all(sample.session_id for sample in mine if isinstance(sample, Answer))
    return Seen(len(asked), asked, answers)


def cpu_seconds(running: Cluster) -> dict[int, float]:
    times = {broker: psutil.Process(sidecar.process.pid).cpu_times() for broker, sidecar in running.sidecars.items()}
    return {broker: spent.user + spent.system for broker, spent in times.items()}


async def observed(running: Cluster) -> tuple[dict[str, Seen], dict[str, int]]:
    """A while of it: what passed in each place, and the CPU microseconds of each sidecar per fetch."""
    assert running.taps
    places: Mapping[str, Taps] = {"between": running.taps, **running.broker_taps}
    marks = {place: taps.position() for place, taps in places.items()}
    before = cpu_seconds(running)
    await trio.sleep(SECONDS)
    after = cpu_seconds(running)
    found = {place: seen(taps, marks[place]) for place, taps in places.items()}
    per_fetch = {
        name: round(1e6 * (after[broker] - before[broker]) / max(found["between"].fetches, 1))
        for name, broker in (("ingress", LEADER), ("egress", FOLLOWER))
    }
    return found, per_fetch


def assert_incremental(found: Mapping[str, Seen], *, least_fetches: int) -> None:
    for place, each in found.items():
        assert each.fetches >= least_fetches, place
        assert max(each.request_bytes) <= MAX_BYTES, place
        assert max(each.answer_bytes) <= MAX_BYTES, place


async def busy(running: Cluster, name: str, task_status: trio.TaskStatus[LiveProducer]) -> None:
    leader = running.addresses.direct(LEADER)
    producer = LiveProducer(leader, name, 0, PRODUCE_SECONDS, shape=running.shape(LIVE))
    async with trio.open_nursery() as nursery:
        await nursery.start(producer.run)
        task_status.started(producer)


@pytest.fixture(scope="module", params=["2.8", "3.9"])
def tapped(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Two brokers whose fetches are seen before, between and behind the sidecars."""
    row = release(protocol=request.param)
    plan = ClusterPlan(brokers=(LEADER, FOLLOWER), release=row, sidecars=SidecarPlan(), taps_at_brokers=True)
    made = trio.run(start_cluster, plan)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.parametrize("partitions", [10, 1000])
async def test_fetches_stay_incremental(tapped: Cluster, partitions: int, record: Callable[..., None]) -> None:
    said, fetch_version = tapped.log_mark(), tapped.plan.release.fetch_version
    async with (
        topic(tapped, {p: [LEADER, FOLLOWER] for p in range(partitions)}) as many,
        topic(tapped, {p: [LEADER] for p in range(CATCHING_UP)}) as moving,
    ):
        leaders = dict.fromkeys(range(CATCHING_UP), tapped.addresses.direct(LEADER))
        size = int(QUOTA * 4 * SECONDS / CATCHING_UP)
        shape = tapped.shape()
        await trio.to_thread.run_sync(partial(fill, moving, leaders, bytes_per_partition=size, shape=shape))
        await until_in_sync(tapped, many, timeout_seconds=60)
        async with (
            sidecar_quotas(tapped, EVERYTHING, (LEADER, FOLLOWER), policy="strict"),
            trio.open_nursery() as nursery,
        ):
            producer: LiveProducer = await nursery.start(busy, tapped, many)
            await trio.sleep(2)
            producer.acknowledged.clear()
            scenes = {"in sync": await observed(tapped)}
            worst = {"in sync": producer.percentile(1.0)}
            target = {p: [LEADER, FOLLOWER] for p in range(CATCHING_UP)}
            await trio.to_thread.run_sync(tapped.admin.reassign, moving, target)
            await trio.sleep(2)
            worst["beginning"] = producer.percentile(1.0)
            producer.acknowledged.clear()
            scenes["catching up"] = await observed(tapped)
            worst["catching up"] = producer.percentile(1.0)
            assert set(tapped.admin.moving(moving, range(CATCHING_UP))) == set(range(CATCHING_UP))
            nursery.cancel_scope.cancel()
        for scene, (found, per_fetch) in scenes.items():
            bytes_seen = {place: each.summary() for place, each in found.items()}
            about = {"fetch_version": fetch_version, "partitions": partitions, "scene": scene}
            record("thousand", **about, cpu_us=per_fetch, **bytes_seen)
        for found, _ in scenes.values():
            assert_incremental(found, least_fetches=int(20 * SECONDS))
        record("thousand", partitions=partitions, fetch_version=fetch_version, worst_seconds=worst)
        assert max(worst.values()) <= 3.0
        assert producer.errors == []
        await until_moved(tapped, moving, range(CATCHING_UP), timeout_seconds=30)
        await until_equal(tapped, moving, timeout_seconds=30)
        assert (tapped.bad_log_lines(since=said), tapped.shrinks(since=said)) == ([], [])
