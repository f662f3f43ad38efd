"""Clients of several libraries under client quotas of the sidecar, beside the broker's own quotas in the same run.

One cluster of Kafka 4.1 for all. `python -m benchmarks.client_quotas` has the wider table. The broker's window is
two seconds instead of eleven, so that its burst is over sooner.
"""

from __future__ import annotations

import itertools
import socket
import struct
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import trio

from lab.brokers.releases import release
from lab.clients.quota_client import QuotaClient, set_client_quotas
from lab.cluster.cluster import start_cluster
from lab.cluster.plan import ClusterPlan
from lab.host.addresses import KAFKA_PORT
from lab.moves.scenes import topic
from lab.sidecars.sidecars import SidecarPlan
from lab.wire.produce import produce_request
from lab.wire.records import RecordMaker, Shape
from proxy.clients.budgets import ByRate

from .request_log import request_log

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from lab.clients.quota_client import Flow, Outcome
    from lab.cluster.cluster import Cluster

BROKER, OTHER = 101, 102
RATE = 1_000_000
LOW_RATE = 20_000
WINDOWS = 2
BURST_SECONDS = 0.25
LARGEST_FETCH_BYTES = 2**20
"""What a response brings at most under this quota."""
QUOTAS = f"""
[clients.default]
producer_byte_rate = {RATE}
consumer_byte_rate = {RATE}
[clients."low-*"]
producer_byte_rate = {LOW_RATE}
consumer_byte_rate = {LOW_RATE}
[clients."free-*"]
producer_byte_rate = "unlimited"
consumer_byte_rate = "unlimited"
"""
CLIENTS = [QuotaClient(kafka, records=40) for kafka in ("3.9.1", "4.1.0", "4.4.0", None)]
PASSED = "replication_throttle_client_bytes_total"


@pytest.fixture(scope="module")
def shared_listener() -> Iterator[Cluster]:
    overrides = {
        "offsets.topic.num.partitions": "2",
        "transaction.state.log.num.partitions": "2",
        "quota.window.num": str(WINDOWS),
    }
    plan = ClusterPlan(
        brokers=(BROKER, OTHER), release=release(protocol="4.1"), broker_overrides=overrides, taps=False,
        sidecars=SidecarPlan(quotas=QUOTAS),
    )  # fmt: skip
    made = trio.run(start_cluster, plan)
    try:
        yield made
    finally:
        made.close()


@asynccontextmanager
async def five_partitions(running: Cluster) -> AsyncIterator[str]:
    async with topic(running, {partition: [BROKER] for partition in range(5)}) as name:
        yield name


async def through_the_sidecar(running: Cluster, client: QuotaClient, prefix: str) -> Outcome:
    async with five_partitions(running) as name:
        ingresses = {broker: running.addresses.ingress(broker) for broker in (BROKER, OTHER)}
        return await client.run(running, name, prefix, ingresses)


async def under_the_brokers_quota(running: Cluster, client: QuotaClient, prefix: str) -> Outcome:
    quotas: dict[str | None, float | None] = dict.fromkeys(client.client_ids(prefix), float(RATE))
    await trio.to_thread.run_sync(set_client_quotas, running.addresses.direct(BROKER), quotas)
    async with five_partitions(running) as name:
        brokers = {broker: running.addresses.direct(broker) for broker in (BROKER, OTHER)}
        return await client.run(running, name, prefix, brokers)


def assert_undisturbed(found: Outcome) -> None:
    """Nothing was lost or came twice, as every outcome says; and nobody noticed but by being told."""
    assert found.rebalances == 0
    for who, flow in (found.producers | found.members).items():
        assert (who, flow.closed, flow.retries) == (who, 0, 0)
        assert flow.throttle_ms > 0 or not flow.carried, who  # the first member may have had all


def assert_kept(flow: Flow, *, one_more: int) -> None:
    """Over any span the records are at most what the quota and its burst let through, and what was charged last."""
    times = flow.carried
    for began, ended in itertools.combinations(range(0, len(times), 5), 2):
        seconds = times[ended][0] - times[began][0]
        size = sum(size for _, size in times[began:ended])
        # Answers to producers are late by some 0.1 s where brokers are busy, so that others come closer to them.
        assert size <= RATE * (seconds + BURST_SECONDS + 0.2) + one_more


