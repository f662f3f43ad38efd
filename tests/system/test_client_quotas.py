"""Clients of several libraries under client quotas of the sidecar, beside the broker's own quotas in the same run.

One cluster of Kafka 4.1 for all. `python -m benchmarks.client_quotas` has the wider table. The broker's window is
two seconds instead of eleven, so that its burst is over sooner.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trio

from lab.brokers.releases import release
from lab.clients.impatient_producer import ImpatientProducer
from lab.clients.program import ClientProgram, ingresses, servers
from lab.clients.quota_client import Flow, QuotaClient, set_client_quotas
from lab.cluster.cluster import cluster, start_cluster
from lab.cluster.plan import ClusterPlan
from lab.moves.scenes import topic
from lab.sidecars.sidecars import UNLIMITED, SidecarPlan
from proxy.clients.budgets import ByRate

from .request_log import request_log

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from lab.clients.quota_client import Outcome
    from lab.cluster.cluster import Cluster

CLIENTS = Path(__file__).parent / "clients"
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
LIBRARIES = [QuotaClient(kafka, records=40) for kafka in ("3.9.1", "4.1.0", "4.4.0", None)]
PASSED = "replication_throttle_client_bytes_total"
MUTED = "replication_throttle_client_throttle_time_seconds_total"
MARKERS_MISSING = "CONCURRENT_TRANSACTIONS"
"""The answer of a busy broker to the first batch of a transaction until the markers of the last one are written
(KIP-890). Batches that are in flight behind it are then out of order."""


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
        return await client.run(running, name, prefix, ingresses(running))


async def under_the_brokers_quota(running: Cluster, client: QuotaClient, prefix: str) -> Outcome:
    quotas: dict[str | None, float | None] = dict.fromkeys(client.client_ids(prefix), float(RATE))
    await trio.to_thread.run_sync(set_client_quotas, running.addresses.direct(BROKER), quotas)
    async with five_partitions(running) as name:
        brokers = {broker: running.addresses.direct(broker) for broker in (BROKER, OTHER)}
        return await client.run(running, name, prefix, brokers)


def assert_undisturbed(found: Outcome) -> None:
    """Nothing was lost or came twice, as every outcome says; no connection was closed, and what was sent again, the
    broker had asked for."""
    assert found.rebalances == 0
    for who, flow in (found.producers | found.members).items():
        assert (who, flow.closed) == (who, 0)
        assert flow.retries[:1] in ((), (MARKERS_MISSING,)), (who, flow.retries)
        assert set(flow.retries) <= {MARKERS_MISSING, "OUT_OF_ORDER_SEQUENCE_NUMBER"}, who


def assert_told(found: Outcome) -> None:
    """Clients were told to wait: producers unless the machine made them slower than their quota, members unless the
    first one had all."""
    assert any(flow.throttle_ms > 0 for flow in found.producers.values())
    assert all(flow.throttle_ms > 0 for flow in found.members.values() if flow.carried)


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
@pytest.mark.parametrize("client", LIBRARIES, ids=lambda client: client.name)
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
    record("client_quotas_beside", client=client.name, **{way: figures(outcome) for way, outcome in found.items()})
    for outcome in found.values():
        assert_undisturbed(outcome)
    assert_told(found["ours"])
    counted = shared_listener.sidecars[BROKER].metrics()
    for who, flow in found["ours"].producers.items():
        assert_kept(flow, one_more=client.batch_bytes)
        # A producer waits for the batch that went over the quota, where a broker has let seconds' worth through before.
        assert flow.throttle_ms <= 1000 * client.batch_bytes / RATE
        # How fast it is beside ten others is the machine's: it was muted for no longer than its bytes take.
        labels = f'entity="{who}",kind="producer"'
        assert counted[MUTED].get(labels, 0) <= counted[PASSED][labels] / RATE
    for flow in found["ours"].members.values():
        assert_kept(flow, one_more=LARGEST_FETCH_BYTES)


@pytest.mark.system
@pytest.mark.timeout(120)
@pytest.mark.parametrize("kafka", ["4.1.0", None], ids=["kafka-clients", "librdkafka"])
async def test_a_very_low_quota_times_nobody_out_and_java_clients_wait(
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
    assert_told(found)
    record("client_quotas_low", client=client.name, **figures(found), longest=max(log.throttle_seconds))
    assert max(log.throttle_seconds) > 5
    # librdkafka reports throttle times and does not wait for them: the mute holds it.
    early = max((seconds for seconds, _ in log.early()), default=0.0)
    assert early < 0.02 if kafka else early > 1


@pytest.mark.system
@pytest.mark.timeout(60)
async def test_a_client_that_ignores_its_throttle_time_is_held_by_the_mute(shared_listener: Cluster) -> None:
    """As kafka-python did before it waited by itself (its issue 2506)."""
    address = shared_listener.addresses.ingress(BROKER)
    async with five_partitions(shared_listener) as name:
        client = ImpatientProducer(address, name, "ignorant")
        rate = await trio.to_thread.run_sync(client.produce_for, 5.0)
        assert rate == pytest.approx(RATE, rel=0.12)  # the burst is a twentieth
        client.close()
        flood = ImpatientProducer(address, name, "flood", acks=0)
        with trio.move_on_after(4):
            await trio.to_thread.run_sync(flood.produce_for, 60.0, abandon_on_cancel=True)
        counted = shared_listener.sidecars[BROKER].metrics()[PASSED]
        (passed,) = (size for labels, size in counted.items() if 'entity="flood"' in labels)
        assert passed <= RATE * (4 + BURST_SECONDS + 0.5) + 50_100
        flood.close()


@pytest.mark.system
@pytest.mark.timeout(60)
async def test_the_default_is_for_each_client_id_by_itself_as_the_brokers_is(shared_listener: Cluster) -> None:
    """And for none that is empty."""
    direct, ingress = shared_listener.addresses.direct(BROKER), shared_listener.addresses.ingress(BROKER)
    rates: dict[str, float] = {}
    told = list[float]()

    async def produce_without_id(address: str, name: str) -> None:
        client = ImpatientProducer(address, name, "", record_bytes=500_000)
        for _ in range(6):  # three seconds of the quota
            told.append((await trio.to_thread.run_sync(client.produce))[1])
        client.close()

    async def produce(address: str, name: str, client_id: str) -> None:
        client = ImpatientProducer(address, name, client_id)
        await trio.to_thread.run_sync(client.produce_for, 3.0)  # the bursts
        rates[client_id] = await trio.to_thread.run_sync(client.produce_for, 4.0)
        client.close()

    await trio.to_thread.run_sync(set_client_quotas, direct, {None: RATE / 2})
    try:
        async with five_partitions(shared_listener) as name, trio.open_nursery() as nursery:
            for client_id in ("broker-a", "broker-b"):
                nursery.start_soon(produce, direct, name, client_id)
            nursery.start_soon(produce_without_id, direct, name)
    finally:
        await trio.to_thread.run_sync(set_client_quotas, direct, {None: None})
    async with five_partitions(shared_listener) as name, trio.open_nursery() as nursery:
        for client_id in ("sidecar-a", "sidecar-b"):
            nursery.start_soon(produce, ingress, name, client_id)
        nursery.start_soon(produce_without_id, ingress, name)
    broker, sidecar = ([rates[f"{where}-{one}"] for one in "ab"] for where in ("broker", "sidecar"))
    assert (
        min(broker) > 0.6 * RATE / 2
    )  # by a window of two samples it is throttled too long; together it would be half
    assert sidecar == pytest.approx([RATE] * 2, rel=0.15)
    assert told == [0.0] * 12


@pytest.mark.system
@pytest.mark.timeout(60)
async def test_a_change_is_followed_within_a_quarter_of_a_second(
    shared_listener: Cluster, record: Callable[..., None]
) -> None:
    """From the file's rename on: to the next request of a muted client, and to the first throttle time."""
    sidecar, address = shared_listener.sidecars[BROKER], shared_listener.addresses.ingress(BROKER)
    raised, lowered = list[float](), list[float]()
    async with five_partitions(shared_listener) as name:
        client = ImpatientProducer(address, name, "low-changed", record_bytes=200_000)

        async def produce_again(began: list[float]) -> None:
            await trio.to_thread.run_sync(client.produce)
            raised.append(trio.current_time() - began[0])

        try:
            for _ in range(5):
                await sidecar.set_quotas(QUOTAS)
                _, told = await trio.to_thread.run_sync(client.produce)
                assert told > 5
                began = list[float]()
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(produce_again, began)
                    await trio.sleep(0.5)
                    began.append(trio.current_time())
                    sidecar.write_quotas(UNLIMITED)
                sidecar.write_quotas(QUOTAS)
                changed = trio.current_time()
                while not (await trio.to_thread.run_sync(client.produce))[1]:
                    pass
                lowered.append(trio.current_time() - changed)
                await sidecar.set_quotas(UNLIMITED)
        finally:
            await sidecar.set_quotas(QUOTAS)
        client.close()
    record("client_quotas_changed", raised=raised, lowered=lowered)
    assert max(raised + lowered) < 0.25


