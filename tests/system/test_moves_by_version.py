"""The quota holds whatever version of Fetch brokers speak, from the 0.10.1 protocol to Kafka 4.4, on either side.

Each release runs beside its own brokers' quota; what came of both is added to build/moves_by_version.jsonl, for the
table in docs/benchmarks.md, which shows the last of each: so it can be measured release by release (`-k v12`).
"""

from __future__ import annotations

import json
import re
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest
import trio

from benchmarks.cases import SHORT_BOUNDS, VERSION_BOUNDS, VERSION_SIDES, Bounds, at_every_version
from benchmarks.moves import VERSION_RESULTS
from lab.brokers.jars import version_numbers
from lab.brokers.releases import EVERY_RELEASE, Release, release
from lab.cluster.cluster import cluster, start_cluster
from lab.cluster.plan import ClusterPlan
from lab.moves.move import MIB, Move
from lab.moves.mover import Mover
from lab.moves.scenes import topic, until
from lab.sidecars.sidecars import UNLIMITED, SidecarPlan

from .busy import assert_undisturbed, busy_partitions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lab.cluster.cluster import Cluster
    from lab.moves.move import MoveResult
    from lab.sidecars.sidecars import Sidecar

BROKERS = (101, 102)
ADDED_FETCHES_PER_SECOND = 50
"""Ten grants a second take a few fetches each, beside those of the acks=all producer's records: natively one each, or
three with leaders of 2.4.1, which answer whenever the high watermark moves (KAFKA-9731). A follower that does not like
its answers asks a thousand times a second."""
FETCHES_PER_SECOND = 25
IN_SYNC_SECONDS = 4.0

EVERYTHING_STOPPED = "".join(
    ["[brokers.default]\n"]
    + [
        f'{role}.replication.throttled.rate = 0\n{role}.replication.throttled.replicas = "*"\n'
        for role in ("leader", "follower")
    ]
)
NO_SUCH_TOPIC = (
    '[brokers.default]\nleader.replication.throttled.rate = "1GiB/s"\n'
    '[topics.no-such-topic]\nleader.replication.throttled.replicas = "*"\n'
)
FIRST_ASKED_BY_NAME = (0, 11)
"""Older brokers cannot be asked for a topic without creating it (KIP-204)."""
NOT_KNOWN = re.compile("Error getting request for apiKey|UnsupportedVersionException")


def plan(row: Release, *, sidecars: SidecarPlan | None = None) -> ClusterPlan:
    return ClusterPlan(brokers=BROKERS, release=row, sidecars=sidecars)


@pytest.fixture(scope="module")
def keep() -> Iterator[Callable[[Release, MoveResult], None]]:
    """Keep what a release came to, one JSON line each."""
    VERSION_RESULTS.parent.mkdir(exist_ok=True)
    with VERSION_RESULTS.open("a", encoding="utf-8") as lines:

        def write(row: Release, result: MoveResult) -> None:
            about = {"kafka": row.kafka, "protocol": row.name, "mode": row.mode, "fetch_version": row.fetch_version}
            lines.write(json.dumps(about | result.summary()) + "\n")
            lines.flush()

        yield write