def figures(found: Outcome) -> dict[str, object]:
    return {
        who: (round(flow.bytes_per_second), flow.worst_bytes(1), flow.throttle_ms, flow.latency_ms)
        for who, flow in (found.producers | found.members).items()
    }


@pytest.mark.system
@pytest.mark.timeout(120)
@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
async def test_transactions_and_a_group_beside_the_brokers_own_quota(
    shared_listener: Cluster, client: QuotaClient, record: Callable[..., None]
) -> None:
    found: dict[str, Outcome] = {}

    async def ours() -> None:
        found["ours"] = await through_the_sidecar(shared_listener, client, "ours-")

    async def native() -> None:
        found["native"] = await under_the_brokers_quota(shared_listener, client, "native-")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ours)
        nursery.start_soon(native)
    record("client_quotas", client=client.name, **{way: figures(outcome) for way, outcome in found.items()})
    for outcome in found.values():
        assert_undisturbed(outcome)
    for flow in found["ours"].producers.values():
        assert_kept(flow, one_more=client.batch_bytes)
        assert flow.bytes_per_second > 0.85 * RATE
    for flow in found["ours"].members.values():
        assert_kept(flow, one_more=LARGEST_FETCH_BYTES)
    native_worst = max(flow.worst_bytes(1) for flow in found["native"].producers.values())
    assert max(flow.worst_bytes(1) for flow in found["ours"].producers.values()) < native_worst


@pytest.mark.system
@pytest.mark.timeout(120)
@pytest.mark.parametrize("kafka", ["4.1.0", None], ids=["kafka-clients", "librdkafka"])
async def test_a_very_low_quota_neither_times_out_nor_is_asked_too_early(
    shared_listener: Cluster, kafka: str | None, record: Callable[..., None]
) -> None:
    """KIP-219's own plan. Times out after 5 s, while throttle times are up to 6."""
    client = QuotaClient(
        kafka, codecs=("none",), records=20, record_bytes=2000, batch_bytes=16_000, timeout_ms=5000
    )  # fmt: skip
    addresses = shared_listener.addresses
    between = addresses.tap(BROKER)
    async with five_partitions(shared_listener) as name, request_log(between, addresses.ingress(BROKER)) as log:
        brokers = {BROKER: between, OTHER: addresses.ingress(OTHER)}
        found = await client.run(shared_listener, name, "low-", brokers)
    assert_undisturbed(found)
    record("client_quotas_low", client=client.name, **figures(found), longest=max(log.throttle_seconds))
    assert max(log.throttle_seconds) > 5
    early = [seconds for seconds, _ in log.early()]
    assert max(early, default=0.0) < 0.02


class Ignorant:
    """A client that produces batches of one record, and never waits although it is told to."""

    def __init__(self, address: str, name: str, client_id: str, *, record_bytes: int = 50_000, acks: int = 1) -> None:
        self._connection = socket.create_connection((address, KAFKA_PORT), timeout=30)
        self._stream = self._connection.makefile("rb")
        self._batches = RecordMaker(Shape(record_bytes=record_bytes, batch_records=1, message_format="v2"))
        self._topic, self._client_id, self._acks = name, client_id, acks
        self.sent = 0

    def produce(self) -> tuple[int, float]:
        """Produce once; return the size of the request as the broker counts it, and the throttle time in seconds."""
        self.sent += 1
        frame = produce_request(
            self._topic, {0: self._batches.batch()}, correlation_id=self.sent, acks=self._acks, message_format="v2",
            client_id=self._client_id,
        )  # fmt: skip
        self._connection.sendall(frame)
        if not self._acks:
            return len(frame) - 4, 0.0
        (size,) = struct.unpack(">i", self._stream.read(4))
        (ms,) = struct.unpack(">i", self._stream.read(size)[-4:])
        return len(frame) - 4, ms / 1000

    def produce_for(self, seconds: float) -> float:
        """Return the bytes per second."""
        began = time.monotonic()
        sent = 0
        while time.monotonic() < began + seconds:
            sent += self.produce()[0]
        return sent / (time.monotonic() - began)

    def close(self) -> None:
        self._stream.close()
        self._connection.close()