@pytest.mark.system
@pytest.mark.timeout(60)
async def test_a_mute_and_its_debt_follow_a_hand_over(shared_listener: Cluster) -> None:
    address = shared_listener.addresses.ingress(BROKER)
    async with five_partitions(shared_listener) as name:
        muted = ImpatientProducer(address, name, "low-handed", record_bytes=300_000)
        _, told = await trio.to_thread.run_sync(muted.produce)
        began = trio.current_time()
        assert told == pytest.approx(300_000 / LOW_RATE - BURST_SECONDS, abs=0.2)
        await shared_listener.sidecars[BROKER].hand_over()
        left = told - (trio.current_time() - began)
        assert left > 2
        other = ImpatientProducer(address, name, "low-other", record_bytes=100)  # of the same glob
        asked = trio.current_time()
        await trio.to_thread.run_sync(other.produce)  # it waits until the debt is paid
        assert trio.current_time() - asked == pytest.approx(left, abs=0.5)
        await trio.to_thread.run_sync(muted.produce)
        assert trio.current_time() - began > told - 0.1
        muted.close()
        other.close()


@pytest.mark.system
@pytest.mark.timeout(90)
async def test_a_share_group_keeps_to_its_quota_and_gets_every_record_once(record: Callable[..., None]) -> None:
    """KIP-932, which brokers count under consumer_byte_rate, too. Kafka 4.4 has share groups by default."""
    overrides = {
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "share.coordinator.state.topic.num.partitions": "2",
    }
    plan = ClusterPlan(
        brokers=(BROKER, OTHER), release=release(protocol="4.4"), broker_overrides=overrides, taps=False,
        sidecars=SidecarPlan(quotas=QUOTAS),
    )  # fmt: skip
    async with cluster(plan) as running, topic(running, {0: [BROKER]}) as name:
        filler = ImpatientProducer(running.addresses.direct(BROKER), name, "filler")
        await trio.to_thread.run_sync(lambda: [filler.produce() for _ in range(100)])
        filler.close()
        reader = ClientProgram(CLIENTS / "ShareReader.java", "4.4.0")
        events = await reader.run(running, ingresses(running), (servers(running), name, "share", 100))
        counted = running.sidecars[BROKER].metrics()[PASSED]
    *read, throttled = events
    assert Counter((place, delivery) for _, _, _, place, delivery in read) == {(f"0@{n}", "1"): 1 for n in range(100)}
    flow = Flow(tuple((int(at) / 1000, int(size)) for _, at, size, _, _ in read), int(throttled[1]), 0, 0, ())
    record("client_quotas_share_group", rate=round(flow.bytes_per_second), told_ms=flow.throttle_ms)
    assert_kept(flow, one_more=LARGEST_FETCH_BYTES)
    assert flow.throttle_ms > 500
    (passed,) = (size for labels, size in counted.items() if 'entity="share"' in labels)
    assert passed == pytest.approx(100 * 50_000, rel=0.01)


@pytest.mark.system
@pytest.mark.timeout(60)
async def test_the_throttle_times_of_kip73_are_the_brokers(shared_listener: Cluster) -> None:
    """The broker mutes for its throttle time, so each request is dealt with when the last one's is over."""
    direct, found = shared_listener.addresses.direct(BROKER), list[tuple[float, float]]()

    def produce(name: str) -> None:
        ours = ByRate(RATE, samples=WINDOWS, sample_seconds=1.0)
        free_at = 0.0
        for record_bytes, pause in [(900_000, 0.0)] * 4 + [(300_000, 0.2), (900_000, 1.3), (900_000, 0.0)] * 3:
            client = ImpatientProducer(direct, name, "kip73", record_bytes=record_bytes)
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
    assert_told(found)
    for flow in found.producers.values():
        assert_kept(flow, one_more=client.batch_bytes)
    free = await through_the_sidecar(shared_listener, client, "free-")
    assert max(flow.throttle_ms for flow in (free.producers | free.members).values()) == 0
    assert not [labels for labels in shared_listener.sidecars[BROKER].metrics()[PASSED] if 'entity="free-' in labels]