@pytest.fixture(scope="module", params=EVERY_RELEASE, ids=[row.id for row in EVERY_RELEASE])
def with_sidecars(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Two brokers of a release, a sidecar beside each, both roles."""
    made = trio.run(start_cluster, plan(request.param, sidecars=SidecarPlan()))
    try:
        yield made
    finally:
        made.close()


def bounds(row: Release) -> Bounds:
    """Of old binaries the clock of a move has the start of Kafka's own tool in it, a second of the eight."""
    return replace(VERSION_BOUNDS, least_mean=0.85) if row.through_zookeeper else VERSION_BOUNDS


def assert_nothing_lost(row: Release, result: MoveResult) -> None:
    assert result.equal, result.comparisons
    assert (result.bad_log_lines, result.shrinks) == ([], [])
    assert set(result.fetch_versions) == {row.fetch_version}


@pytest.mark.system
@pytest.mark.timeout(300)
async def test_every_version_keeps_to_the_quota(
    with_sidecars: Cluster, keep: Callable[[Release, MoveResult], None]
) -> None:
    row = with_sidecars.plan.release
    async with cluster(plan(row)) as native:
        mover = Mover(native)
        natively = [await mover.run(at_every_version("native cold", side)) for side in VERSION_SIDES]
    mover = Mover(with_sidecars)
    results = [await mover.run(at_every_version("sidecar strict", side)) for side in VERSION_SIDES]
    for result in natively + results:
        keep(row, result)
    for result, native_result in zip(results, natively, strict=True):
        assert_nothing_lost(row, result)
        assert bounds(row).problems(result) == []
        assert result.latencies is not None
        assert result.latencies.errors == 0
        assert result.fetches_per_second <= native_result.fetches_per_second + ADDED_FETCHES_PER_SECOND


@pytest.mark.system
@pytest.mark.timeout(120)
@pytest.mark.parametrize("idle", [0, 1], ids=["nothing else", "beside one in sync"])
async def test_both_sides_ask_seldom(with_sidecars: Cluster, idle: int, record: Callable[..., None]) -> None:
    """A fetch that asks for a partition in sync, to which nobody writes, is not held: it must not become a loop."""
    row = with_sidecars.plan.release
    wanted = Move("sidecar strict", "both", 4.0 * MIB, bytes_per_partition=2 * MIB)
    async with AsyncExitStack() as stack:
        for _ in range(idle):
            await stack.enter_async_context(topic(with_sidecars, {0: list(BROKERS)}))
        result = await Mover(with_sidecars).run(wanted)
    record("fetch_rates", fetch_version=row.fetch_version, kafka=row.kafka, idle=idle, **result.summary())
    assert_nothing_lost(row, result)
    assert result.fetches_per_second <= FETCHES_PER_SECOND


@pytest.mark.system
@pytest.mark.timeout(120)
async def test_replicas_in_sync_are_not_throttled(
    with_sidecars: Cluster, record_property: Callable[[str, object], None]
) -> None:
    """Everything is listed on both sides and the quota is 0: what is in sync goes on as if there were none."""
    said = with_sidecars.log_mark()
    async with busy_partitions(with_sidecars, {0: [101, 102], 1: [102, 101]}) as producers:
        for sidecar in with_sidecars.sidecars.values():
            await sidecar.set_quotas(EVERYTHING_STOPPED)
        await trio.sleep(IN_SYNC_SECONDS)
        for sidecar in with_sidecars.sidecars.values():
            await sidecar.set_quotas(UNLIMITED)
    record_property("worst latency", [round(producer.percentile(1.0), 3) for producer in producers])
    assert all(len(producer.acknowledged) > 0.9 * 50 * IN_SYNC_SECONDS for producer in producers)
    assert_undisturbed(producers, worst_seconds=1.0)
    assert (with_sidecars.bad_log_lines(since=said), with_sidecars.shrinks(since=said)) == ([], [])


@pytest.mark.system
@pytest.mark.timeout(120)
async def test_brokers_know_what_sidecars_ask(with_sidecars: Cluster) -> None:
    """Each start of a sidecar wrote an error with a stack trace into the log of a broker of 2.8."""
    for sidecar in with_sidecars.sidecars.values():
        await sidecar.set_quotas(NO_SUCH_TOPIC)
    if version_numbers(with_sidecars.plan.release.kafka) >= FIRST_ASKED_BY_NAME:
        for sidecar in with_sidecars.sidecars.values():
            await until(partial(_misses_topic, sidecar), what="two answers are without the topic", timeout_seconds=30)
    else:
        await trio.sleep(IN_SYNC_SECONDS)
    for sidecar in with_sidecars.sidecars.values():
        await sidecar.set_quotas(UNLIMITED)
    assert [line for broker in with_sidecars.brokers.values() for line in broker.log_lines(NOT_KNOWN)] == []


def _misses_topic(sidecar: Sidecar) -> bool:
    return any("no-such-topic" in line for line in sidecar.log_lines("condition_raised"))


@pytest.mark.brokers
async def test_fetch_sessions_and_topic_ids_keep_to_the_quota() -> None:
    """The short form: 3.9, Fetch v17, both sides at once."""
    row = release(protocol="3.9")
    wanted = Move("sidecar strict", "both", 4.0 * MIB, partitions=8, bytes_per_partition=2 * MIB)
    async with cluster(plan(row, sidecars=SidecarPlan())) as running:
        result = await Mover(running).run(wanted)
    assert_nothing_lost(row, result)
    assert SHORT_BOUNDS.problems(result) == []
    assert result.fetches_per_second <= FETCHES_PER_SECOND
