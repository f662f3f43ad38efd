"""What the sidecar says it moved is what moved: on the wire, and as the broker itself counts it.

The broker's own quota is on as well, too high to matter, so that it counts the same traffic.
"""

from __future__ import annotations

import time
import urllib.request
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

import pytest
import trio
from prometheus_client.parser import text_string_to_metric_families

from admission.simple_rate import SimpleRate
from lab.brokers.jmx import JmxWatch, Reading
from lab.measuring.figures import Answer
from lab.moves.move import MIB
from lab.moves.scenes import fill_topic, native_quotas, sidecar_quotas, topic, until_equal, until_moved
from lab.sidecars.sidecars import lists_toml
from proxy.observing.exposition import METRICS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.cluster.cluster import Cluster
    from lab.measuring.figures import Sample

LEADER, FOLLOWER = 101, 102
QUOTA = 4 * MIB
HIGH = 100 * MIB
PARTITIONS = 4
SECONDS = 18
WINDOW_SECONDS = 11.0
ENTRY_BYTES = 18
"""A partition's entry in a Fetch v3 response, besides its records (message spec FetchResponse)."""
TOLERANCE = 0.05
ONE_SAMPLE = 1 / WINDOW_SECONDS
"""The broker's samples of a second begin at other moments than the sidecar's: while one of them leaves its window and
not yet the other's, the two rates differ by as much (7.4 % once)."""


class Scrape(NamedTuple):
    t: float
    leader: float
    follower: float
    by_partition: tuple[float, ...]
    """PartitionBytesInRate in the follower's role."""


def rates_on_the_wire(samples: Sequence[Sample], name: str, at: Sequence[float], *, entry_bytes: int) -> list[float]:
    """What Kafka's own arithmetic makes of the throttled bytes that passed the tap, at each time."""
    answers = [sample for sample in samples if isinstance(sample, Answer)]
    found = []
    for t in at:
        rate = SimpleRate()
        for answer in answers:
            sizes = [size for answered, _, size in answer.partitions if answered == name]
            if sizes and answer.t <= t:
                rate.record(sum(sizes) + entry_bytes * len(sizes), answer.t)
        found.append(rate.measure(t))
    return found


def nearest(readings: Sequence[Reading], t: float) -> float:
    return min(readings, key=lambda reading: abs(reading.t - t)).value


async def scrape(cluster: Cluster) -> Scrape:
    def rate(broker: int, name: str) -> float:
        return cluster.sidecars[broker].metrics()[name][""]

    def rates_of_partitions() -> tuple[float, ...]:
        found = cluster.sidecars[FOLLOWER].metrics()["PartitionBytesInRate"]
        return tuple(value for labels, value in found.items() if 'role="follower"' in labels)

    now = time.monotonic()
    leader = await trio.to_thread.run_sync(rate, LEADER, "LeaderReplicationThrottledRate")
    follower = await trio.to_thread.run_sync(rate, FOLLOWER, "FollowerReplicationThrottledRate")
    by_partition = await trio.to_thread.run_sync(rates_of_partitions)
    return Scrape((now + time.monotonic()) / 2, leader, follower, by_partition)


def watch(cluster: Cluster, broker: int, mbean: str) -> JmxWatch:
    return JmxWatch(
        cluster.addresses.direct(broker),
        f"kafka.server:type={mbean}",
        "byte-rate",
        home=cluster.home / f"jmx-{mbean}",
        jars=cluster.jars,
    )


@pytest.mark.brokers
async def test_throttled_rates_agree_with_the_wire_and_with_the_brokers(watched_cluster: Cluster) -> None:
    cluster = watched_cluster
    assert cluster.taps is not None
    partitions = range(PARTITIONS)
    lists = {
        "leader": ",".join(f"{p}:{LEADER}" for p in partitions),
        "follower": ",".join(f"{p}:{FOLLOWER}" for p in partitions),
    }
    async with topic(cluster, {key: [LEADER] for key in partitions}, prefix="rates") as name:
        await fill_topic(
            cluster, name, dict.fromkeys(partitions, LEADER), bytes_per_partition=SECONDS * QUOTA // PARTITIONS
        )
        text = lists_toml({"leader": QUOTA, "follower": HIGH}, {name: lists})
        native = {"leader": float(HIGH), "follower": float(HIGH)}
        async with (
            native_quotas(cluster, name, lists=lists, rates=native, brokers=(LEADER, FOLLOWER)),
            sidecar_quotas(cluster, text, (LEADER, FOLLOWER), policy="strict"),
        ):
            mark, started, scrapes = cluster.taps.position(), time.monotonic(), []
            with (
                watch(cluster, LEADER, "LeaderReplication") as of_leader,
                watch(cluster, FOLLOWER, "FollowerReplication") as of_follower,
            ):
                await trio.to_thread.run_sync(
                    cluster.admin.reassign, name, {key: [LEADER, FOLLOWER] for key in partitions}
                )
                # The brokers' windows are warm; only once they hold nothing but the move do all three count alike.
                await trio.sleep(WINDOW_SECONDS + 1)
                while time.monotonic() < started + SECONDS - 1:
                    scrapes.append(await scrape(cluster))
                    await trio.sleep(0.5)
                samples = cluster.taps.samples(since=mark)
                brokers = [of_leader.readings(), of_follower.readings()]
            await until_moved(cluster, name, partitions, timeout_seconds=30)
        await until_equal(cluster, name, timeout_seconds=30)

    times = [seen.t for seen in scrapes]
    assert len(times) >= 5
    for said, entry_bytes, readings in (
        ([seen.leader for seen in scrapes], ENTRY_BYTES, brokers[0]),
        ([seen.follower for seen in scrapes], 0, brokers[1]),
    ):
        assert said == pytest.approx(rates_on_the_wire(samples, name, times, entry_bytes=entry_bytes), rel=TOLERANCE)
        told = [nearest(readings, t) for t in times]
        assert said == pytest.approx(told, rel=TOLERANCE + ONE_SAMPLE)
        assert fmean(said) == pytest.approx(fmean(told), rel=TOLERANCE)
        assert said == pytest.approx([QUOTA] * len(said), rel=TOLERANCE)
    assert {len(seen.by_partition) for seen in scrapes} == {PARTITIONS}
    # Smoothed over five seconds, so that one scrape is within a quarter and all of them together are close.
    sums = [sum(seen.by_partition) for seen in scrapes]
    assert sums == pytest.approx([QUOTA] * len(sums), rel=0.25)
    assert sum(sums) / len(sums) == pytest.approx(QUOTA, rel=2 * TOLERANCE)


@pytest.mark.brokers
async def test_metrics_are_in_prometheus_text_format(watched_cluster: Cluster) -> None:
    url = watched_cluster.sidecars[LEADER].url + "/metrics"

    def get() -> tuple[str, str]:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.headers["content-type"], answer.read().decode()

    content_type, text = await trio.to_thread.run_sync(get)
    assert content_type.startswith("text/plain; version=0.0.4")
    exposed = {family.name for family in text_string_to_metric_families(text)}
    expected = {metric.name.removesuffix("_total") for metric in METRICS}
    ours = {name for name in exposed if not name.startswith(("process_", "python"))}
    assert ours == expected
    assert "process_cpu_seconds" in exposed
