"""Sixteen connections of five hundred partitions each catch up from one leader, on real brokers.

Four followers with four fetchers each get 2000 partitions that one broker leads, beside some in sync that nobody writes
to. What each connection brought is the growth of its replicas' logs on disk; which fetcher has which partition is what
the followers' logs say. Beside them two brokers follow one partition each that is written to with acks=all, one of them
through sidecars and one around them: what catch-up costs records in sync is compared with what it costs those that pass
no sidecar in the same seconds, because the brokers of a crowd leave none of two cores idle. What came of each run goes
to build/crowd.jsonl.
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import pytest
import trio

from lab.brokers.releases import release
from lab.cluster.cluster import cluster
from lab.cluster.plan import ClusterPlan
from lab.load.fill import fill
from lab.moves.move import MIB
from lab.moves.scenes import sidecar_quotas, topic, until
from lab.sidecars.sidecars import SidecarPlan, lists_toml
from lab.wire.records import Shape

from .busy import busy_partitions

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from lab.cluster.cluster import Cluster
    from lab.load.live_producer import LiveProducer

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]

LEADER, FOLLOWERS, THROUGH, AROUND = 101, (102, 103, 104, 105), 106, 107
IN_SYNC = {0: [LEADER, THROUGH], 1: [LEADER, AROUND]}
FETCHERS = 4
TOPICS, PARTITIONS = 4, 500
"""As many topics: a topic of 2000 partitions takes longer to make than its creator waits."""
IDLE = 64
"""Partitions in sync at each follower: with one of them on a connection, each look for a turn is a fetch."""
CONNECTIONS = len(FOLLOWERS) * FETCHERS
QUOTA = 4 * MIB
"""Brokers and sidecars take one of two cores with it."""
BATCHES = Shape(record_bytes=1000, batch_records=10)
BYTES = 400_000
"""Of a partition. Ten times what comes to each on average, so that few are in sync before the minute is over."""
BEGUN_BYTES = MIB
"""Of a connection: full requests and first contact are over, and it has had several grants."""
ALONE_SECONDS, SECONDS = 30.0, 60.0
"""In a minute each connection has 37 grants of a tenth of a second of the quota."""
RECORD_SECONDS = 0.04
"""From one record in sync to the next. Each takes its leader 4 ms of a core."""
MOST_TIMES, MOST_ADDED = 3.0, 0.005
"""How late records in sync may be, at the median and at the 99th percentile, beside those that go around the sidecars.
Each passes two of them four times, and waits for a core as often; measured 1.2 to 2.9 times, where processes waited for
a core longer than they had one. Only on idle cores do the milliseconds tell."""
_FETCHER = re.compile(r"fetcherId=(\d+)\] Truncating partition (\S+) with")


class Connection(NamedTuple):
    follower: int
    fetcher: int


class Crowd:
    """The connections of a cluster by the partitions that each fetches. Args: names: of the topics that they fetch."""

    def __init__(self, running: Cluster, names: Sequence[str]) -> None:
        self._logs = {follower: running.brokers[follower].log_dir for follower in FOLLOWERS}
        self._connections = {
            (follower, found[2]): Connection(follower, int(found[1]))
            for follower in FOLLOWERS
            for line in running.brokers[follower].log_lines(_FETCHER)
            if (found := _FETCHER.search(line)) and found[2].rpartition("-")[0] in names
        }
        self.partitions = Counter(self._connections.values())

    def held_bytes(self) -> Counter[Connection]:
        """Return the bytes in the logs of each connection's replicas."""
        held: Counter[Connection] = Counter()
        for (follower, partition), connection in self._connections.items():
            held[connection] += (self._logs[follower] / partition / f"{0:020}.log").stat().st_size
        return held


@asynccontextmanager
async def many(running: Cluster) -> AsyncGenerator[list[str]]:
    """Topics that the leader alone has, full; beside an empty one that the followers have, too."""
    address, shape = running.addresses.direct(LEADER), running.shape(BATCHES)
    async with AsyncExitStack() as stack:
        in_sync = {partition: [LEADER, *FOLLOWERS] for partition in range(IDLE)}
        await stack.enter_async_context(topic(running, in_sync, prefix="crowd"))
        names = []
        for _ in range(TOPICS):
            alone = {partition: [LEADER] for partition in range(PARTITIONS)}
            names.append(await stack.enter_async_context(topic(running, alone, prefix="crowd")))
            leaders = dict.fromkeys(alone, address)
            await trio.to_thread.run_sync(partial(fill, names[-1], leaders, bytes_per_partition=BYTES, shape=shape))
        yield names


