"""Producers and consumers on the listener that the sidecar shares with replication: nothing of theirs is touched.

Kafka's own clients and librdkafka (tests/system/clients) go through the ingress while partitions move under a quota
on the very same listener. What they say of themselves is compared, record by record, by digest.
"""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
import trio

from lab.brokers.releases import release
from lab.clients.program import ClientProgram, ingresses, servers
from lab.cluster.cluster import cluster, start_cluster
from lab.cluster.plan import ClusterPlan
from lab.moves.move import MIB, Move
from lab.moves.open_move import open_move
from lab.moves.scenes import topic, until_equal
from lab.sidecars.sidecars import SidecarPlan

from .expectations import FIRST_CONTACT_BYTES, assert_all_kept, assert_intact

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lab.cluster.cluster import Cluster

CLIENTS = Path(__file__).parent / "clients"
LEADER, FOLLOWER = 101, 102
QUOTA = MIB
CODECS = {"none", "gzip", "snappy", "lz4", "zstd"}
PROMPT = {
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    # For the consumer protocol of KIP-848 (4.0): its members hear of each other by heartbeats.
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.min.heartbeat.interval.ms": "300",
}


class Client(NamedTuple):
    """`kafka` is the version of Kafka's own; None: librdkafka."""

    kafka: str | None
    protocol: str = "classic"

    @property
    def name(self) -> str:
        who = "librdkafka" if self.kafka is None else f"kafka-clients {self.kafka}"
        return f"{who} {self.protocol}"

    @property
    def program(self) -> ClientProgram:
        return ClientProgram(CLIENTS / ("librdkafka.py" if self.kafka is None else "Client.java"), self.kafka)


def plan(protocol: str) -> ClusterPlan:
    return ClusterPlan(
        brokers=(LEADER, FOLLOWER),
        release=release(protocol=protocol),
        broker_overrides=PROMPT,
        sidecars=SidecarPlan(),
    )


def assert_untouched(events: list[list[str]], *, count: int) -> None:
    """What was committed came, once each and byte for byte; of what was aborted nothing; the group was two."""
    committed = Counter(event[2] for event in events if event[0] == "committed")
    consumed = Counter(event[2] for event in events if event[0] == "consumed")
    assert consumed == committed
    assert sum(committed.values()) == 2 * count * len(CODECS)
    aborted = [event for event in events if event[0] == "aborted"]
    assert len(aborted) == count * len(CODECS)
    assert not consumed.keys() & {event[2] for event in aborted}
    assert {event[1] for event in events if event[0] == "committed"} == CODECS
    shares = Counter(event[1] for event in events if event[0] == "consumed")
    assert shares.keys() == {"first", "second"}
    assert all(any(int(event[2]) > 0 for event in events if event[:2] == ["assigned", who]) for who in shares)


def undecoded(running: Cluster) -> dict[str, float]:
    found = {}
    for broker, sidecar in running.sidecars.items():
        counted = sidecar.metrics().get("replication_throttle_undecoded_total", {})
        found.update({f"{broker} {labels}": value for labels, value in counted.items() if value})
    return found


async def beside_a_throttled_move(client: Client, running: Cluster, *, mebibytes: int, count: int) -> float:
    """Return how long the client took; the move went on all that time, kept to its quota, and was finished after."""
    move = Move("sidecar strict", "both", QUOTA, bytes_per_partition=mebibytes * MIB // 8)
    async with (
        topic(running, {p: [LEADER, FOLLOWER] if p % 2 else [FOLLOWER, LEADER] for p in range(4)}) as name,
        open_move(running, move) as moving,
    ):
        await moving.wait_moved_bytes(MIB // 2)
        began = trio.current_time()
        arguments = (servers(running), name, client.protocol, count)
        events = await client.program.run(running, ingresses(running), arguments)
        seconds = trio.current_time() - began
        moved = sum(event.size_bytes for event in moving.moved())
        lifted = time.monotonic()
        await moving.set_quota(None)
        assert_intact(await moving.finish(timeout_seconds=30))
        assert_untouched(events, count=count)
        await until_equal(running, name, timeout_seconds=20)
        assert MIB < moved < mebibytes * MIB
        assert_all_kept(moving, moving.started, lifted, QUOTA, extra_bytes=FIRST_CONTACT_BYTES)
    assert undecoded(running) == {}
    return seconds


@pytest.fixture(scope="module", params=["2.8", "3.9", "4.1"])
def shared_listener(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    made = trio.run(start_cluster, plan(request.param))
    try:
        yield made
    finally:
        made.close()


@pytest.mark.system
@pytest.mark.timeout(180)
@pytest.mark.parametrize("client", [Client("3.9.1"), Client("4.1.0"), Client(None)], ids=lambda client: client.name)
async def test_nothing_of_a_clients_is_touched(
    shared_listener: Cluster, client: Client, record: Callable[..., None]
) -> None:
    seconds = await beside_a_throttled_move(client, shared_listener, mebibytes=64, count=100)
    record("clients", client=client.name, brokers=shared_listener.plan.release.name, seconds=round(seconds, 1))


@pytest.mark.system
@pytest.mark.timeout(180)
@pytest.mark.parametrize("client", [Client("4.1.0", "consumer"), Client(None, "consumer")], ids=lambda c: c.name)
async def test_nor_of_the_consumer_group_protocol_of_kip_848(client: Client, record: Callable[..., None]) -> None:
    async with cluster(plan("4.1")) as running:
        seconds = await beside_a_throttled_move(client, running, mebibytes=64, count=100)
    record("clients", client=client.name, brokers="4.1", seconds=round(seconds, 1))


@pytest.mark.brokers
async def test_librdkafka_on_the_shared_listener() -> None:
    """The short form."""
    async with cluster(plan("2.8")) as running:
        await beside_a_throttled_move(Client(None), running, mebibytes=64, count=20)
