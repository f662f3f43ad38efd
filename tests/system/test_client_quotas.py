"""A producer and a consumer under a client quota of the sidecar, beside the broker's own quota in the same run.

Both are told their throttle times, keep to the rate, are never disconnected and lose nothing.
"""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
import trio

from lab.brokers.jars import java_command, kafka_jars
from lab.brokers.releases import release
from lab.cluster.cluster import cluster
from lab.cluster.plan import ClusterPlan
from lab.host.addresses import KAFKA_PORT, hosts_file
from lab.moves.scenes import topic
from lab.sidecars.sidecars import SidecarPlan

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from lab.cluster.cluster import Cluster

CLIENTS = Path(__file__).parent / "clients"
BROKER, OTHER = 101, 102
RATE = 2_000_000
RECORDS = 100
"""Of 100 kB: five seconds of the quota."""
QUOTAS = f"""
[clients.default]
producer_byte_rate = {RATE}
consumer_byte_rate = {RATE}
[clients.free]
producer_byte_rate = "unlimited"
consumer_byte_rate = "unlimited"
"""
BURST_SECONDS = 0.25
RESPONSE_BYTES = RATE
"""The most that one answer brings: a second of the quota."""
NATIVE_BURST_SECONDS = 10


class Outcome(NamedTuple):
    """What a client carried: (seconds, bytes) of each record; `told` by who: the longest throttle time in ms."""

    acked: list[tuple[float, int]]
    read: list[tuple[float, int]]
    told_ms: dict[str, int]
    closed: dict[str, int]


async def outcome_of(
    running: Cluster, name: str, client_id: str, *, kafka: str | None, count: int = RECORDS, native: int = 0
) -> Outcome:
    """Run a client to its end: through the sidecar, or to the broker itself where it has a quota of its own."""
    address_of = running.addresses.direct if native else running.addresses.ingress
    brokers = [(running.addresses.name(broker), address_of(broker)) for broker in (BROKER, OTHER)]
    hosts, (where, _) = hosts_file(running.home / f"hosts-of-{client_id}", brokers), brokers[0]
    done = await trio.run_process(
        [*command(kafka, hosts), f"{where}:{KAFKA_PORT}", name, client_id, str(count), str(native)],
        capture_stdout=True,
        capture_stderr=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()[-4000:]
    events = [line.split() for line in done.stdout.decode().splitlines()]
    assert not [event for event in events if event[0] in ("failed", "error")]
    digests = {kind: Counter(event[3] for event in events if event[0] == kind) for kind in ("acked", "read")}
    assert digests["acked"] == digests["read"]
    assert sum(digests["read"].values()) == count
    carried = {
        kind: [(int(event[1]) / 1000, int(event[2])) for event in events if event[0] == kind]
        for kind in ("acked", "read")
    }
    told, closed = (
        {event[1]: int(event[2]) for event in events if event[0] == kind} for kind in ("throttled", "closed")
    )
    return Outcome(carried["acked"], carried["read"], told, closed)


def command(kafka: str | None, hosts: Path) -> list[str]:
    if kafka is not None:
        options = [f"-Djdk.net.hosts.file={hosts}", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        return [java_command(), *options, "-cp", f"{kafka_jars(kafka)}/*", str(CLIENTS / "Throttled.java")]
    own_hosts = 'mount --bind "$0" /etc/hosts && exec "$@"'
    alone = ["unshare", "--map-root-user", "--mount", "sh", "-c", own_hosts, str(hosts)]
    return [*alone, sys.executable, str(CLIENTS / "throttled.py")]


def rate(carried: list[tuple[float, int]]) -> float:
    """Bytes per second after the first record."""
    return sum(size for _, size in carried[1:]) / (carried[-1][0] - carried[0][0])


def worst_second(carried: list[tuple[float, int]]) -> float:
    return max(sum(size for at, size in carried if began <= at < began + 1) for began, _ in carried)


def assert_throttled(found: Outcome) -> None:
    assert found.closed == {"producer": 0, "consumer": 0}
    for carried in (found.acked, found.read):
        assert 0.9 * RATE <= rate(carried) <= 1.2 * RATE  # the burst is a twentieth of five seconds
        assert worst_second(carried) <= (1 + BURST_SECONDS) * RATE + RESPONSE_BYTES
    assert min(found.told_ms.values()) > 0


def figures(found: Outcome) -> dict[str, object]:
    return {
        "produced_bytes_per_second": round(rate(found.acked)),
        "consumed_bytes_per_second": round(rate(found.read)),
        "worst_second_produced": worst_second(found.acked),
        "worst_second_consumed": worst_second(found.read),
        "told_ms": found.told_ms,
    }


@asynccontextmanager
async def brokers_of(protocol: str) -> AsyncIterator[Cluster]:
    plan = ClusterPlan(brokers=(BROKER, OTHER), release=release(protocol=protocol), sidecars=SidecarPlan(quotas=QUOTAS))
    async with cluster(plan) as running:
        yield running


@pytest.mark.brokers
async def test_librdkafka_keeps_to_its_quota_and_a_client_that_is_exempt_is_not_held() -> None:
    async with brokers_of("4.1") as running:
        async with topic(running, {0: [BROKER]}) as name:
            assert_throttled(await outcome_of(running, name, "app", kafka=None))
        counted = running.sidecars[BROKER].metrics()["replication_throttle_client_bytes_total"]
        assert min(counted.values()) >= RECORDS * 100_000
        async with topic(running, {0: [BROKER]}) as name:
            free = await outcome_of(running, name, "free", kafka=None)
        assert min(rate(free.acked), rate(free.read)) > 5 * RATE
        assert max(free.told_ms.values()) == 0
        assert running.sidecars[BROKER].metrics()["replication_throttle_client_bytes_total"].keys() == counted.keys()


@pytest.mark.system
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("protocol", "kafka"), [("3.9", "3.9.1"), ("4.1", "4.1.0"), ("4.4", "4.4.0")])
async def test_beside_the_brokers_own_quota(protocol: str, kafka: str, record: Callable[..., None]) -> None:
    async with brokers_of(protocol) as running:
        async with topic(running, {0: [BROKER]}) as name:
            ours = await outcome_of(running, name, "app", kafka=kafka)
        # Ten seconds of the quota pass at once, and then the broker throttles.
        count = RECORDS + NATIVE_BURST_SECONDS * RATE // 100_000
        async with topic(running, {0: [BROKER]}) as name:
            native = await outcome_of(running, name, "native", kafka=kafka, count=count, native=RATE)
    record("client_quotas", kafka=kafka, brokers=protocol, ours=figures(ours), native=figures(native))
    assert_throttled(ours)
    assert min(native.told_ms.values()) > 0
    for mine, theirs in ((ours.acked, native.acked), (ours.read, native.read)):
        assert worst_second(mine) < worst_second(theirs)