async def begun(running: Cluster, names: Sequence[str]) -> Crowd:
    """Give every partition its four followers, and wait until all connections bring records."""
    replicas = {partition: [LEADER, *FOLLOWERS] for partition in range(PARTITIONS)}
    for name in names:
        await trio.to_thread.run_sync(running.admin.reassign, name, replicas)
    replicas_wanted = TOPICS * PARTITIONS * len(FOLLOWERS)

    def known() -> bool:
        return Crowd(running, names).partitions.total() == replicas_wanted

    await until(known, what="every replica has its fetcher", timeout_seconds=120, poll_seconds=2)
    crowd = Crowd(running, names)
    assert len(crowd.partitions) == CONNECTIONS

    def all_bring() -> bool:
        return min(crowd.held_bytes().values()) >= BEGUN_BYTES

    await until(all_bring, what="every connection brings records", timeout_seconds=120, poll_seconds=2)
    return crowd


def spent(running: Cluster) -> dict[str, tuple[float, float]]:
    """Return the seconds for which each process has had a core, and for which it has waited for one."""
    return {process.name: (process.cpu_seconds(), process.waited_seconds()) for process in running.processes}


def milliseconds(producer: LiveProducer) -> dict[str, float]:
    return {f"p{100 * share:g}": round(1000 * producer.percentile(share), 1) for share in (0.5, 0.9, 0.99)}


@pytest.mark.parametrize("protocol", ["3.9", "4.1"])
async def test_each_connection_of_a_crowd_has_its_share(protocol: str, record: Callable[..., None]) -> None:
    plan = ClusterPlan(
        brokers=(LEADER, *FOLLOWERS, THROUGH, AROUND),
        release=release(protocol=protocol),
        num_replica_fetchers=FETCHERS,
        # As many threads as a broker has by default, and room on disk for the indexes of ten thousand replicas.
        broker_overrides={"num.network.threads": "3", "num.io.threads": "8", "log.index.size.max.bytes": "65536"},
        sidecars=SidecarPlan(leader=frozenset({LEADER}), follower=frozenset({*FOLLOWERS, THROUGH})),
        around=frozenset({AROUND}),
        taps=False,
    )
    quotas = lists_toml({"leader": QUOTA}, {"crowd-*": {"leader": "*"}})
    async with cluster(plan) as running, many(running) as names:
        async with sidecar_quotas(running, quotas, [LEADER], policy="strict"):
            async with busy_partitions(running, IN_SYNC, interval_seconds=RECORD_SECONDS) as alone:
                await trio.sleep(ALONE_SECONDS)
            crowd = await begun(running, names)
            async with busy_partitions(running, IN_SYNC, interval_seconds=RECORD_SECONDS) as beside:
                before, spent_before, began = crowd.held_bytes(), spent(running), time.monotonic()
                await trio.sleep(SECONDS)
                seconds = time.monotonic() - began
                held, spent_after = crowd.held_bytes(), spent(running)
        complaints = (running.bad_log_lines(), running.shrinks())
    total = crowd.partitions.total()
    brought = {each: (held[each] - before[each]) / seconds for each in held}
    used = sum(brought.values()) / QUOTA
    shares = {each: brought[each] / QUOTA * total / partitions for each, partitions in crowd.partitions.items()}
    cores = {
        name: [round((now - then) / seconds, 3) for now, then in zip(each, spent_before[name], strict=True)]
        for name, each in spent_after.items()
    }
    record(
        "crowd", protocol=protocol, used=round(used, 3), least=round(min(shares.values()), 3),
        most=round(max(shares.values()), 3), alone_ms=[milliseconds(each) for each in alone],
        beside_ms=[milliseconds(each) for each in beside], cores=cores, load=os.getloadavg(),
    )  # fmt: skip
    assert complaints == ([], [])
    for connection, partitions in crowd.partitions.items():
        assert held[connection] < 0.9 * BYTES * partitions, "a connection had little left to bring"
    assert 0.9 <= used <= 1.05
    assert min(shares.values()) >= 0.85
    for producer in (*alone, *beside):
        assert producer.errors == []
    for percentile in (0.5, 0.99):
        through, around = (producer.percentile(percentile) for producer in beside)
        assert through <= MOST_TIMES * around + MOST_ADDED