@pytest.mark.system
@pytest.mark.timeout(60)
async def test_a_client_that_ignores_its_throttle_time_is_held_by_the_mute(shared_listener: Cluster) -> None:
    """As kafka-python did before it waited by itself (its issue 2506)."""
    address = shared_listener.addresses.ingress(BROKER)
    async with five_partitions(shared_listener) as name:
        client = Ignorant(address, name, "ignorant")
        rate = await trio.to_thread.run_sync(client.produce_for, 5.0)
        assert rate == pytest.approx(RATE, rel=0.12)  # the burst is a twentieth
        client.close()
        flood = Ignorant(address, name, "flood", acks=0)
        with trio.move_on_after(4):
            await trio.to_thread.run_sync(flood.produce_for, 60.0, abandon_on_cancel=True)
        counted = shared_listener.sidecars[BROKER].metrics()[PASSED]
        (passed,) = (size for labels, size in counted.items() if 'entity="flood"' in labels)
        assert passed <= RATE * (4 + BURST_SECONDS + 0.5) + 50_100
        flood.close()


@pytest.mark.system
@pytest.mark.timeout(60)
async def test_the_default_is_for_each_client_id_by_itself_as_the_brokers_is(shared_listener: Cluster) -> None:
    direct, ingress = shared_listener.addresses.direct(BROKER), shared_listener.addresses.ingress(BROKER)
    rates: dict[str, float] = {}

    async def produce(address: str, name: str, client_id: str) -> None:
        client = Ignorant(address, name, client_id)
        await trio.to_thread.run_sync(client.produce_for, 3.0)  # the bursts
        rates[client_id] = await trio.to_thread.run_sync(client.produce_for, 4.0)
        client.close()

    await trio.to_thread.run_sync(set_client_quotas, direct, {None: RATE / 2})
    try:
        async with five_partitions(shared_listener) as name, trio.open_nursery() as nursery:
            for client_id in ("broker-a", "broker-b"):
                nursery.start_soon(produce, direct, name, client_id)
    finally:
        await trio.to_thread.run_sync(set_client_quotas, direct, {None: None})
    async with five_partitions(shared_listener) as name, trio.open_nursery() as nursery:
        for client_id in ("sidecar-a", "sidecar-b"):
            nursery.start_soon(produce, ingress, name, client_id)
    broker, sidecar = ([rates[f"{where}-{one}"] for one in "ab"] for where in ("broker", "sidecar"))
    assert (
        min(broker) > 0.6 * RATE / 2
    )  # by a window of two samples it is throttled too long; together it would be half
    assert sidecar == pytest.approx([RATE] * 2, rel=0.15)


@pytest.mark.brokers
@pytest.mark.timeout(60)
async def test_the_throttle_times_of_kip73_are_the_brokers(shared_listener: Cluster) -> None:
    """The broker mutes for its throttle time, so each request is dealt with when the last one's is over."""
    direct, found = shared_listener.addresses.direct(BROKER), list[tuple[float, float]]()

    def produce(name: str) -> None:
        ours = ByRate(RATE, samples=WINDOWS, sample_seconds=1.0)
        free_at = 0.0
        for record_bytes, pause in [(900_000, 0.0)] * 4 + [(300_000, 0.2), (900_000, 1.3), (900_000, 0.0)] * 3:
            client = Ignorant(direct, name, "kip73", record_bytes=record_bytes)
            time.sleep(max(free_at - time.monotonic(), 0.0) + pause)
            size, told = client.produce()
            now = time.monotonic()
            ours.charge(size, now)
            found.append((told, ours.throttle_seconds(now)))
            free_at = now + told
            client.close()

    await trio.to_thread.run_sync(set_client_quotas, direct, {"kip73": float(RATE)})
    async with five_partitions(shared_listener) as name:
        await trio.to_thread.run_sync(produce, name)
    told, computed = zip(*found, strict=True)
    assert sum(each > 0 for each in told) > 6
    assert computed == pytest.approx(told, abs=0.03)


@pytest.mark.brokers
@pytest.mark.timeout(90)
async def test_librdkafka_keeps_to_its_quota_and_a_client_that_is_exempt_is_not_held(shared_listener: Cluster) -> None:
    """The short form."""
    client = QuotaClient(None, records=15)
    found = await through_the_sidecar(shared_listener, client, "short-")
    assert_undisturbed(found)
    for flow in found.producers.values():
        assert_kept(flow, one_more=client.batch_bytes)
    sidecar = shared_listener.sidecars[BROKER]
    counted = sidecar.metrics()[PASSED]
    free = await through_the_sidecar(shared_listener, client, "free-")
    assert max(flow.throttle_ms for flow in (free.producers | free.members).values()) == 0
    assert sidecar.metrics()[PASSED] == counted
